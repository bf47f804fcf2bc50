"""Rankings of documents for queries by the cosine of their vectors.

Dimension letters: Q queries, D documents, H numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

DEPTH = 10
"""Documents of a ranking that count."""

SCORES = (f"ndcg_at_{DEPTH}", f"mrr_at_{DEPTH}", f"recall_at_{DEPTH}", "accuracy_at_1")
_AT_ONCE = 1024  # queries whose cosines with all documents are in memory


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors (…, H) by their lengths; vectors of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def ranking_scores(queries: np.ndarray, documents: np.ndarray, relevant: Sequence[Collection[int]]) -> np.ndarray:
    """Computes `SCORES` of each query over all documents, (Q, 4) float64 in [0, 1].

    They are those of sentence-transformers' ``InformationRetrievalEvaluator``. Of documents with the same cosine the
    first ones have the higher rank.

    Args:
        queries: (Q, H).
        documents: (D, H).
        relevant: numbers of the relevant documents of each query, at least one.

    >>> scores = ranking_scores(np.eye(2), np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), [{1}, {2}])
    >>> scores.round(4).tolist()  # the relevant document is second, and first
    [[0.6309, 0.5, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """
    documents = unit(documents)
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    scores = np.zeros((len(queries), len(SCORES)))
    for start in range(0, len(queries), _AT_ONCE):
        cosines = unit(queries[start : start + _AT_ONCE]) @ documents.T
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
        for row, ranked in enumerate(best, start):
            hits = np.isin(ranked, list(relevant[row]))
            first = int(hits.argmax()) if hits.any() else None
            scores[row] = (
                (hits * discounts[: len(hits)]).sum() / discounts[: len(relevant[row])].sum(),
                0.0 if first is None else 1 / (first + 1),
                hits.sum() / len(relevant[row]),
                float(hits[0]),
            )
    return scores
