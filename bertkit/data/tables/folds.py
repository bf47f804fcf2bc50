"""Folds and held-out rows: rows that belong together, such as those with the same text, stay on one side.

`assign_folds` alone decides in which fold a row is, for runs, grids, linear models and checks of labels; `hold_out`
which rows are a validation set. A unit is what stays together, rows that are joined by equal texts and groups.

Dimension letters: N rows, U units, C classes, K folds.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np

from bertkit.data.tables.table import numbered
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import inflected

_MOST_BINS = 10  # of numbers

# ---- rows that belong together --------------------------------------------------------------------------------------


def joined(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns the number of the unit of each row, (N,): rows that either of two divisions has together are in one unit.

    >>> joined(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
    [0, 0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = numbered(one.tolist()), numbered(other.tolist())
    number = int(first.max(initial=-1)) + 1
    nodes = number + int(second.max(initial=-1)) + 1
    edges = coo_array((np.ones(len(first), dtype=np.int8), (first, number + second)), shape=(nodes, nodes))
    return numbered(connected_components(edges, directed=False)[1][first].tolist())


# ---- folds ----------------------------------------------------------------------------------------------------------


def assign_folds(
    number: int,
    *,
    seed: int,
    texts: np.ndarray,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
    of_groups: str = "",
) -> np.ndarray:
    """Returns the fold of each row, in which it is held out, (N,) int64: the same for the same arguments.

    Rows with the same text or the same group are in one fold. As far as that allows, the folds have the same shares of
    the labels and the same number of rows.

    Args:
        number: number of folds, K.
        seed: of the draw.
        texts: number of the text of each row, (N,), as of `bertkit.data.tables.table.same_texts`.
        labels: label of each row: a class, a collection of several, or a number (float), of which rows near each other
            are taken for a class; ``None`` where it is missing. Without labels only the sizes are the same.
        groups: value of each row whose equals stay together.
        of_groups: what the groups are, such as ``in author``, for messages.

    Raises:
        DataError: there are fewer different texts or groups than folds.

    >>> folds = assign_folds(2, seed=0, texts=numbered("abac"), labels=["x", "x", "x", "y"])
    >>> bool(folds[0] == folds[2]), sorted(Counter(folds.tolist()).values())
    (True, [2, 2])
    """
    units = texts if groups is None else joined(texts, numbered(groups))
    rows, different = len(units), len(np.unique(units))
    if different < number:
        if groups is not None:
            what = f"{inflected(different, 'group', 'groups')} {of_groups}".strip()
            what += ", joined by equal texts" if different < len(set(groups)) else ""
        elif different < rows:
            what = f"different {inflected(different, 'text', 'texts')}, which {rows} rows have: copies stay in one fold"
        else:
            what = inflected(different, "training example", "training examples")
        remedy = f"give at most {different}" if different > 1 else "there is nothing to hold out"
        raise DataError(f"data.folds: {number} folds of {different} {what}; {remedy}")
    classes = np.zeros(rows, dtype=np.int64) if labels is None else classes_of(labels, number)
    if different == rows:
        return _divide_rows(classes, number, seed)
    return _divide_units(numbered(units.tolist()), classes, number, seed)


def classes_of(labels: Sequence[Any], number: int) -> np.ndarray:
    """Returns the class of each row whose shares folds have, (N,): of several labels the rarest, of numbers their part.

    Args:
        labels: as for `assign_folds`.
        number: number of folds; a part has at least as many rows.
    """
    if any(isinstance(label, float) for label in labels):
        values = np.array([math.nan if label is None else label for label in labels], dtype=np.float64)
        known = np.isfinite(values)
        bins = min(_MOST_BINS, int(known.sum()) // number)
        if bins < 2:
            return known.astype(np.int64)
        edges = np.unique(np.quantile(values[known], np.linspace(0, 1, bins + 1)[1:-1]))
        return np.where(known, np.searchsorted(edges, values, side="right"), bins)
    several = [label if isinstance(label, Collection) and not isinstance(label, str) else (label,) for label in labels]
    counts = Counter(label for of_row in several for label in of_row)
    return numbered(min(of_row, key=lambda label: (counts[label], str(label)), default=None) for of_row in several)


def _divide_rows(classes: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Divides rows that are all units of their own, by scikit-learn."""
    import warnings

    from sklearn.model_selection import KFold, StratifiedKFold

    # scikit-learn refuses classes that are all smaller.
    kind = StratifiedKFold if np.bincount(classes).max() >= number else KFold
    found = np.zeros(len(classes), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # it is missing from some folds
        held_out = kind(number, shuffle=True, random_state=seed).split(classes, classes)
        for fold, (_, rows) in enumerate(held_out):
            found[rows] = fold
    return found


def _divide_units(units: np.ndarray, classes: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Deals units, the largest first, each to the fold with the smallest share of its classes, then the fewest rows.

    That is the rule of scikit-learn's StratifiedGroupKFold with a sum of squares in place of standard deviations, in a
    tenth of the time. It also takes classes that all have fewer rows than folds.
    """
    sizes = np.bincount(units)
    of_unit = np.split(classes[np.argsort(units, kind="stable")], np.cumsum(sizes)[:-1])
    weights = 1.0 / np.bincount(classes).clip(1).astype(np.float64) ** 2
    # Of one size those of frequent classes first, so that the few of rare ones even out the sizes of the folds.
    rarity = np.array([weights[own].max() for own in of_unit])
    order = np.lexsort((np.random.default_rng(seed).permutation(len(sizes)), rarity, -sizes))
    counts = np.zeros((len(weights), number))  # rows of each class in each fold
    rows, fold_of = np.zeros(number), np.zeros(len(sizes), dtype=np.int64)
    for unit in order.tolist():
        own = of_unit[unit]
        shares = weights[own] @ counts[own]
        fold = int(np.lexsort((rows, shares.round(12)))[0])
        np.add.at(counts[:, fold], own, 1)
        rows[fold] += len(own)
        fold_of[unit] = fold
    return fold_of[units]


# ---- held-out rows --------------------------------------------------------------------------------------------------


def hold_out(
    classes: Sequence[Hashable] | None, units: np.ndarray, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws a stratified validation set; returns ascending indices of training rows and held-out rows, int64.

    Of a class of n units, ``fraction`` · n units (rounded) are held out; at least one remains for training. (The
    function of the ``datasets`` library does not accept a class of one row.) If all classes are too small for that,
    ``fraction`` of all units (rounded down) is drawn without regard to the classes, and one of each remains.

    Args:
        classes: the class of every row; that of a unit is the class of its first row. None draws uniformly.
        units: number of the unit of each row, (N,): what stays together, such as the rows of `same_texts`.
        fraction: share to hold out, in (0, 1).
        seed: determines the split, independent of other random numbers of the run.
    """
    generator = np.random.default_rng(seed)
    numbers, first = np.unique(units, return_index=True)
    members_of: dict[Hashable, array[int]] = {}
    for row, unit in sorted(zip(first.tolist(), numbers.tolist(), strict=True)):
        members_of.setdefault(None if classes is None else classes[row], array("q")).append(unit)
    orders = [generator.permutation(np.asarray(members)) for members in members_of.values()]
    held = [order[: min(round(len(order) * fraction), len(order) - 1)] for order in orders]
    if orders and not any(map(len, held)):
        spare = np.concatenate([order[1:] for order in orders])
        held = [generator.permutation(spare)[: int(fraction * len(numbers))]]
    is_held_out = np.isin(units, np.concatenate(held)) if held else np.zeros(len(units), dtype=bool)
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
