"""Hooks of a task for distillation: training sets without labels, and the loss against the outputs of a teacher."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from bertkit.tasks.splits import is_labelled

if TYPE_CHECKING:
    from torch import Tensor


class Taught:
    """Base class of `bertkit.tasks.base.Task` with the hooks of `bertkit.training.distillation`.

    Attributes:
        labels_are_optional: whether the training set may lack labels, see `with_optional_labels`.
    """

    labels_are_optional: bool = False

    def with_optional_labels(self) -> Self:
        """Returns a copy of the task whose training set may lack labels.

        Such a task has learnt its labels and columns from other data: it is that of a checkpoint.
        """
        changed = copy.copy(self)
        changed.labels_are_optional = True
        return changed

    def needs_labels(self, split: str) -> bool:
        """Returns whether the split of this name must have labels."""
        return is_labelled(split) and not (split == "train" and self.labels_are_optional)

    def unfitted(self) -> Self:
        """Returns a copy of the task without the values that `Task.learn_from` has fitted to a checkpoint."""
        return self

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool] | None:
        """Returns which tokens of an encoded row the task predicts for; ``None`` if a row has one prediction."""
        return None

    def teacher_loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the loss of model outputs against those of a teacher, summed over the items, 0-d.

        By default the cross-entropy of ``logits``.

        Args:
            outputs: model outputs, computed without labels.
            teacher: outputs of the teacher by the same names; NaN marks what does not count
                (`bertkit.tasks.distillation`).
            temperature: of the distributions.
        """
        from bertkit.tasks.distillation import soft_cross_entropy

        return soft_cross_entropy(outputs["logits"], teacher["logits"], temperature)
