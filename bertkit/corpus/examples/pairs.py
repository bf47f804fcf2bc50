"""Sentence lengths → the examples of one epoch, as ranges of tokens (BERT §3.1, §A.2).

The rule of the pair objective selects the segments (`objectives.py`); then each pair is truncated (`truncation.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.examples.objectives import OBJECTIVES, EpochOfText, Segments
from bertkit.corpus.examples.truncation import truncate_pairs
from bertkit.corpus.settings import PairObjective
from bertkit.corpus.store.token_store import StoreView
from bertkit.errors import DataError

# 25 contiguous bytes per example, so that access to an example touches one place in memory.
_ROW = np.dtype(
    [
        ("a_start", np.int64),
        ("a_length", np.int32),
        ("b_start", np.int64),
        ("b_length", np.int32),
        ("next_sentence_label", np.int8),
    ]
)


@dataclass(frozen=True, eq=False)
class PairPlan:
    """Examples of one epoch, in the order of their documents; all arrays are ``(N,)``.

    Segment A of example i is ``tokens[a_start[i]:a_start[i] + a_length[i]]`` of the store, segment B likewise. A is
    never empty; B is empty only if the objective has no B. Together they have at most ``max_seq_length`` tokens without
    the special ones, which are 3 for BERT, or 2 without a B.

    Attributes:
        a_start, b_start: int64, first token of the segment.
        a_length, b_length: int32, number of tokens.
        next_sentence_label: int8; 0 = B follows A, 1 = B is random (``nsp``) or A follows B (``sop``).
    """

    a_start: NDArray[np.int64]
    a_length: NDArray[np.int32]
    b_start: NDArray[np.int64]
    b_length: NDArray[np.int32]
    next_sentence_label: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.a_start)


def plan_epoch(
    view: StoreView,
    seed: int,
    epoch: int,
    max_seq_length: int,
    short_seq_prob: float,
    pair_objective: PairObjective = "nsp",
    special_tokens: int | None = None,
) -> PairPlan:
    """Plans the examples of an epoch: a pure function of the arguments; costs about one pass over the text of ``view``.

    Each document has a target length: the maximum number of text tokens of an example or, with probability
    ``short_seq_prob``, a random number from 2 to that maximum. The rule of the objective cuts the document into
    segments by this target. Then tokens are dropped from the longer segment, randomly at its front or back, until the
    pair fits.

    Memory: 25 bytes per example, up to an eighth more while the array grows, plus a block of some ten thousand
    examples.

    Args:
        view: the documents; random segments are also taken from them.
        seed, epoch: determine the random numbers, both ≥ 0.
        max_seq_length: tokens of an example, including [CLS] and each [SEP], at least 5.
        short_seq_prob: probability of a shorter target, 0 to 1, drawn once per document and epoch, as in the released
            script.
        pair_objective: ``nsp``, ``sop`` or ``none``: see `bertkit.corpus.examples.objectives`.
        special_tokens: number of special tokens of an example; None for those of BERT, 3 with pairs and 2 without.

    Raises:
        DataError: ``max_seq_length`` leaves no room for text, or ``view`` has fewer than two documents with ``nsp``, or
            too little text for an example.
    """
    objective = OBJECTIVES[pair_objective]
    special_tokens = objective.special_tokens if special_tokens is None else special_tokens
    max_tokens = max_seq_length - special_tokens
    if max_tokens < 2:
        raise DataError(
            f"max_seq_length: {max_seq_length} leaves no room for text besides {special_tokens} special tokens"
        )
    rows = np.empty(0, _ROW)
    size = 0
    for segments in objective.segments(EpochOfText(view, seed, epoch, max_tokens, short_seq_prob)):
        end = size + len(segments.labels)
        if end > len(rows):
            # Resized in place to avoid a second copy of a large array; no other reference to it exists yet.
            rows.resize(end + end // 8, refcheck=False)
        _write(rows[size:end], segments, max_tokens, seed, epoch, size)
        size = end
    if not size:
        raise DataError(
            f"no example can be made from {view.num_documents} documents with {view.num_tokens} tokens in total: give "
            f"more text (a document of one token cannot be split into two segments)"
        )
    rows.resize(size, refcheck=False)
    return PairPlan(*(rows[name] for name in _ROW.names or ()))


def _write(rows: NDArray[np.void], segments: Segments, max_tokens: int, seed: int, epoch: int, first_pair: int) -> None:
    starts, lengths = truncate_pairs(segments.starts, segments.lengths, max_tokens, seed, epoch, first_pair)
    rows["a_start"], rows["b_start"] = starts.T
    rows["a_length"], rows["b_length"] = lengths.T
    rows["next_sentence_label"] = segments.labels
