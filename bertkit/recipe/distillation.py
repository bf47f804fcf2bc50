"""Value of ``train.distill``: the teacher of a run, and the weights of its losses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

DISTILL = "distill"
Objective = Literal["distilbert", "minilm"]

_USUAL_ALPHA: dict[Objective, float] = {"distilbert": 0.5, "minilm": 1.0}
_TEMPERATURE = 2.0


@dataclass(frozen=True)
class DistillationSettings:
    """Knowledge distillation (Hinton et al. 2015, arXiv:1503.02531), in fine-tuning and in pre-training.

    The loss of the student is ``(1 - alpha) · labels + alpha · taught``: ``labels`` is the loss of a run without a
    teacher. With ``distilbert``, ``taught`` is ``soft + hidden · cosine``: ``soft`` compares the outputs with those of
    the teacher, ``cosine`` the last hidden states (Sanh et al. 2019, arXiv:1910.01108). With ``minilm``, which is for
    pre-training, it compares the relations of queries, of keys and of values (Wang et al. 2021, arXiv:2012.15828).

    Attributes:
        teacher: the checkpoint to learn from, a folder or a Hub id: a fine-tuned one, or in pre-training one with a
            masked-LM head, which ``minilm`` does not need.
        objective: the teacher's part of the loss: ``distilbert`` or ``minilm``.
        alpha: weight of the teacher's part of the loss, 0 to 1; the labels have the weight ``1 - alpha``. With 0, the
            run is the same as one without a teacher, bit for bit; 1 needs no labels. ``None`` is 0.5 with
            ``distilbert`` and 1 with ``minilm``.
        temperature: divides the logits of teacher and student in ``soft``, which is multiplied by its square, so that
            its gradients keep their size. Does not apply to regression.
        hidden: weight of ``cosine``, 1 minus the cosine of the last hidden states of each token; needs a teacher of the
            same hidden size.
        teacher_layer: with ``minilm``, layer of the teacher whose relations are compared, from 0; ``None`` is the last.
        relation_heads: with ``minilm``, number of heads into which queries, keys and values of both models are divided;
            ``None`` is the number of attention heads of the student.
    """

    teacher: str
    objective: Objective = "distilbert"
    alpha: float | None = None
    temperature: float = _TEMPERATURE
    hidden: float = 0.0
    teacher_layer: int | None = None
    relation_heads: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"alpha: expected 0 to 1, got {self.alpha}")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature: expected a positive number, got {self.temperature}")
        if not 0 <= self.hidden < math.inf:
            raise ValueError(f"hidden: expected at least 0, got {self.hidden}")
        if self.teacher_layer is not None and self.teacher_layer < 0:
            raise ValueError(f"teacher_layer: expected at least 0, got {self.teacher_layer}")
        if self.relation_heads is not None and self.relation_heads < 1:
            raise ValueError(f"relation_heads: expected at least 1, got {self.relation_heads}")
        others: dict[str, float | None] = {"temperature": _TEMPERATURE, "hidden": 0.0}
        if self.objective == "distilbert":
            others = {"teacher_layer": None, "relation_heads": None}
        for name, usual in others.items():
            if getattr(self, name) != usual:
                raise ValueError(f"{name}: has no effect with the objective {self.objective}; remove it")

    @property
    def weight(self) -> float:
        """Weight of the teacher's part of the loss: ``alpha``, or its default."""
        return _USUAL_ALPHA[self.objective] if self.alpha is None else self.alpha

    def to_dict(self) -> dict[str, Any]:
        """Returns all values, with the default of ``alpha``, so that a recipe says which ones a run had."""
        return {**dataclasses.asdict(self), "alpha": self.weight}

    def __str__(self) -> str:
        if self.objective == "minilm":
            return f"relations of queries, keys and values (MiniLMv2), α {self.weight:g}"
        hidden = f", cosine of hidden states {self.hidden:g}" if self.hidden else ""
        return f"α {self.weight:g}, temperature {self.temperature:g}{hidden}"


def distillation_settings(train: Mapping[str, Any]) -> DistillationSettings | None:
    """Returns the settings in the ``train`` block of a checked recipe; ``None`` if it has no teacher."""
    given = train.get(DISTILL)
    return None if given is None else DistillationSettings(**given)


def has_teacher(train: Mapping[str, Any]) -> bool:
    """Returns whether a ``train`` block has a teacher with a weight; without one, a run is one without distillation."""
    settings = distillation_settings(train)
    return settings is not None and settings.weight > 0
