"""Value of ``train.distill``: the teacher of a run, and the weights of its losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DISTILL = "distill"


@dataclass(frozen=True)
class DistillationSettings:
    """Knowledge distillation (Hinton et al. 2015, arXiv:1503.02531).

    The loss of the student is ``(1 - alpha) · labels + alpha · (soft + hidden · cosine)``: ``labels`` is the loss of a
    run without a teacher, ``soft`` compares the outputs with those of the teacher, ``cosine`` the last hidden states.

    Attributes:
        teacher: the fine-tuned checkpoint to learn from, a folder or a Hub id.
        alpha: weight of the teacher's part of the loss, 0 to 1; the labels have the weight ``1 - alpha``. With 0, the
            run is the same as one without a teacher, bit for bit; 1 needs no labels.
        temperature: divides the logits of teacher and student in ``soft``, which is multiplied by its square, so that
            its gradients keep their size. Does not apply to regression.
        hidden: weight of ``cosine``, 1 minus the cosine of the last hidden states of each token (Sanh et al. 2019,
            arXiv:1910.01108); needs a teacher of the same hidden size.
    """

    teacher: str
    alpha: float = 0.5
    temperature: float = 2.0
    hidden: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha: expected 0 to 1, got {self.alpha}")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature: expected a positive number, got {self.temperature}")
        if not 0 <= self.hidden < math.inf:
            raise ValueError(f"hidden: expected at least 0, got {self.hidden}")

    def __str__(self) -> str:
        hidden = f", cosine of hidden states {self.hidden:g}" if self.hidden else ""
        return f"α {self.alpha:g}, temperature {self.temperature:g}{hidden}"


def distillation_settings(train: Mapping[str, Any]) -> DistillationSettings | None:
    """Returns the settings in the ``train`` block of a checked recipe; ``None`` if it has no teacher."""
    given = train.get(DISTILL)
    return None if given is None else DistillationSettings(**given)
