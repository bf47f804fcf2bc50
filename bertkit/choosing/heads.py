"""Regularized linear heads on frozen vectors, by cross-validation, and the choice of the layer.

The layer, the kind of vector and the strength of the regularization are chosen for each fold by the predictions for
the other folds, so that the score of the predictions is not that of the luckiest of many candidates.

Dimension letters: I items, D numbers of a vector, C classes, N examples, K folds, M candidates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

STRENGTHS = (100.0, 10.0)
"""Strengths of the L2 penalty on standardized vectors: 1 / C of logistic regression, α / 10 of ridge regression."""

_MOST_FITTED = 5000  # items that a head is fitted to: words are many, and a penalized head gains little from more
_STEPS = 200  # of L-BFGS; the head is a measure, and no model to keep


class Head(NamedTuple):
    """A candidate.

    Attributes:
        layer: number of the layer, 0 the embeddings.
        pooling: name of the vectors.
        strength: of the penalty.
    """

    layer: int
    pooling: str
    strength: float


@dataclass(frozen=True)
class Scored:
    """Cross-validated predictions, and the heads that they come from.

    Attributes:
        predictions: N predictions in the form of the metric.
        best: the head with the highest score over all folds; not of layer 0.
        by_layer: name of the vectors → highest score of each layer over the strengths, 0 the embeddings.
    """

    predictions: list[Any]
    best: Head
    by_layer: dict[str, list[float]]


def cross_validated(
    vectors: Mapping[str, np.ndarray],
    targets: np.ndarray,
    folds: np.ndarray,
    classes: int,
    on_progress: Callable[[int, int], object],
) -> dict[Head, np.ndarray]:
    """Returns the logits of every candidate, (I, C) each; of each item by a head that was fitted to the other folds.

    Args:
        vectors: name → (L + 1, I, D) float32.
        targets: labels of the items, see `bertkit.choosing.frozen.FrozenTask.targets`; their form tells the problem.
        folds: fold of each item, (I,).
        classes: C.
        on_progress: called with the number of fitted heads and of all.
    """
    heads = [
        Head(layer, pooling, strength)
        for pooling, of_layers in vectors.items()
        for layer in range(len(of_layers))
        for strength in STRENGTHS
    ]
    order = np.random.default_rng(0).permutation(len(targets))
    fitted = {fold: order[folds[order] != fold][:_MOST_FITTED] for fold in np.unique(folds).tolist()}
    logits = {head: np.full((len(targets), classes), -np.inf) for head in heads}
    for number, head in enumerate(heads, start=1):
        inputs = vectors[head.pooling][head.layer]
        for fold, read in fitted.items():
            held_out = folds == fold
            logits[head][held_out] = _logits(inputs[read], targets[read], inputs[held_out], classes, head.strength)
        on_progress(number, len(heads))
    return logits


def _logits(inputs: np.ndarray, targets: np.ndarray, held_out: np.ndarray, classes: int, strength: float) -> np.ndarray:
    """Fits a head and returns its logits for the vectors that are held out; -inf for classes that it has not seen."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(inputs)
    fitted, read = scaler.transform(inputs), scaler.transform(held_out)
    is_class = targets.ndim == 1
    if is_class and np.issubdtype(targets.dtype, np.floating):
        return np.asarray(Ridge(10 * strength).fit(fitted, targets).predict(read)).reshape(-1, 1)
    columns = [targets] if is_class else list(targets.T)
    logits = np.full((len(read), classes), -np.inf)
    for place, labels in enumerate(columns):
        seen = np.unique(labels).astype(np.int64)
        if len(seen) < 2:
            of_seen = np.zeros((len(read), 1))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # on convergence
                head = LogisticRegression(C=1 / strength, max_iter=_STEPS, tol=1e-3).fit(fitted, labels)
                of_seen = head.predict_log_proba(read)
        if is_class:
            logits[:, seen] = of_seen
        elif len(seen) == 2:
            logits[:, place] = of_seen[:, 1] - of_seen[:, 0]
        else:
            logits[:, place] = np.inf if seen[0] else -np.inf
    return logits


def chosen(
    predictions: Mapping[Head, Sequence[Any]],
    references: Sequence[Any],
    folds: np.ndarray,
    measure: Callable[[Sequence[Any], Sequence[Any]], float],
) -> Scored:
    """Chooses a head for each fold by the other folds, and takes its predictions.

    Layer 0, the embeddings, is scored but not chosen: a checkpoint and its first layers share it, and what it tells is
    the same at the start of their training.

    Args:
        predictions: M candidates → N predictions in the form of the metric.
        references: N references.
        folds: fold of each example, (N,).
        measure: the metric; larger is better.
    """
    heads, numbers = [head for head in predictions if head.layer > 0], np.unique(folds)

    def score(head: Head, rows: np.ndarray) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on correlations of equal predictions
            value = measure([predictions[head][row] for row in rows], [references[row] for row in rows])
        return value if np.isfinite(value) else -np.inf

    taken: list[Any] = [None] * len(references)
    for fold in numbers:
        others = np.flatnonzero(folds != fold)
        best = max(heads, key=lambda head: score(head, others))
        for row in np.flatnonzero(folds == fold).tolist():
            taken[row] = predictions[best][row]
    everything = np.arange(len(references))
    scores = {head: score(head, everything) for head in predictions}
    layers = range(1 + max(head.layer for head in heads))
    by_layer = {
        pooling: [max(scores[Head(layer, pooling, strength)] for strength in STRENGTHS) for layer in layers]
        for pooling in dict.fromkeys(head.pooling for head in heads)
    }
    return Scored(taken, max(heads, key=scores.__getitem__), by_layer)
