"""Selection of rows to label: they are uncertain, typical of many such rows, and differ from each other.

The more uncertain half of the unlabelled rows is clustered by k-means, in as many clusters as rows are chosen, each row
with the weight ``1 − margin``, where the margin is that of the probabilities of the two most probable classes; of each
cluster, the row nearest to its center is chosen (Zhdanov 2019, arXiv:1901.05954). Compared with other ways in
benchmarks/NEXT.md.

Dimension letters: U unlabelled rows, L labelled rows, D numbers of a vector, C classes, R rows to choose.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from bertkit.data.tables.proposed import TYPICAL, UNLIKE, UNSURE

_LEAST = 1e-6  # weight of a row
_CLUSTERED = 0.5  # part of the rows, the most uncertain ones, that are clustered
_UNSURE = 2 / 3  # probability of the guess below which a row is called unsure
_NEAR = 0.5  # part of the highest probability from which the third class is named too
_UNLIKE = 0.1  # share of the rows that are called unlike all labelled ones


def margins(probabilities: np.ndarray) -> np.ndarray:
    """Returns by how much the most probable class is above the next one, (U,) in [0, 1]; of (U, C)."""
    if probabilities.shape[1] < 2:
        return np.ones(len(probabilities))
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def select_rows(
    probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses rows to label.

    Args:
        probabilities: (U, C).
        vectors: of the unlabelled rows, (U, D).
        labelled: vectors of the labelled rows, (L, D); L may be 0.
        number: R, at most U.

    Returns:
        The rows, (R,) int64, the most uncertain first; and the highest similarity of each of all rows to a labelled
        one, (U,) in [-1, 1], which is -1 without labelled ones.
    """
    unit, known = _of_length_one(vectors), _of_length_one(labelled)
    similarities = (unit @ known.T).max(axis=1) if len(known) else np.full(len(unit), -1.0)
    weights = np.maximum(1 - margins(probabilities), _LEAST)
    order = np.argsort(-weights, kind="stable")
    clustered = order[: max(2 * number, int(_CLUSTERED * len(order)))]
    chosen = clustered[_centers(unit[clustered], weights[clustered], number)] if number < len(clustered) else clustered
    # Copies of a vector leave clusters empty: the most uncertain of the other rows come in their place.
    is_chosen = np.isin(order, chosen)
    chosen = np.concatenate([order[is_chosen], order[~is_chosen][: number - len(chosen)]])
    return chosen, similarities


def _centers(vectors: np.ndarray, weights: np.ndarray, number: int) -> np.ndarray:
    """Returns the rows that are nearest to the centers of clusters, at most ``number``."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of copies
        found = KMeans(number, n_init=1, random_state=0).fit(vectors, sample_weight=weights)
    distances = ((vectors - found.cluster_centers_[found.labels_]) ** 2).sum(axis=1)
    order = np.lexsort((distances, found.labels_))
    return np.asarray(order[np.unique(found.labels_[order], return_index=True)[1]])


def _of_length_one(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def reasons(probabilities: np.ndarray, similarities: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> list[str]:
    """Returns in words why each of some rows is worth a label.

    Args:
        probabilities: (U, C).
        similarities: of each unlabelled row to the labelled one that is most like it, (U,).
        rows: the chosen ones, (R,).
        names: names of the C classes.
    """
    far = np.quantile(similarities, _UNLIKE)
    return [_reason(probabilities[row], bool(similarities[row] < far), names) for row in rows]


def _reason(probabilities: np.ndarray, is_unlike: bool, names: Sequence[str]) -> str:
    order = np.argsort(-probabilities, kind="stable")
    first = float(probabilities[order[0]])
    between = [names[each] for each in order[:3] if probabilities[each] >= _NEAR * first]
    if first >= _UNSURE or len(names) < 2:
        doubt = TYPICAL
    elif len(between) > 2:
        doubt = f"{UNSURE}among {', '.join(between[:-1])} and {between[-1]}"
    else:
        doubt = f"{UNSURE}between {names[order[0]]} and {names[order[1]]}"
    return f"{doubt}; {UNLIKE}" if is_unlike else doubt
