"""input_ids → masked input_ids, masked_positions, labels (BERT §3.1, task 1).

The rules are those of ``create_masked_lm_predictions`` of the released ``create_pretraining_data.py``, with these
differences: a random replacement is never a special token (the script draws it from the whole vocabulary); a word never
extends across [CLS] or [SEP] (the script joins a ``##`` piece at the start of segment B to the last word of A); and an
example with text has at least one prediction (the script's whole-word masking makes none if every word has too many
pieces).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.data.corpus.examples.randomness import Stream, halves_of_streams
from bertkit.data.corpus.vocabulary.structure import WordMarks
from bertkit.model.labels_bert import IGNORE_INDEX

_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class MaskingRules:
    """Settings of masking: how many tokens are predicted, and their replacements.

    Attributes:
        seed: seed of the run.
        mlm_probability: share of the tokens of an example that is predicted, above 0, at most 1.
        max_predictions_per_seq: P, maximum number of predictions of an example.
        mask_token_id: id of [MASK].
        ordinary_ids: ``(N,)`` int64, ids of random replacements, drawn uniformly.
        words: marks of the pieces that continue the word of the piece before them, for whole-word masking. None for
            masking of single tokens.
        mask_replace_prob, random_replace_prob: shares of the predicted tokens that become [MASK] and a random token;
            the other ones are unchanged.
    """

    seed: int
    mlm_probability: float
    max_predictions_per_seq: int
    mask_token_id: int
    ordinary_ids: NDArray[np.int64]
    words: WordMarks | None = None
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Result of `mask_tokens` and of `next_tokens`.

    Attributes:
        input_ids: ``(B, S)`` int64, with the replacements.
        masked_positions: ``(B, P)`` int64, ascending; 0 in unused slots.
        labels: ``(B, P)`` int64, ids to predict from the outputs at these positions; -100 in unused slots.
    """

    input_ids: NDArray[np.int64]
    masked_positions: NDArray[np.int64]
    labels: NDArray[np.int64]


def mask_tokens(
    input_ids: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    lengths: NDArray[np.int64],
    rules: MaskingRules,
    epoch: ArrayLike,
    index: ArrayLike,
) -> MaskedBatch:
    """Selects tokens to predict in each example, without replacement, and masks them.

    An example of ``length`` tokens has
    ``min(max_predictions_per_seq, max(1, round(length × mlm_probability)))`` tokens to predict, or all its candidates
    if these are fewer. Each becomes [MASK] with probability ``mask_replace_prob``, a random ordinary token (possibly
    itself) with ``random_replace_prob``, and is unchanged otherwise: 0.8, 0.1 and 0.1 in the paper.

    Whole words are drawn in random order. A word is selected with all its pieces if they fit into the remaining number,
    else skipped, so there can be fewer predictions. If every word has too many pieces, the first pieces of the word
    drawn first are selected, as many as fit: the only case in which a word is masked in part. The replacement of each
    piece is drawn independently. Without continuation pieces the selection is that of single tokens.

    Row b depends only on its own ids, candidates and length, ``rules``, ``epoch`` and ``index[b]``, not on other rows.

    Args:
        input_ids: ``(B, S)`` int64; not modified.
        candidates: ``(B, S)`` bool, True for the tokens of the text, False for [CLS], [SEP] and padding.
        lengths: ``(B,)``, tokens of each example, including [CLS] and [SEP], without padding.
        rules: settings of the selection.
        epoch: ``()`` or ``(B,)`` integers.
        index: ``(B,)`` integers, index of each row within its epoch.
    """
    width, slots = input_ids.shape[1], rules.max_predictions_per_seq
    wanted = np.clip(np.rint(lengths * rules.mlm_probability), 1, slots).astype(np.int64)
    count = np.minimum(wanted, candidates.sum(axis=1))
    numbers = {Stream.MASKED_POSITIONS: width, Stream.REPLACEMENTS: 2 * slots}
    drawn, replacements = halves_of_streams(rules.seed, numbers, epoch, index)
    # The column in the low bits makes the keys of a row distinct, so the order does not depend on the sort algorithm.
    keys = drawn << _HALF | np.arange(width, dtype=np.uint64)
    if rules.words is None:
        # The `count` candidates with the smallest keys: uniform without replacement.
        ascending = np.sort(np.where(candidates, keys, _LAST), axis=1)
        chosen = candidates & (keys <= np.take_along_axis(ascending, np.maximum(count - 1, 0)[:, None], axis=1))
    else:
        before = np.pad(candidates[:, :-1], ((0, 0), (1, 0)))
        opens_word = candidates & ~(before & rules.words.continues(input_ids))
        chosen = _select_whole_words(keys, candidates, opens_word, count)

    row, column = np.nonzero(chosen)
    taken = chosen.sum(axis=1)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
    originals = input_ids[row, column]
    positions = np.zeros((len(input_ids), slots), np.int64)
    positions[row, slot] = column
    labels = np.full_like(positions, IGNORE_INDEX)
    labels[row, slot] = originals

    action, pick = (replacements[row, 2 * slot + which] * 2.0**-32 for which in (0, 1))
    random_ids = rules.ordinary_ids[(pick * len(rules.ordinary_ids)).astype(np.int64)]
    masked = input_ids.copy()
    is_mask = action < rules.mask_replace_prob
    is_changed = action < rules.mask_replace_prob + rules.random_replace_prob
    masked[row, column] = np.select([is_mask, is_changed], [rules.mask_token_id, random_ids], originals)
    return MaskedBatch(masked, positions, labels)


def next_tokens(input_ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> MaskedBatch:
    """Makes every token but the first, [CLS], a prediction from the tokens before it.

    Args:
        input_ids: ``(B, S)`` int64; not modified.
        lengths: ``(B,)``, tokens of each example, including [CLS] and [SEP], without padding.

    Returns:
        The same ids; P = S - 1 slots, one for each position that a token follows, labelled with the id of that token.
    """
    positions = np.arange(input_ids.shape[1] - 1)
    used = positions + 1 < lengths[:, None]
    labels = np.where(used, input_ids[:, 1:], IGNORE_INDEX)
    return MaskedBatch(input_ids, np.where(used, positions, 0), labels)


def _select_whole_words(
    keys: NDArray[np.uint64],
    candidates: NDArray[np.bool_],
    opens_word: NDArray[np.bool_],
    count: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Selects words in the order of the keys of their first pieces, at most ``count[b]`` pieces, ``(B, S)`` bool."""
    height, width = keys.shape
    column = np.arange(width)
    # For each piece the column where its word begins; for each beginning the number of pieces of the word.
    beginning = np.maximum.accumulate(np.where(opens_word, column, 0), axis=1)
    flat = (beginning + width * np.arange(height)[:, None])[candidates]
    sizes = np.bincount(flat, minlength=height * width).reshape(height, width)
    order = np.argsort(np.where(opens_word, keys, _LAST), axis=1)
    fits = _select_fitting(np.take_along_axis(sizes, order, axis=1), count)
    taken = np.zeros_like(candidates)
    np.put_along_axis(taken, order, fits, axis=1)
    chosen = candidates & np.take_along_axis(taken, beginning, axis=1)
    first_pieces = (beginning == order[:, :1]) & (column - beginning < count[:, None])
    return chosen | (candidates & first_pieces & ~fits.any(axis=1, keepdims=True))


def _select_fitting(sizes: NDArray[np.int64], room: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Selects items from left to right, each if it fits into the rest of ``room[b]``, ``(B, N)`` bool.

    Items of size 0 are not selected. The rounds are at most one more than the largest size, independent of B and N.
    """
    open_ = sizes > 0
    while True:
        total = np.cumsum(np.where(open_, sizes, 0), axis=1)
        taken = open_ & (total <= room[:, None])
        left = room - np.where(taken, total, 0).max(axis=1, initial=0)
        # `left` only decreases: an item that is too large now is also too large when its turn comes.
        passed_over = open_ & ~taken & (sizes > left[:, None])
        if not passed_over.any():
            return taken
        open_ &= ~passed_over


def unigram_loss(train: NDArray[np.int64], held_out: NDArray[np.int64]) -> float:
    """Returns the cross-entropy of held-out tokens under the frequencies of the training text, in nats per token.

    Every count of the training text is increased by one. Since [MASK] hides tokens evenly, this is the masked LM loss
    of a model that knows frequencies alone.

    Args:
        train, held_out: counts of each id, (V,).

    >>> round(unigram_loss(np.array([1, 0]), np.array([1, 1])), 4)
    0.752
    """
    smoothed = (train + 1) / (train + 1).sum()
    return float(-(held_out * np.log(smoothed)).sum() / held_out.sum())
