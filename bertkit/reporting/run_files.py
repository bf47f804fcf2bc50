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
_STATE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
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
    """Returns the state of the Trainer at the end of the run, or at its last checkpoint; empty without any."""
    checkpoints = [(int(match[1]), path) for path in folder.iterdir() if (match := _CHECKPOINT.fullmatch(path.name))]
    places = [folder, *(path for _, path in sorted(checkpoints, reverse=True))]
    path = next((each / _STATE for each in places if (each / _STATE).is_file()), folder / _STATE)
    state = _json(path)
    history = state.get("log_history", [])
    if not isinstance(history, list) or not all(
        isinstance(entry, dict) and all(isinstance(entry.get(key, 0), (int, float)) for key in _NUMBERS)
        for entry in history
    ):
        raise _damaged(path, "log_history is not a list of logged numbers")
    _check(path, state, int, "global_step", "max_steps")
    return state


def _record(path: Path) -> Mapping[str, Any]:
    record = _json(path)
    _check(path, record, dict, "data", "truncation", "placement", "hardware", "versions", "baselines")
    _check(path, record, list, "warnings", "phases")
    for key in ("data", "truncation"):
        _check(path, record.get(key, {}), dict, *record.get(key, {}))
    return record


def _results(path: Path) -> Mapping[str, float]:
    results = _json(path)
    _check(path, results, (int, float, type(None)), *results)
    return results


def _check(path: Path, values: Mapping[str, Any], kind: type | tuple[type, ...], *keys: str) -> None:
    """Raises DataError for the first of these keys whose value is of another kind; keys may be missing."""
    name = "an object" if kind is dict else "a list" if kind is list else "a number"
    for key in keys:
        if key in values and not isinstance(values[key], kind):
            raise _damaged(path, f"{shown(key)} is not {name}")


def _json(path: Path) -> dict[str, Any]:
    """Returns the contents of a JSON file with one object; empty if the file does not exist.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(contents, dict):
        raise _damaged(path, "expected one object")
    return contents


def _damaged(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: damaged ({fault}); restore it from a copy of the run")
