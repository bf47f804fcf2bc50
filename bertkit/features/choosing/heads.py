"""Regularized linear heads on frozen vectors, by cross-validation, and the choice of the layer.

The layer, the kind of vector and the strength of the regularization are chosen for each fold by the predictions for
the other folds, so that the score of the predictions is not that of the luckiest of many candidates.

Dimension letters: I items, D numbers of a vector, C classes, N examples, K folds, M candidates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertkit.training.warm_start.linear_head import MOST_FITTED, fit_head

STRENGTHS = (100.0, 10.0)
"""Strengths of the penalty that are tried, see `bertkit.training.warm_start.linear_head`."""


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


def cross_validate(
    vectors: Mapping[str, np.ndarray],
    targets: np.ndarray,
    folds: np.ndarray,
    classes: int,
    on_progress: Callable[[int, int], object],
) -> dict[Head, np.ndarray]:
    """Returns the logits of every candidate, (I, C) each; of each item by a head that was fitted to the other folds.

    Args:
        vectors: name → (L + 1, I, D) float32.
        targets: labels of the items, see `bertkit.features.choosing.frozen.FrozenTask.targets`; their form tells the
            problem.
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
    fitted = {fold: order[folds[order] != fold][:MOST_FITTED] for fold in np.unique(folds).tolist()}
    logits = {head: np.empty((len(targets), classes)) for head in heads}
    for number, head in enumerate(heads, start=1):
        inputs = vectors[head.pooling][head.layer]
        for fold, read in fitted.items():
            held_out = folds == fold
            fitted_head = fit_head(inputs[read], targets[read], classes, head.strength)
            logits[head][held_out] = fitted_head.logits(inputs[held_out])
        on_progress(number, len(heads))
    return logits


def choose_head(
    predictions: Mapping[Head, Sequence[Any]],
    references: Sequence[Any],
    folds: np.ndarray,
    measure: Callable[[Sequence[Any], Sequence[Any]], float],
) -> tuple[list[Any], Head, dict[str, list[float]]]:
    """Chooses a head for each fold by the other folds, and takes its predictions.

    Layer 0, the embeddings, is scored but not chosen: a checkpoint and its first layers share it, and what it tells is
    the same at the start of their training.

    Args:
        predictions: M candidates → N predictions in the form of the metric.
        references: N references.
        folds: fold of each example, (N,).
        measure: the metric; larger is better.

    Returns:
        N predictions, each by the head that was chosen for its fold; the head with the highest score over all folds,
        not of layer 0; and name of the vectors → highest score of each layer over the strengths, 0 the embeddings.
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
    return taken, max(heads, key=scores.__getitem__), by_layer
