"""Text → a vocabulary: WordPiece, as BERT has, or byte-level BPE, as RoBERTa and ModernBERT have."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from bertkit.data.corpus.vocabulary.likelihood import count_words, learn_pieces
from bertkit.runtime.errors import DataError, RecipeError, listed

if TYPE_CHECKING:
    from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

logger = logging.getLogger(__name__)
MergeScore = Literal["frequency", "likelihood"]
TokenizerType = Literal["wordpiece", "byte_level_bpe"]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Special tokens in the order of their ids: [PAD] is 0."""
BYTE_LEVEL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Special tokens of byte-level BPE in the order of their ids; the first four have those of RoBERTa: <pad> is 1."""
_MOST_PIECES = 1 << 24  # the library reserves memory for all of them, and ends the process where there is none


def train_vocabulary(
    tokenizer_type: TokenizerType,
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    model_max_length: int = 512,
    merge_score: MergeScore = "frequency",
    min_frequency: int | None = None,
) -> PreTrainedTokenizerFast:
    """Trains a tokenizer of either type on ``texts``; byte-level BPE keeps case and has one merge score.

    Args:
        tokenizer_type: ``wordpiece``, see `train_tokenizer`, or ``byte_level_bpe``, see `train_byte_level`.
        texts, vocab_size, lowercase, model_max_length, merge_score, min_frequency: as for `train_tokenizer`.

    Raises:
        RecipeError, DataError: as these functions; or the type is unknown, ``merge_score`` does not apply to it, or the
            vocabulary is larger than any text needs.
    """
    if tokenizer_type not in get_args(TokenizerType):
        raise RecipeError(f"tokenizer_type: {tokenizer_type!r} is not one of {', '.join(get_args(TokenizerType))}")
    if vocab_size > _MOST_PIECES:
        raise RecipeError(f"vocab_size: {vocab_size} is too large; expected at most {_MOST_PIECES}")
    if tokenizer_type == "byte_level_bpe":
        if merge_score != "frequency":
            raise RecipeError(f"merge_score: {merge_score!r} is for wordpiece; byte_level_bpe merges by frequency")
        return train_byte_level(texts, vocab_size, model_max_length, min_frequency)
    return train_tokenizer(texts, vocab_size, lowercase, model_max_length, merge_score, min_frequency)


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    model_max_length: int = 512,
    merge_score: MergeScore = "frequency",
    min_frequency: int | None = None,
) -> BertTokenizer:
    """Trains a WordPiece tokenizer on ``texts``.

    As in the released ``tokenization.py``, control characters are removed and the text is split at white space, at
    punctuation and around every CJK character. ``lowercase`` also strips accents ("Piña" → "pina"); cased text keeps
    case and accents. The ids are assigned in this order: special tokens, single characters in code point order, those
    that occur within words as continuations (``##a``), merged pieces in the order of the merges.

    The trainer of the released vocabulary was never published. Pieces are merged by pair frequency, as in the
    ``tokenizers`` library, or by the likelihood score freq(ab) / (freq(a) · freq(b)), as the literature describes
    WordPiece (`learn_pieces`).

    The result is deterministic: the same texts give the same vocabulary in every process. With ``"frequency"`` the
    texts are read twice: an iterator is first copied into a list in memory; a list or an object such as `TextLines` is
    iterated again.

    Args:
        texts: strings of any length, such as lines or paragraphs. A word never spans two of them.
        vocab_size: maximum number of pieces, including special tokens. A small text can yield fewer.
        lowercase: True for an uncased vocabulary such as ``bert-base-uncased``; False for a cased one.
        model_max_length: maximum input length of the model in tokens: its ``max_position_embeddings``.
        merge_score: score that selects the next pair to merge, ``"frequency"`` or ``"likelihood"``.
        min_frequency: minimum count of a pair to be merged, at least 1; a warning is logged if the vocabulary then
            stays below ``vocab_size``. None means 1 for ``"frequency"`` and a decreasing bound for ``"likelihood"``.

    Raises:
        RecipeError: ``vocab_size`` is too small for the special tokens and all characters of the text (the message
            gives the minimum), or ``merge_score`` or ``min_frequency`` is invalid.
        DataError: the texts are empty.

    >>> tokenizer = train_tokenizer(["low lower lowest"], vocab_size=30)
    >>> tokenizer.tokenize("Lowest, low")
    ['lowest', '[UNK]', 'low']
    """
    from transformers import BertTokenizer

    faults = []
    if merge_score not in get_args(MergeScore):
        faults.append(f"merge_score: {merge_score!r} is not one of {', '.join(get_args(MergeScore))}")
    if min_frequency is not None and min_frequency < 1:
        faults.append(f"min_pair_frequency: {min_frequency} is not at least 1")
    if faults:
        raise RecipeError(listed(faults))
    if merge_score == "likelihood":
        words = count_words(texts, lowercase)
        alphabet = {character for word in words for character in word}
        alphabet |= {f"##{character}" for word in words for character in word[1:]}
        fixed = _fixed_pieces(alphabet, vocab_size)
        pieces = [*fixed, *learn_pieces(words, vocab_size - len(fixed), min_frequency)]
    else:
        if isinstance(texts, Iterator):
            texts = list(texts)
        # The library's trainer numbers the characters in the order of a randomly seeded hash map and breaks ties
        # between pairs by these numbers. Passing the characters in a fixed order makes it deterministic.
        fixed = _fixed_pieces(set(_library_pieces(texts, 0, lowercase, SPECIAL_TOKENS)), vocab_size)
        pieces = _library_pieces(texts, vocab_size, lowercase, fixed, min_frequency or 1)
    _warn_of_few(len(pieces), vocab_size, min_frequency)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocabulary, do_lower_case=lowercase, model_max_length=model_max_length)


def _warn_of_few(pieces: int, vocab_size: int, min_frequency: int | None) -> None:
    if min_frequency is not None and pieces < vocab_size:
        logger.warning(
            "the vocabulary has %d of %d pieces: no other pair of pieces occurs %d times in this text "
            "(min_pair_frequency)",
            pieces,
            vocab_size,
            min_frequency,
        )


def _fixed_pieces(alphabet: set[str], vocab_size: int) -> list[str]:
    """Returns the special tokens and the characters, in the order of their ids."""
    alphabet = alphabet - set(SPECIAL_TOKENS)
    if not alphabet:
        raise DataError("no text to train a tokenizer on: the given text is empty or only white space")
    fixed = [*SPECIAL_TOKENS, *sorted(alphabet, key=lambda piece: (len(piece) > 1, piece))]
    if vocab_size < len(fixed):
        raise RecipeError(
            f"vocab_size: {vocab_size} is too small: the {len(SPECIAL_TOKENS)} special tokens and the {len(alphabet)} "
            f"characters of this text (alone and inside a word) need {len(fixed)}; give at least that, preferably "
            f"{2 * len(fixed)} or more"
        )
    return fixed


def _library_pieces(
    texts: Iterable[str], size: int, lowercase: bool, fixed: Sequence[str], min_frequency: int = 1
) -> list[str]:
    """Trains with the ``tokenizers`` library and returns the pieces in the order of their ids, ``fixed`` first.

    With a ``size`` of 0 the result is ``fixed`` and the characters of the texts.
    """
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


def train_byte_level(
    texts: Iterable[str], vocab_size: int, model_max_length: int = 512, min_frequency: int | None = None
) -> RobertaTokenizer:
    """Trains a byte-level BPE tokenizer on ``texts``, with the rules of GPT-2 and RoBERTa.

    The text is split where letters, digits and other characters meet; a space belongs to the word after it. Words are
    sequences of bytes, so every text can be encoded, and case and accents are kept. The most frequent pair of pieces is
    merged next. The ids are assigned in this order: special tokens, the 256 bytes, merged pieces in the order of the
    merges. The same texts give the same vocabulary in every process.

    Args:
        texts: strings of any length, such as lines or paragraphs. A word never spans two of them.
        vocab_size: maximum number of pieces, including special tokens; at least 261.
        model_max_length: maximum input length of the model in tokens.
        min_frequency: as for `train_tokenizer`; None means 1.

    Raises:
        RecipeError: ``vocab_size`` is too small, or ``min_frequency`` is below 1.
        DataError: the texts are empty.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import RobertaTokenizer

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(BYTE_LEVEL_TOKENS) + len(alphabet)
    if vocab_size < least:
        raise RecipeError(
            f"vocab_size: {vocab_size} is too small: the {len(BYTE_LEVEL_TOKENS)} special tokens and the "
            f"{len(alphabet)} bytes of a byte-level vocabulary need {least}"
        )
    if min_frequency is not None and min_frequency < 1:
        raise RecipeError(f"min_pair_frequency: {min_frequency} is not at least 1")
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    seen = False

    def read() -> Iterable[str]:
        nonlocal seen
        for text in texts:
            seen = seen or bool(text.strip())
            yield text

    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(BYTE_LEVEL_TOKENS),
        min_frequency=min_frequency or 1,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    learner.train_from_iterator(read(), trainer)
    if not seen:
        raise DataError("no text to train a tokenizer on: the given text is empty or only white space")
    model = json.loads(learner.to_str())["model"]
    _warn_of_few(len(model["vocab"]), vocab_size, min_frequency)
    merges = [tuple(pair) for pair in model["merges"]]
    # The mask takes the place of a word with the space in front.
    mask = AddedToken(BYTE_LEVEL_TOKENS[-1], lstrip=True, special=True)
    return RobertaTokenizer(vocab=model["vocab"], merges=merges, mask_token=mask, model_max_length=model_max_length)
