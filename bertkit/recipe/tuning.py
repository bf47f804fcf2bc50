"""Keys of a recipe that select the weights that fine-tuning changes, and how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KEEP, LORA = "keep_layers", "lora"
KEYS: dict[str, Any] = {
    "freeze_layers": int,
    "freeze_embeddings": bool,
    "reinit_layers": int,
    KEEP: list[int] | None,
    LORA: dict[str, Any] | None,
}
"""Types of the keys of the ``model`` block that are not fields of the configuration."""


@dataclass(frozen=True)
class LoraSettings:
    """Value of ``model.lora``: low-rank adapters (Hu et al. 2022, arXiv:2106.09685) of PEFT.

    Attributes:
        r: rank of the adapters.
        alpha: the adapters are scaled by ``alpha / r``; ``None`` is twice the rank.
        dropout: dropout rate of the input of the adapters.
        targets: names of the dense layers that have adapters, such as ``query`` and ``value``; all dense layers of the
            encoder's layers if empty.
        save: ``merged`` saves the model with merged weights only; ``adapter`` also saves the adapters in PEFT's format,
            in the folder ``adapter``.
    """

    r: int = 16
    alpha: float | None = None
    dropout: float = 0.0
    targets: list[str] = field(default_factory=list)
    save: Literal["merged", "adapter"] = "merged"

    def __post_init__(self) -> None:
        if not 1 <= self.r <= 4096:
            raise ValueError(f"r: expected 1 to 4096, got {self.r}")
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha: expected a positive number, got {self.alpha}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected at least 0 and less than 1, got {self.dropout}")

    @property
    def scale(self) -> float:
        """Value of ``alpha``, with its default."""
        return 2 * self.r if self.alpha is None else self.alpha

    def __str__(self) -> str:
        dropout = f", dropout {self.dropout:g}" if self.dropout else ""
        where = f"the dense layers {', '.join(self.targets)}" if self.targets else "all dense layers"
        return f"rank {self.r}, α {self.scale:g}{dropout}, on {where}"


def config_changes(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the configuration that the ``model`` block of a fine-tuning recipe sets."""
    return {key: value for key, value in model.items() if key != "name_or_path" and key not in KEYS}
