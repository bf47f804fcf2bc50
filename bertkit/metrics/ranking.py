"""Rankings of documents for queries by the cosine of their vectors.

Dimension letters: Q queries, D documents, H numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from bertkit.metrics.intervals import MeanDecomposition, mean_terms

DEPTH = 10
"""Documents of a ranking that count."""

SCORES = (f"ndcg_at_{DEPTH}", f"mrr_at_{DEPTH}", f"recall_at_{DEPTH}", "accuracy_at_1")
_DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))
_AT_ONCE = 1024  # queries whose cosines with all documents are in memory


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors (…, H) by their lengths; vectors of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def ranking_scores(queries: np.ndarray, documents: np.ndarray, relevant: Sequence[Collection[int]]) -> np.ndarray:
    """Computes `SCORES` of each query over all documents, (Q, 4) float64 in [0, 1].

    They are those of sentence-transformers' ``InformationRetrievalEvaluator``. Of documents with the same
    computed cosine the first ones have the higher rank; those of equal vectors may differ in the last digit.

    Args:
        queries: (Q, H).
        documents: (D, H).
        relevant: numbers of the relevant documents of each query, at least one.

    >>> scores = ranking_scores(np.eye(2), np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), [{1}, {2}])
    >>> scores.round(4).tolist()  # the relevant document is second, and first
    [[0.6309, 0.5, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """
    documents = unit(documents)
    scores = np.zeros((len(queries), len(SCORES)))
    for start in range(0, len(queries), _AT_ONCE):
        cosines = unit(queries[start : start + _AT_ONCE]) @ documents.T
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
        for row, ranked in enumerate(best, start):
            scores[row] = scores_of_ranking(np.isin(ranked, list(relevant[row])), len(relevant[row]))
    return scores


def scores_of_ranking(is_relevant: np.ndarray, number: int) -> tuple[float, float, float, float]:
    """Computes `SCORES` of one ranking.

    Args:
        is_relevant: whether each document is relevant, the best first; only the first `DEPTH` count.
        number: relevant documents, at least one; those that are not in the ranking included.
    """
    hits = is_relevant[:DEPTH]
    first = int(hits.argmax()) if hits.any() else None
    return (
        float(_DISCOUNTS[: len(hits)][hits].sum() / _DISCOUNTS[:number].sum()),  # exactly 1 for the best ranking
        0.0 if first is None else 1 / (first + 1),
        float(hits.sum() / number),
        float(hits[:1].any()),
    )


def mean_scores(rows: np.ndarray) -> dict[str, float]:
    """Computes the means of `SCORES` over queries, from rows (N, 5) of weights and scores; NaN without a weight."""
    weights = rows[:, 0]
    means = weights @ rows[:, 1:] / weights.sum() if weights.any() else np.full(len(SCORES), np.nan)
    return dict(zip(SCORES, means.tolist(), strict=True))


def queries_of(rows: Sequence[Any]) -> int:
    """Returns the number of queries in rows of weights and scores, (N, 5) or more: those with a weight."""
    return int(np.count_nonzero(np.asarray(rows)[:, 0])) if len(rows) else 0


def ranking_terms(name: str, rows: np.ndarray) -> MeanDecomposition | None:
    """Returns one of `SCORES` as a mean over the queries, the rows of (N, 5) weights and scores that have a weight.

    None for other metrics, and without a query.
    """
    queries = rows[rows[:, 0] > 0]
    return mean_terms(queries[:, 1 + SCORES.index(name)]) if name in SCORES and len(queries) else None
