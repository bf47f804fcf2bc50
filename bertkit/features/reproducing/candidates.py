"""Checkpoints that are fine-tuned for a table, and the paper's models of their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.features.reproducing.paper import PaperTable, System
from bertkit.model.checkpoint.encoders import BERT
from bertkit.model.checkpoint.load import load_config
from bertkit.recipe.files import read_recipe_file
from bertkit.runtime.progress import counted


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that is fine-tuned.

    Attributes:
        name: its name in results and folders: that of its folder, or its Hub id.
        path: folder or Hub id.
        size: its layers, hidden size and heads, and the variant of its pre-training.
        system: the paper's model of this size and variant; None without one.
        note: why there is no system, or what was assumed; empty without either.
    """

    name: str
    path: str
    size: System
    system: str | None
    note: str = ""


def candidate_of(path: str, paper: PaperTable) -> Candidate:
    """Returns a checkpoint with the model of the table that has its size and variant.

    Raises:
        CheckpointError: it does not exist, or is no encoder.
    """
    config = load_config(path, any_encoder=True)
    layers, hidden, heads = (
        getattr(config, key, 0) for key in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    variant, assumed = (None, "")
    if any(system.variant for system in paper.systems.values()):
        variant, assumed = _variant_of(path, config)
    size = System(layers, hidden, heads, variant)
    name = Path(path).resolve().name if Path(path).is_dir() else path
    if config.model_type not in BERT:
        return Candidate(name, path, size, None, f"{name} is {config.model_type} and not BERT: no difference")
    system = next((system for system, each in paper.systems.items() if each == size), None)
    if system is None:
        shape = f"{counted(layers, 'layer')} of {hidden} with {counted(heads, 'head')}"
        assumed = f"{name} has {shape}, which is no model of the paper's table: no difference"
    return Candidate(name, path, size, system, assumed)


def _variant_of(path: str, config: Any) -> tuple[str, str]:
    """Returns the variant of the pre-training of a checkpoint, and a note if it was assumed."""
    if getattr(config, "attention", None) == "left_to_right":
        return "ltr-no-nsp", ""
    file = Path(path) / "recipe.yaml"
    task = read_recipe_file(file)[0].get("task") if file.is_file() else None
    objective = task.get("pair_objective") if isinstance(task, Mapping) else None
    if objective is None:
        return "full", f"{path}: no recipe of its pre-training; taken to be BERT's, with next sentence prediction"
    return ("full" if objective == "nsp" else "no-nsp"), ""
