"""Sentence lengths → the examples of one epoch, as ranges of tokens (BERT §3.1, §A.2).

Which segments there are is the rule of the pair objective (`objectives.py`); then each pair is truncated to fit
(`truncation.py`).
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

# 25 bytes an example, side by side: drawing an example touches one place of the memory.
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
    """The examples of one epoch, in the order of their documents; all arrays are ``(N,)``.

    Segment A of example i is ``tokens[a_start[i]:a_start[i] + a_length[i]]`` of the store, segment B likewise. No A is
    empty, and no B but where the objective has none. Together they have at most ``max_seq_length - 3`` tokens, or
    ``max_seq_length - 2`` where there is no B.

    Attributes:
        a_start, b_start: int64.
        a_length, b_length: int32, tokens.
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
) -> PairPlan:
    """The examples of an epoch: a pure function of the arguments; about one pass over the text of ``view``.

    For each document there is a target: all tokens that an example has room for or, with ``short_seq_prob``, a random
    number from 2 to that. The rule of the objective cuts the document into segments by it. Then tokens are dropped from
    the longer segment, at its front or its back at random, until the pair fits.

    Memory: 25 bytes an example, up to an eighth more while it grows, and a block of some ten thousand examples.

    Args:
        view: the documents; random segments come from these too.
        seed, epoch: of the randomness, both ≥ 0.
        max_seq_length: tokens with [CLS] and each [SEP], at least 5.
        short_seq_prob: 0 to 1, drawn once a document and epoch, as in the released script.
        pair_objective: ``nsp``, ``sop`` or ``none``: see `bertkit.corpus.examples.objectives`.

    Raises:
        DataError: ``view`` has fewer than two documents under ``nsp``, or too little text for an example.
    """
    objective = OBJECTIVES[pair_objective]
    max_tokens = max_seq_length - objective.special_tokens
    rows = np.empty(0, _ROW)
    size = 0
    for segments in objective.segments(EpochOfText(view, seed, epoch, max_tokens, short_seq_prob)):
        end = size + len(segments.labels)
        if end > len(rows):
            # In place, so that a large array is never there twice. Nothing else refers to it yet.
            rows.resize(end + end // 8, refcheck=False)
        _write(rows[size:end], segments, max_tokens, seed, epoch, size)
        size = end
    if not size:
        raise DataError(
            f"no example can be made of {view.num_documents} documents, {view.num_tokens} tokens in all: give more "
            f"text (a document of one token has no two segments)"
        )
    rows.resize(size, refcheck=False)
    return PairPlan(*(rows[name] for name in _ROW.names or ()))


def _write(rows: NDArray[np.void], segments: Segments, max_tokens: int, seed: int, epoch: int, first_pair: int) -> None:
    starts, lengths = truncate_pairs(segments.starts, segments.lengths, max_tokens, seed, epoch, first_pair)
    rows["a_start"], rows["b_start"] = starts.T
    rows["a_length"], rows["b_length"] = lengths.T
    rows["next_sentence_label"] = segments.labels
