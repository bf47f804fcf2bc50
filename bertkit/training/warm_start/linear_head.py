"""Regularized linear heads on frozen vectors: logistic regression for classes and labels, ridge regression for numbers.

They are fitted by scikit-learn to standardized vectors, and returned for the vectors as they are, so that a layer of a
model can hold them. `bertkit choose` scores checkpoints with them, and a fine-tuning starts from one.

Dimension letters: I items, D numbers of a vector, C classes, labels or 1 number.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.data.tables.folds import assign_folds
from bertkit.tasks.classification.decisions import log_loss

STRENGTHS = (100.0, 10.0, 1.0, 0.1)
"""Strengths of the L2 penalty that `fit_by_folds` tries: 1 / C of logistic regression, a tenth of α of ridge
regression."""

_FOLDS = 5
_STEPS, _TOLERANCE = 200, 1e-3  # of L-BFGS: nearer to the optimum no score changes
MOST_FITTED = 5000
"""Items that a head is fitted to if it is only a measure: a penalized one gains little from more."""

_UNSEEN = 5.0  # a class without an item is this far below the least probable one that has some
_LEAST = 0.2  # least standard deviation that numbers are divided by, as a part of the median


@dataclass(frozen=True)
class LinearHead:
    """A linear map from vectors to logits, or to a number.

    Attributes:
        weight: (C, D) float64.
        bias: (C,) float64.
        strength: of the penalty it was fitted with.
    """

    weight: np.ndarray
    bias: np.ndarray
    strength: float

    def logits(self, vectors: np.ndarray) -> np.ndarray:
        """Computes the logits of vectors (I, D), (I, C) float64."""
        return vectors @ self.weight.T + self.bias


def standard_deviations(vectors: np.ndarray) -> np.ndarray:
    """Returns what to divide vectors (I, D) by, (D,): standard deviations, but not much less than most of them.

    A number that hardly differs between the items would else be magnified with all that a training changes in it.
    """
    deviation = vectors.std(axis=0, dtype=np.float64)
    least = _LEAST * float(np.median(deviation))
    return np.where(deviation > least, deviation, least or 1.0)


def _are_numbers(targets: np.ndarray) -> bool:
    return targets.ndim == 1 and np.issubdtype(targets.dtype, np.floating)


def fit_head(vectors: np.ndarray, targets: np.ndarray, outputs: int, strength: float) -> LinearHead:
    """Fits a head to vectors.

    A class of no item gets no weights, and neither does a label of none or of all items: only a bias, which says so.

    Args:
        vectors: (I, D).
        targets: one of C classes, (I,) int64; several of C labels, (I, C) of 0 and 1; or a number, (I,) float.
        outputs: C.
        strength: of the penalty, see `STRENGTHS`.
    """
    vectors = vectors.astype(np.float32, copy=False)
    mean, deviation = vectors.mean(axis=0), standard_deviations(vectors)
    inputs = ((vectors - mean) / deviation).astype(np.float32)
    weight, bias = np.zeros((outputs, inputs.shape[1])), np.zeros(outputs)
    if _are_numbers(targets):
        from sklearn.linear_model import Ridge

        ridge = Ridge(10 * strength).fit(inputs, targets)
        weight[0], bias[0] = ridge.coef_.ravel(), ridge.intercept_
    elif targets.ndim == 2:
        for label, column in enumerate(targets.T):
            if column.min() == column.max():
                share = (column.sum() + 0.5) / (len(column) + 1)
                bias[label] = np.log(share / (1 - share))
            else:
                [weight[label]], [bias[label]] = _logistic(inputs, column, strength)
    else:
        seen = np.unique(targets).astype(np.int64)
        if len(seen) > 2:
            weight[seen], bias[seen] = _logistic(inputs, targets, strength)
        elif len(seen) == 2:
            [of_second], [offset] = _logistic(inputs, targets, strength)
            weight[seen], bias[seen] = np.stack([-of_second, of_second]) / 2, np.array([-offset, offset]) / 2
        unseen = np.setdiff1d(np.arange(outputs), seen)
        if len(unseen):
            bias[unseen] = (inputs @ weight[seen].T + bias[seen]).min() - _UNSEEN
    weight = weight / deviation
    return LinearHead(weight, bias - weight @ mean, strength)


def _logistic(inputs: np.ndarray, targets: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence
        fitted = LogisticRegression(C=1 / strength, max_iter=_STEPS, tol=_TOLERANCE).fit(inputs, targets)
    return np.asarray(fitted.coef_, np.float64), np.asarray(fitted.intercept_, np.float64)


def folds_to_fit(texts: np.ndarray, labels: Sequence[Any] | None) -> np.ndarray:
    """Returns the fold of each item for `fit_by_folds`, (I,) int64: up to five, with copies in one fold.

    Args:
        texts: number of the text of each item, (I,), as of `bertkit.data.tables.table.same_texts`; if all are one text,
            there is one fold.
        labels: as for `bertkit.data.tables.folds.assign_folds`.
    """
    number = min(_FOLDS, int(texts.max()) + 1)
    if number < 2:
        return np.zeros(len(texts), dtype=np.int64)
    return assign_folds(number, seed=0, texts=texts, labels=labels)


def out_of_fold_logits(
    vectors: np.ndarray, targets: np.ndarray, folds: np.ndarray, outputs: int, strength: float
) -> np.ndarray:
    """Computes the logits of each item by a head that is fitted to `MOST_FITTED` items of the other folds at most.

    Args:
        vectors, targets, outputs, strength: as for `fit_head`.
        folds: fold of each item, (I,); two or more.

    Returns:
        (I, C) float64.
    """
    order = np.random.default_rng(0).permutation(len(targets))
    logits = np.empty((len(targets), outputs))
    for fold in np.unique(folds):
        held_out, others = folds == fold, order[folds[order] != fold][:MOST_FITTED]
        head = fit_head(vectors[others], targets[others], outputs, strength)
        logits[held_out] = head.logits(vectors[held_out])
    return logits


def fit_by_folds(
    vectors: np.ndarray,
    targets: np.ndarray,
    folds: np.ndarray,
    outputs: int,
    strengths: Sequence[float] = STRENGTHS,
) -> tuple[LinearHead, np.ndarray]:
    """Fits a head with the strength that has the lowest loss on items of folds that the head was not fitted to.

    Args:
        vectors, targets, outputs: as for `fit_head`.
        folds: fold of each item, (I,); with fewer than two folds the strongest penalty is taken.
        strengths: strengths to try, the strongest first; none after the first that has no lower loss than before.

    Returns:
        The head, fitted to all items, and logits (I, C) float64 of each item by the head of its strength that was
        fitted to the other folds; NaN where there are fewer than two folds.
    """
    is_number = _are_numbers(targets)
    best: tuple[float, float, np.ndarray] = (np.inf, strengths[0], np.full((len(targets), outputs), np.nan))
    if len(np.unique(folds)) > 1:
        for strength in strengths:
            logits = out_of_fold_logits(vectors, targets, folds, outputs, strength)
            loss = np.mean((logits[:, 0] - targets) ** 2) if is_number else log_loss(logits, targets)
            if loss < best[0]:
                best = loss, strength, logits
            elif np.isfinite(best[0]):
                break  # weaker penalties overfit more
    return fit_head(vectors, targets, outputs, best[1]), best[2]
