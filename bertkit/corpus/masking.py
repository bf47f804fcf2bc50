"""input_ids → masked input_ids, masked_positions, labels (BERT §3.1, task 1).

The rules are those of ``create_masked_lm_predictions`` of the released ``create_pretraining_data.py``, with one
departure: a random replacement is never a special token. (The script draws it from the whole vocabulary.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.corpus.randomness import Stream, uniform

IGNORED = -100
"""The label of a slot without a prediction: what the cross-entropy of PyTorch ignores."""

MASK_SHARE = 0.8
RANDOM_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class MaskingRules:
    """How many tokens are predicted, and what takes their place.

    Attributes:
        seed: of the run.
        mlm_probability: share of the tokens of an example that is predicted, above 0, at most 1.
        max_predictions_per_seq: P, the most of them.
        mask_token_id: what 80 % of them are replaced by.
        ordinary_ids: ``(N,)`` int64, what 10 % of them are replaced by, drawn evenly; the last 10 % stay.
    """

    seed: int
    mlm_probability: float
    max_predictions_per_seq: int
    mask_token_id: int
    ordinary_ids: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Attributes:
    input_ids: ``(B, S)`` int64, with the replacements.
    masked_positions: ``(B, P)`` int64, ascending; a slot without a prediction holds 0.
    labels: ``(B, P)`` int64, the original ids at these positions; -100 in a slot without a prediction.
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
    """Chooses tokens to predict in each example, without replacement, and hides them.

    An example of ``length`` tokens has
    ``min(max_predictions_per_seq, max(1, round(length × mlm_probability)))`` tokens to predict, or all its candidates
    where these are fewer. Each becomes [MASK] with probability 0.8, a random ordinary token with 0.1 (perhaps itself),
    and stays as it is with 0.1.

    What row b becomes depends on its own ids, ``rules``, ``epoch`` and ``index[b]`` alone, on no other row.

    Args:
        input_ids: ``(B, S)`` int64; not changed.
        candidates: ``(B, S)`` bool, True for the tokens of the text, False for [CLS], [SEP] and padding.
        lengths: ``(B,)``, tokens of each example, [CLS] and [SEP] counted, padding not.
        rules: of the choice.
        epoch: ``()`` or ``(B,)`` integers.
        index: ``(B,)`` integers, which example of its epoch each row is.
    """
    width, slots = input_ids.shape[1], rules.max_predictions_per_seq
    available = candidates.sum(axis=1)
    wanted = np.clip(np.rint(lengths * rules.mlm_probability), 1, slots).astype(np.int64)
    count = np.minimum(wanted, available)

    # The candidates of the smallest keys are an even choice without replacement.
    keys = uniform(rules.seed, Stream.MASKED_POSITIONS, epoch, index, width)
    keys[~candidates] = 2.0
    chosen = np.argsort(keys, axis=1, kind="stable")[:, :slots]
    chosen = np.pad(chosen, ((0, 0), (0, slots - chosen.shape[1])))
    used = np.arange(slots) < count[:, None]
    positions = np.sort(np.where(used, chosen, width), axis=1)
    positions[~used] = 0
    originals = np.take_along_axis(input_ids, positions, axis=1)

    draws = uniform(rules.seed, Stream.REPLACEMENTS, epoch, index, 2 * slots)
    action, pick = draws[:, 0::2], draws[:, 1::2]
    random_ids = rules.ordinary_ids[(pick * len(rules.ordinary_ids)).astype(np.int64)]
    replacements = np.where(action < MASK_SHARE + RANDOM_SHARE, random_ids, originals)
    replacements[action < MASK_SHARE] = rules.mask_token_id
    masked = input_ids.copy()
    row = np.nonzero(used)[0]
    masked[row, positions[used]] = replacements[used]
    return MaskedBatch(masked, positions, np.where(used, originals, IGNORED))
