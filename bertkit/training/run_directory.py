"""What a run leaves in its output directory, besides weights: the recipe, results, ``run.json`` and the card."""

from __future__ import annotations

import glob
import json
import math
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit import __version__
from bertkit.errors import DataError, OutputError, RecipeError, TrainingError
from bertkit.files import write_whole
from bertkit.recipe.load import Recipe
from bertkit.tasks.registry import load_recipe

if TYPE_CHECKING:
    from bertkit.placement.resolve import Placement
    from bertkit.tasks.splits import Truncation

# What a resumed run may change: how long it goes on, and what it tells and keeps on the way.
_FREE_ON_RESUME = {
    "train.max_steps",
    "train.num_train_epochs",
    "train.logging_steps",
    "train.save_steps",
    "train.save_total_limit",
    "train.eval_steps",
}

_PACKAGES = ("torch", "transformers", "datasets", "accelerate", "evaluate", "tokenizers")


@dataclass(frozen=True)
class Run:
    """What `bertkit.pretrain` and `bertkit.finetune` return.

    Attributes:
        output_dir: the run directory; its top level loads with ``AutoModel….from_pretrained``.
        metrics: everything that stands in ``all_results.json``.
    """

    output_dir: Path
    metrics: dict[str, float]


@dataclass
class RunRecord:
    """Gathers what ``run.json`` says; ``wall_time`` is in seconds, of a resumed run since it was resumed."""

    recipe: Recipe
    placement: Placement
    data: dict[str, Any] = field(default_factory=dict)
    truncation: dict[str, Truncation] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    def versions(self) -> dict[str, str]:
        """Versions of the packages that numbers depend on."""
        return {"bertkit": __version__, **{name: version(name) for name in _PACKAGES}}

    def write(self, output_dir: Path, **facts: Any) -> None:
        """Writes ``run.json``."""
        record = {
            "recipe": self.recipe.name,
            "versions": {**self.versions(), "python": platform.python_version()},
            "placement": {
                "device": self.placement.device,
                "num_processes": self.placement.num_processes,
                "strategy": self.placement.strategy,
                "mixed_precision": self.placement.mixed_precision,
                "per_device_train_batch_size": self.placement.per_device_train_batch_size,
                "gradient_accumulation_steps": self.placement.gradient_accumulation_steps,
            },
            "seed": self.recipe.train["seed"],
            "data": self.data,
            "truncation": {split: vars(cut) for split, cut in self.truncation.items()},
            "wall_time": round(time.time() - self.started, 1),
            **facts,
        }
        write_json(output_dir / "run.json", record)


def write_json(path: Path, content: Any) -> None:
    """Writes JSON so that the file is either as it was before or whole."""
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def write_results(output_dir: Path, split: str, metrics: dict[str, float]) -> None:
    """Writes ``<split>_results.json`` and adds the same to ``all_results.json``; both are flat.

    Raises:
        TrainingError: a metric is not a finite number; a score that means nothing is an error, not a number.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            why = "the training diverged" if "loss" in name else "it is not defined where all predictions are the same"
            raise TrainingError(
                f"{name} is {value}: {why}; try another train.learning_rate, or more steps, of which more to warm up"
            )
    write_json(output_dir / f"{split}_results.json", metrics)
    path = output_dir / "all_results.json"
    known = json.loads(path.read_text()) if path.is_file() else {}
    write_json(path, {**known, **metrics})


def check_output_dir(output_dir: Path, resume: bool) -> None:
    """Refuses a directory in use, one that cannot be made, and one to resume that holds no run; touches nothing.

    Raises:
        OutputError: as above, or the path is a file.
    """
    if output_dir.exists() and not output_dir.is_dir():
        raise OutputError(f"--output-dir {output_dir}: a file of that name exists; give a folder")
    contents = sorted(entry.name for entry in output_dir.iterdir()) if output_dir.is_dir() else []
    if resume and "recipe.yaml" not in contents:
        raise OutputError(f"--resume: {output_dir} holds no run (no recipe.yaml); leave --resume out to start one")
    if contents and not resume:
        shown = ", ".join(contents[:3]) + (", …" if len(contents) > 3 else "")
        raise OutputError(
            f"--output-dir {output_dir}: already holds {shown}; give another folder, or --resume to continue that run"
        )
    parent = next(path for path in (output_dir, *output_dir.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise OutputError(f"--output-dir {output_dir}: {parent} is a file; give another folder")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"--output-dir {output_dir}: {parent} cannot be written to; give another folder")


def check_same_recipe(recipe: Recipe, output_dir: Path) -> list[str]:
    """Refuses to resume a run under a recipe that would have given other numbers from the start.

    Returns:
        What a resumed run may change, and this one does, in words.

    Raises:
        RecipeError: values differ from those in the run's ``recipe.yaml``, named one by one.
    """
    then, now = load_recipe(output_dir / "recipe.yaml").to_dict(), recipe.to_dict()
    wrong: list[str] = []
    allowed: list[str] = []
    for block in ("task", "model", "data", "train"):
        for key in sorted(then[block].keys() | now[block].keys()):
            before, after = then[block].get(key), now[block].get(key)
            if before != after:
                change = f"{block}.{key} was {before!r} and is now {after!r}"
                (allowed if f"{block}.{key}" in _FREE_ON_RESUME else wrong).append(change)
    if wrong:
        raise RecipeError(
            f"--resume: the run in {output_dir} was started with other values: {'; '.join(wrong)}. "
            "Give the same ones, or start a new run in another folder"
        )
    return allowed


def check_same_data(output_dir: Path, data: Mapping[str, Any]) -> None:
    """Refuses to resume a run on data that have changed since: its examples would be others.

    Args:
        output_dir: the run; what it began with stands in its ``run.json``.
        data: what each split or corpus is now, with its ``fingerprint``.

    Raises:
        DataError: a fingerprint differs.
    """
    path = output_dir / "run.json"
    began: dict[str, Any] = json.loads(path.read_text())["data"] if path.is_file() else {}
    changed = [name for name, facts in data.items() if facts["fingerprint"] != began.get(name, facts)["fingerprint"]]
    if changed:
        raise DataError(
            f"--resume: the data of the run in {output_dir} have changed since it began ({', '.join(changed)}); "
            "bring them back, or start a new run in another folder"
        )


def is_finished(output_dir: Path) -> bool:
    """Whether a folder holds a run that came to its end."""
    path = output_dir / "run.json"
    return path.is_file() and json.loads(path.read_text()).get("finished", False)


def last_checkpoint(output_dir: Path) -> str | None:
    """The newest complete ``checkpoint-N`` of a run, or ``None``.

    ``trainer_state.json`` is the last file that transformers writes of a checkpoint, so one that a killed process
    left unfinished lacks it, or holds only a part of it.
    """
    steps = {}
    for path in output_dir.glob("checkpoint-*"):
        number = path.name.removeprefix("checkpoint-")
        try:
            json.loads((path / "trainer_state.json").read_text())
        except (OSError, ValueError):
            continue
        if number.isdigit():
            steps[int(number)] = path
    return str(steps[max(steps)]) if steps else None


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Results that go into JSON: the numbers among a Trainer's metrics."""
    return {key: float(value) for key, value in metrics.items() if isinstance(value, (int, float))}


def absolute(path: str | Path) -> str:
    """A file, a folder or a pattern as an absolute path, so that ``recipe.yaml`` works anywhere; a Hub id as it is.

    >>> absolute("google-bert/bert-base-uncased"), absolute("/texts/*.txt")
    ('google-bert/bert-base-uncased', '/texts/*.txt')
    """
    expanded = Path(path).expanduser()
    if expanded.exists():
        return str(expanded.resolve())
    if any(sign in str(path) for sign in "*?["):
        return os.path.join(glob.escape(os.getcwd()), expanded)
    return str(path)
