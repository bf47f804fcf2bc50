"""Reading of the files of a run directory, of a finished or an unfinished run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.errors import CheckpointError, DataError, shown
from bertkit.recipe.load import Recipe
from bertkit.tasks.registry import load_recipe

_COMMAND = re.compile(r"^# Resolved from .*\. To repeat the run: (.+)$")
_CHANGED = re.compile(r"^# (Resumed, and .+)$")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_OBJECTS = ("data", "truncation", "placement", "hardware", "versions", "baselines")  # keys of run.json
_LISTS = ("warnings", "phases")
_NUMBERS = ("train_runtime", "train_tokens_per_second", "num_input_tokens_seen", "eval_runtime")  # of an entry of a log


@dataclass(frozen=True)
class RunFiles:
    """Files of a run directory.

    Attributes:
        folder: the directory.
        recipe: the resolved recipe.
        record: contents of ``run.json``.
        results: contents of ``all_results.json``; empty if the training has not ended.
        history: the entries that the Trainer logged, in order; of an unfinished run those of its last checkpoint.
        step, max_steps: optimizer steps done and planned; None if unknown.
        command: the command that repeats the run; None if ``recipe.yaml`` alone does not.
        changed: what a resumed run changed, in words; an empty text for nothing.
    """

    folder: Path
    recipe: Recipe
    record: Mapping[str, Any]
    results: Mapping[str, float]
    history: tuple[Mapping[str, Any], ...]
    step: int | None
    max_steps: int | None
    command: str | None
    changed: str

    @property
    def is_finished(self) -> bool:
        """Returns whether the run has written all its files."""
        return self.record.get("finished") is True

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.folder.resolve().name


def read_run(place: str | Path) -> RunFiles:
    """Reads a run directory.

    Raises:
        CheckpointError: the folder holds no run.
        DataError: a file of the run is damaged.
    """
    folder = Path(place)
    if not folder.is_dir():
        raise CheckpointError(f"{place}: no such folder; give a run directory of `bertkit finetune` or `pretrain`")
    if (folder / "grid.json").is_file():
        raise CheckpointError(f"{place}: a grid of runs; give {folder / 'best'}, or folders in {folder / 'runs'}")
    missing = [name for name in ("recipe.yaml", "run.json") if not (folder / name).is_file()]
    if missing == ["run.json"] and (folder / "report.html").is_file():
        raise CheckpointError(
            f"{place}: contains no run.json, as a run from the Hub; its report is {folder / 'report.html'}, as it was "
            "pushed, and another can be made from the directory that the run was written to"
        )
    if missing:
        raise CheckpointError(
            f"{place}: contains no {' and no '.join(missing)}; expected a run directory of `bertkit finetune` or "
            "`bertkit pretrain`"
        )
    state = _state(folder)
    heading = (folder / "recipe.yaml").read_text(encoding="utf-8").partition("\n")[0]
    command, changed = _COMMAND.match(heading), _CHANGED.match(heading)
    return RunFiles(
        folder=folder,
        recipe=load_recipe(folder / "recipe.yaml"),
        record=_record(folder / "run.json"),
        results=_results(folder / "all_results.json"),
        history=tuple(entry for entry in state.get("log_history", ()) if isinstance(entry.get("step"), int)),
        step=state.get("global_step"),
        max_steps=state.get("max_steps"),
        command=command[1] if command else None,
        changed=changed[1] if changed else "",
    )


def _state(folder: Path) -> Mapping[str, Any]:
    """Returns the state of the Trainer at the end of the run, or at its last checkpoint."""
    if (folder / "trainer_state.json").is_file():
        return _checked_state(folder / "trainer_state.json")
    checkpoints = [
        (int(found[1]), path) for path in folder.iterdir() if (found := _CHECKPOINT.fullmatch(path.name)) is not None
    ]
    for _, path in sorted(checkpoints, reverse=True):
        if (path / "trainer_state.json").is_file():
            return _checked_state(path / "trainer_state.json")
    return {}


def _checked_state(path: Path) -> Mapping[str, Any]:
    """Returns a state whose steps are integers and whose log has entries; raises DataError for others."""
    state = _json(path)
    history = state.get("log_history", [])
    is_log = isinstance(history, list) and all(isinstance(entry, dict) for entry in history)
    if not is_log or not all(isinstance(entry.get(key, 0), (int, float)) for entry in history for key in _NUMBERS):
        raise _damaged(path, "log_history is not a list of logged numbers")
    for key in ("global_step", "max_steps"):
        if not isinstance(state.get(key, 0), int):
            raise _damaged(path, f"{key} is no number of steps")
    return state


def _record(path: Path) -> Mapping[str, Any]:
    record = _json(path)
    kinds = [(key, dict, "an object") for key in _OBJECTS] + [(key, list, "a list") for key in _LISTS]
    for key, kind, name in kinds:
        if not isinstance(record.get(key, kind()), kind):
            raise _damaged(path, f"{key} is not {name}")
    for key in ("data", "truncation"):
        if not all(isinstance(facts, dict) for facts in record.get(key, {}).values()):
            raise _damaged(path, f"{key} does not hold an object for each split")
    return record


def _results(path: Path) -> Mapping[str, float]:
    results = _json(path)
    wrong = [key for key, value in results.items() if not isinstance(value, (int, float, type(None)))]
    if wrong:
        raise _damaged(path, f"{shown(wrong[0])} is no number")
    return results


def _json(path: Path) -> dict[str, Any]:
    """Returns the contents of a JSON file with one object; empty if the file does not exist.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(path, "expected one object")
    return found


def _damaged(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: damaged ({fault}); restore it from a copy of the run")
