"""Value of ``train.distill``: the teacher of a run, and the weights of its losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bertkit.options import check_ranges, setting

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
    """

    teacher: str = setting(
        "The checkpoint to learn from, a folder or a Hub id: a fine-tuned one, or in pre-training one with a "
        "masked-LM head, which `minilm` does not need."
    )
    objective: Objective = setting("The teacher's part of the loss: `distilbert` or `minilm`.", default="distilbert")
    alpha: float | None = setting(
        "Weight of the teacher's part of the loss, 0 to 1; the labels have the weight `1 - alpha`. With 0, the "
        "run is the same as one without a teacher, bit for bit; 1 needs no labels. `null` is 0.5 with "
        "`distilbert` and 1 with `minilm`.",
        default=None,
        ge=0,
        le=1,
    )
    temperature: float = setting(
        "Divides the logits of teacher and student in `soft`, which is multiplied by its square, so that its "
        "gradients keep their size. Does not apply to regression.",
        default=_TEMPERATURE,
        gt=0,
    )
    hidden: float = setting(
        "Weight of `cosine`, 1 minus the cosine of the last hidden states of each token; needs a teacher of the"
        " same hidden size.",
        default=0.0,
        ge=0,
    )
    teacher_layer: int | None = setting(
        "With `minilm`, layer of the teacher whose relations are compared, from 0; `null` is the last.",
        default=None,
        ge=0,
    )
    relation_heads: int | None = setting(
        "With `minilm`, number of heads into which queries, keys and values of both models are divided; `null` "
        "is the number of attention heads of the student.",
        default=None,
        ge=1,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
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
