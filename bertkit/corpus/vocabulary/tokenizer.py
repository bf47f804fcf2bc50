"""Text → a WordPiece vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from bertkit.corpus.vocabulary.likelihood import count_words, learn_pieces
from bertkit.errors import DataError, RecipeError, listed

if TYPE_CHECKING:
    from transformers import BertTokenizer

logger = logging.getLogger(__name__)

MergeScore = Literal["frequency", "likelihood"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""In the order of their ids: [PAD] is 0."""


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    model_max_length: int = 512,
    merge_score: MergeScore = "frequency",
    min_frequency: int | None = None,
) -> BertTokenizer:
    """A WordPiece tokenizer whose vocabulary is learned from ``texts``.

    Text is cleaned of control characters and split at white space, at punctuation and around every CJK character, as
    the released ``tokenization.py`` does; ``lowercase`` also strips accents ("Piña" → "pina"), cased text keeps both.
    The ids are: the special tokens, the single characters in code point order, the same as word continuations
    (``##a``), then the merged pieces as they were found.

    The trainer of the released vocabulary was never published. Pieces are merged by the frequency of a pair, as the
    ``tokenizers`` library does it, or by its likelihood score freq(ab) / (freq(a) · freq(b)), as the literature
    describes WordPiece (`learn_pieces`).

    The same texts give the same vocabulary in every process. By frequency, they are read twice: an iterator that can
    be read only once is held in memory, a list or an object such as `TextLines` is read anew.

    Args:
        texts: any pieces of text; a line or a paragraph each is a good size. Words never span two of them.
        vocab_size: pieces, special tokens included. A small text can have fewer to give.
        lowercase: uncased, as ``bert-base-uncased``; False is cased.
        model_max_length: tokens of the longest input that the model takes: its ``max_position_embeddings``.
        merge_score: which pair of pieces is merged next, ``"frequency"`` or ``"likelihood"``.
        min_frequency: how often a pair has to occur to be merged, at least 1; where that leaves the vocabulary smaller
            than ``vocab_size``, a warning says so. None is 1 by frequency, and a bound that falls by likelihood.

    Raises:
        RecipeError: ``vocab_size`` has no room for the special tokens and every character of the text (the message
            says what it needs), or ``merge_score`` or ``min_frequency`` is none of the above.
        DataError: there is no text.

    >>> tokenizer = train_tokenizer(["low lower lowest"], vocab_size=30)
    >>> tokenizer.tokenize("Lowest, low")
    ['lowest', '[UNK]', 'low']
    """
    from transformers import BertTokenizer

    _check(merge_score, min_frequency)
    learn = _by_likelihood if merge_score == "likelihood" else _by_frequency
    pieces = learn(texts, vocab_size, lowercase, min_frequency)
    if min_frequency is not None and len(pieces) < vocab_size:
        logger.warning(
            "the vocabulary has %d of %d pieces: no other pair of pieces occurs %d times in this text (min_frequency)",
            len(pieces),
            vocab_size,
            min_frequency,
        )
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocabulary, do_lower_case=lowercase, model_max_length=model_max_length)


def _check(merge_score: str, min_frequency: int | None) -> None:
    faults = []
    if merge_score not in get_args(MergeScore):
        faults.append(f"merge_score: {merge_score!r} is not one of {', '.join(get_args(MergeScore))}")
    if min_frequency is not None and min_frequency < 1:
        faults.append(f"min_frequency: {min_frequency} is not at least 1")
    if faults:
        raise RecipeError(listed(faults))


def _by_frequency(texts: Iterable[str], vocab_size: int, lowercase: bool, min_frequency: int | None) -> list[str]:
    if isinstance(texts, Iterator):
        texts = list(texts)
    # The library's trainer numbers the characters in the order of a randomly seeded hash map, and breaks ties between
    # pairs by those numbers. Naming the characters in a fixed order beforehand makes it deterministic.
    fixed = _fixed_pieces(set(_library_pieces(texts, 0, lowercase, SPECIAL_TOKENS)), vocab_size)
    return _library_pieces(texts, vocab_size, lowercase, fixed, min_frequency or 1)


def _by_likelihood(texts: Iterable[str], vocab_size: int, lowercase: bool, min_frequency: int | None) -> list[str]:
    words = count_words(texts, lowercase)
    alphabet = {character for word in words for character in word}
    alphabet |= {f"##{character}" for word in words for character in word[1:]}
    fixed = _fixed_pieces(alphabet, vocab_size)
    return [*fixed, *learn_pieces(words, vocab_size - len(fixed), min_frequency)]


def _fixed_pieces(alphabet: set[str], vocab_size: int) -> list[str]:
    """The special tokens and the characters, in the order of their ids."""
    alphabet = alphabet - set(SPECIAL_TOKENS)
    if not alphabet:
        raise DataError("no text to train a tokenizer on: the given text is empty, or white space only")
    fixed = [*SPECIAL_TOKENS, *sorted(alphabet, key=lambda piece: (len(piece) > 1, piece))]
    if vocab_size < len(fixed):
        raise RecipeError(
            f"vocab_size: {vocab_size} is too small: the {len(SPECIAL_TOKENS)} special tokens and the {len(alphabet)} "
            f"characters of this text (alone and inside a word) need {len(fixed)}; give at least that, better "
            f"{2 * len(fixed)} or more"
        )
    return fixed


def _library_pieces(
    texts: Iterable[str], size: int, lowercase: bool, fixed: Sequence[str], min_frequency: int = 1
) -> list[str]:
    """Pieces in the order of their ids; ``fixed`` take the first. A ``size`` of 0 gives the characters beside them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(fixed), min_frequency=min_frequency, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    vocabulary: dict[str, int] = learner.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)
