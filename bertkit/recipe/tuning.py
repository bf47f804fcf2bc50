"""Keys of a recipe that select the weights that fine-tuning changes, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from bertkit.options import check_ranges, setting

KEEP, LORA = "keep_layers", "lora"


@dataclass(frozen=True)
class LoraSettings:
    """Value of ``model.lora``: low-rank adapters (Hu et al. 2022, arXiv:2106.09685) of PEFT."""

    r: int = setting("Rank of the adapters.", default=16, ge=1, le=4096)
    alpha: float | None = setting(
        "The adapters are scaled by `alpha / r`; `null` is twice the rank.", default=None, gt=0
    )
    dropout: float = setting("Dropout rate of the input of the adapters.", default=0.0, ge=0, lt=1)
    targets: list[str] = setting(
        "Names of the dense layers that have adapters, such as `query` and `value`; all dense layers of the "
        "encoder's layers if empty.",
        factory=list,
    )
    save: Literal["merged", "adapter"] = setting(
        "`merged` saves the model with merged weights only; `adapter` also saves the adapters in PEFT's format,"
        " in the folder `adapter`.",
        default="merged",
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def scale(self) -> float:
        """Value of ``alpha``, with its default."""
        return 2 * self.r if self.alpha is None else self.alpha

    def __str__(self) -> str:
        dropout = f", dropout {self.dropout:g}" if self.dropout else ""
        where = f"the dense layers {', '.join(self.targets)}" if self.targets else "all dense layers"
        return f"rank {self.r}, α {self.scale:g}{dropout}, on {where}"


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """Keys of the ``model`` block that are not fields of the configuration."""

    name_or_path: str | None = setting(
        "Checkpoint to start from: a folder or a Hub id. Without it, the weights are new.", default=None
    )
    freeze_layers: int = setting(
        "Number of layers of the encoder, the lowest first, that are not trained.", default=0, ge=0
    )
    freeze_embeddings: bool = setting("Whether the embeddings are not trained.", default=False)
    reinit_layers: int = setting(
        "Number of layers of the encoder, the highest first, that start with new weights.", default=0, ge=0
    )
    keep_layers: list[int] | None = setting(
        "Layers of the encoder to keep, numbered from 0; the others are removed.", default=None
    )
    lora: LoraSettings | None = setting(
        "Train low-rank adapters of PEFT instead of the encoder's weights.", default=None
    )


KEYS = tuple(each.name for each in fields(TuningSettings) if each.name != "name_or_path")
"""Keys of the ``model`` block that select the weights that fine-tuning changes."""


def config_changes(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the configuration that the ``model`` block of a fine-tuning recipe sets."""
    return {key: value for key, value in model.items() if key != "name_or_path" and key not in KEYS}
