"""Text → a WordPiece vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bertkit.errors import DataError, RecipeError

if TYPE_CHECKING:
    from transformers import BertTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""In the order of their ids: [PAD] is 0."""


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, lowercase: bool = True, model_max_length: int = 512
) -> BertTokenizer:
    """A WordPiece tokenizer whose vocabulary is learned from ``texts``.

    Text is cleaned of control characters and split at white space, at punctuation and around every CJK character, as
    the released ``tokenization.py`` does; ``lowercase`` also strips accents ("Piña" → "pina"), cased text keeps both.
    Pieces are merged by pair frequency, as the ``tokenizers`` library does it: the trainer of the released vocabulary
    was never published. The ids are: the special tokens, the single characters in code point order, the same as word
    continuations (``##a``), then the merged pieces as they were found.

    The same texts give the same vocabulary in every process. They are read twice: an iterator that can be read only
    once is held in memory, a list or an object such as `TextLines` is read anew.

    Args:
        texts: any pieces of text; a line or a paragraph each is a good size. Words never span two of them.
        vocab_size: pieces, special tokens included. A small text can have fewer to give.
        lowercase: uncased, as ``bert-base-uncased``; False is cased.
        model_max_length: tokens of the longest input that the model takes: its ``max_position_embeddings``.

    Raises:
        RecipeError: ``vocab_size`` has no room for the special tokens and every character of the text. The message
            says what it needs.
        DataError: there is no text.

    >>> tokenizer = train_tokenizer(["low lower lowest"], vocab_size=30)
    >>> tokenizer.tokenize("Lowest, low")
    ['lowest', '[UNK]', 'low']
    """
    from transformers import BertTokenizer

    if isinstance(texts, Iterator):
        texts = list(texts)
    # The library's trainer numbers the characters in the order of a randomly seeded hash map, and breaks ties between
    # pairs by those numbers. Naming the characters in a fixed order beforehand makes it deterministic.
    alphabet = set(_learn_vocabulary(texts, 0, lowercase, ())) - set(SPECIAL_TOKENS)
    if not alphabet:
        raise DataError("no text to train a tokenizer on: the given text is empty, or white space only")
    fixed = [*SPECIAL_TOKENS, *sorted(alphabet, key=lambda piece: (len(piece) > 1, piece))]
    if vocab_size < len(fixed):
        raise RecipeError(
            f"vocab_size: {vocab_size} is too small: the {len(SPECIAL_TOKENS)} special tokens and the {len(alphabet)} "
            f"characters of this text (alone and inside a word) need {len(fixed)}; give at least that, better "
            f"{2 * len(fixed)} or more"
        )
    vocabulary = _learn_vocabulary(texts, vocab_size, lowercase, fixed)
    return BertTokenizer(vocab=vocabulary, do_lower_case=lowercase, model_max_length=model_max_length)


def _learn_vocabulary(texts: Iterable[str], size: int, lowercase: bool, fixed: Iterable[str]) -> dict[str, int]:
    """Piece → id; ``fixed`` take the first ids. A ``size`` of 0 gives the characters only."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(fixed) or list(SPECIAL_TOKENS), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    return dict(sorted(learner.get_vocab().items(), key=lambda item: item[1]))
