"""Weighted, focal and smoothed losses of classification.

These are ``train.class_weights`` and ``train.label_smoothing_factor``.

Dimension letters: C classes; labels are (…) class ids, or (B, C) with several labels per row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.model.loss_bert import at_least_float32, mean_loss
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError, did_you_mean
from bertkit.tasks.base import Task
from bertkit.training.steps import Objective

_FOCUS = 2.0  # exponent of the focal loss: the best of Lin et al. (2017, arXiv:1708.02002)


class WeightedObjective(Objective):
    """Objective of a task with weights of items, or a focal or smoothed loss; a mean over the sum of the weights.

    With class ids, the weight of an item is that of its class, as in ``torch.nn.functional.cross_entropy``. With
    several labels per row, an item is a label of a row; its weight is that of the label if the row has it, else that
    of its absence. The focal loss (Lin et al. 2017) also multiplies the loss of an item by (1 − p) ** ``focus``, where
    p is the probability of the true value; this factor is not part of its weight.

    Args:
        label_columns: those of the task, whose model returns ``logits`` (…, C).
        weights: (2, C) float32: weights of the absence and of the presence of each label; class ids use the second row.
            None for weights of 1.
        focus: exponent of the focal loss; 0 for none.
        smoothing: share of the probability that class ids give to all C classes (Szegedy et al. 2016).
    """

    def __init__(
        self,
        label_columns: Sequence[str] = ("labels",),
        weights: Tensor | None = None,
        *,
        focus: float = 0.0,
        smoothing: float = 0.0,
    ):
        self.label_columns = label_columns
        self.weights, self.focus, self.smoothing = weights, focus, smoothing

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the sum of the weights of a batch's items, 0-d float32: the denominator of the mean."""
        return self._item_weights(batch["labels"]).sum()

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss as `bertkit.tasks.base.Task.loss`; -100 and NaN mark missing labels."""
        logits, labels = at_least_float32(outputs["logits"]), batch["labels"]
        if labels.is_floating_point():
            targets = labels.to(logits.dtype).where(~labels.isnan(), 0.0)
            losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        else:
            losses = F.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORE_INDEX, reduction="none"
            ).reshape(labels.shape)
            if self.smoothing:
                # Padding choices of multiple choice have the lowest number, and are no classes.
                are_classes = outputs["logits"] > torch.finfo(outputs["logits"].dtype).min
                uniform = -logits.log_softmax(dim=-1).where(are_classes, 0.0).sum(dim=-1) / are_classes.sum(dim=-1)
                losses = (1 - self.smoothing) * losses + self.smoothing * uniform
        if self.focus:
            # Limited from below, since the derivative of a power is infinite at 0 for exponents less than 1.
            losses = losses * (-torch.expm1(-losses)).clamp(min=1e-12) ** self.focus
        return mean_loss((losses * self._item_weights(labels)).sum(), count)

    def _item_weights(self, labels: Tensor) -> Tensor:
        """Returns the weight of each item, in the shape of ``labels``; 0 for missing labels."""
        is_labelled = ~labels.isnan() if labels.is_floating_point() else labels != IGNORE_INDEX
        if self.weights is None:
            return is_labelled.float()
        self.weights = self.weights.to(labels.device)  # a copy in the first step only
        absent, present = self.weights
        if labels.is_floating_point():
            return present.where(labels > 0.5, absent).where(is_labelled, 0.0)
        return present[labels.where(is_labelled, 0)].where(is_labelled, 0.0)


def check_class_weights(recipe: Recipe, names: Sequence[str]) -> None:
    """Checks ``train.class_weights``; RecipeError if the value is not valid, or not together with another value.

    Args:
        recipe: the recipe of a fine-tuning.
        names: the classes of the task, see `weighted_labels`.
    """
    given, key = recipe.train.get("class_weights"), f"recipe {recipe.name}: train.class_weights"
    if given is None:
        return
    if not names:
        raise RecipeError(f"{key}: this task has no classes to weight; remove it")
    if recipe.train.get("label_smoothing_factor"):
        raise RecipeError(f"{key}: does not work together with train.label_smoothing_factor; remove one of them")
    if isinstance(given, str):
        if given != "balanced" and _focus(given) is None:
            raise RecipeError(
                f"{key}: expected balanced, focal, focal:EXPONENT, or a weight for each label, got {given!r}"
            )
        return
    numbers = {name: weight for name, weight in given.items() if type(weight) in (int, float)}
    wrong = [name for name in given if not 0 < numbers.get(name, 0) < math.inf]
    if wrong:
        raise RecipeError(f"{key}: {wrong[0]}: expected a positive number, got {given[wrong[0]]!r}")
    unknown = [str(name) for name in given if str(name) not in names]
    if unknown:
        raise RecipeError(f"{key}: {unknown[0]!r} is no label of the training data{did_you_mean(unknown[0], names)}")


def weighted_labels(task: Task) -> list[str]:
    """Returns the names of the classes whose losses can be weighted, by id; empty if the loss is not one of classes."""
    config = task.config()
    if type(task).loss is not Task.loss or config.get("problem_type") == "regression":
        return []
    return list(config.get("id2label", {}).values())


def weighted_objective(recipe: Recipe, task: Task, features: Any) -> WeightedObjective:
    """Returns the objective with the losses of ``train.class_weights`` and ``train.label_smoothing_factor``.

    ``balanced`` weights are inversely proportional to the frequency in the training set, as in scikit-learn:
    n / (C · n_c) of a class c; with several labels per row n / (2 · n_c) of the presence and of the absence of each
    label. Labels that are not given a weight have weight 1.

    Args:
        recipe: a recipe that `check_class_weights` accepts, with one of these keys or both.
        task: its task.
        features: the encoded training set; its ``labels`` are class ids, lists of class ids, or lists of C floats.

    Raises:
        RecipeError: labels are smoothed, and the loss of the task is not cross-entropy of class ids.
    """
    classes, smoothing = recipe.train.get("class_weights"), recipe.train.get("label_smoothing_factor") or 0.0
    if smoothing:
        has_ids = tuple(task.label_columns) == ("labels",) and np.asarray(features["labels"][:1]).dtype.kind in "iu"
        if type(task).loss is not Task.loss or not has_ids:
            raise RecipeError(
                f"recipe {recipe.name}: train.label_smoothing_factor: is for one class per row or word, and this "
                "task has other labels; remove it"
            )
    names, weights, focus = weighted_labels(task), None, 0.0
    if isinstance(classes, Mapping):
        by_name = {str(name): float(weight) for name, weight in classes.items()}
        weights = torch.tensor([[1.0] * len(names), [by_name.get(name, 1.0) for name in names]])
    elif classes == "balanced":
        weights = torch.from_numpy(_balanced(features["labels"][:], len(names)))
    elif classes is not None:
        focus = _focus(classes) or 0.0
    return WeightedObjective(task.label_columns, weights, focus=focus, smoothing=smoothing)


def _balanced(labels: Any, classes: int) -> np.ndarray:
    """Returns the balanced weights, (2, C) float32; 1 for what does not occur."""
    columns = [np.asarray(each) for each in labels]
    if columns[0].dtype.kind == "f":
        present = np.sum(columns, axis=0)
        counts, total = np.stack([len(columns) - present, present]), len(columns) / 2
    else:
        ids = np.concatenate([np.atleast_1d(each) for each in columns])
        of_classes = np.bincount(ids[ids != IGNORE_INDEX], minlength=classes)
        counts, total = np.stack([of_classes, of_classes]), of_classes.sum() / classes
    return np.where(counts > 0, total / np.maximum(counts, 1), 1.0).astype(np.float32)


def _focus(value: str) -> float | None:
    """Returns the exponent of ``focal`` or ``focal:EXPONENT``; ``None`` for other values."""
    name, colon, number = value.partition(":")
    if name != "focal":
        return None
    try:
        focus = float(number) if colon else _FOCUS
    except ValueError:
        return None
    return focus if 0 < focus < math.inf else None
