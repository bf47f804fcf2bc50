"""Reading of the files of a run directory, of a finished or an unfinished run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from bertkit.recipe.files import read_recipe_text
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs.listing import GRID_FILE

_COMMAND = re.compile(r"^# Resolved from .*\. To repeat the run: (.+)$")
_CHANGED = re.compile(r"^# (Resumed, and .+)$")
_STATE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_RESTORE = "restore it from a copy of the run"


class _Entry(TypedDict, total=False):
    train_runtime: float
    train_tokens_per_second: float
    num_input_tokens_seen: float


class _State(TypedDict, total=False):
    log_history: list[_Entry]
    global_step: int
    max_steps: int


class _Proposal(TypedDict):
    reason: str
    command: str
    options: list[str]
    suffix: str


class _Record(TypedDict, total=False):
    data: dict[str, dict[str, Any]]
    truncation: dict[str, dict[str, Any]]
    placement: dict[str, Any]
    hardware: dict[str, Any]
    versions: dict[str, Any]
    baselines: dict[str, Any]
    warnings: list[Any]
    phases: list[Any]
    verdict: list[str]
    proposal: _Proposal | None


@dataclass(frozen=True)
class RunFiles:
    """Files of a run directory.

    Attributes:
        folder: the directory.
        recipe: the resolved recipe.
        record: contents of ``run.json``.
        results: contents of ``all_results.json``, None where a score is undefined; empty if the training has not ended.
        history: the entries that the Trainer logged, in order; of an unfinished run those of its last checkpoint.
        step, max_steps: optimizer steps done and planned; None if unknown.
        command: the command that repeats the run; None if ``recipe.yaml`` alone does not.
        changed: what a resumed run changed, in words; an empty text for nothing.
    """

    folder: Path
    recipe: Recipe
    record: Mapping[str, Any]
    results: Mapping[str, Any]
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
        RecipeError: its recipe cannot be read.
    """
    folder = Path(place)
    if not folder.is_dir():
        raise CheckpointError(f"{place}: no such folder; give a run directory of `bertkit finetune` or `pretrain`")
    if (folder / GRID_FILE).is_file():
        raise CheckpointError(
            f"{place}: a grid of runs; give {folder / 'best'}, folders in {folder / 'runs'}, or the grid alone to "
            "`bertkit report` or bertkit.report_grid"
        )
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
    # The state of the Trainer at the end of the run, or at its last checkpoint.
    state = ended = _read(folder / _STATE, _State)
    checkpoints = {int(match[1]): path for path in folder.iterdir() if (match := _CHECKPOINT.fullmatch(path.name))}
    last = max((step for step, path in checkpoints.items() if (path / _STATE).is_file()), default=0)
    if last > ended.get("global_step", 0):
        state = _read(checkpoints[last] / _STATE, _State)
    # A run that is continued after its end keeps the files of that end until it ends again.
    is_out_of_date = bool(ended) and state is not ended
    heading = read_recipe_text(folder / "recipe.yaml").partition("\n")[0]
    command, changed = _COMMAND.match(heading), _CHANGED.match(heading)
    return RunFiles(
        folder=folder,
        recipe=load_recipe(folder / "recipe.yaml"),
        record=_read(folder / "run.json", _Record),
        results={} if is_out_of_date else _read(folder / "all_results.json", dict[str, float | None]),
        history=tuple(entry for entry in state.get("log_history", ()) if isinstance(entry.get("step"), int)),
        step=state.get("global_step"),
        max_steps=state.get("max_steps"),
        command=command[1] if command else None,
        changed=changed[1] if changed else "",
    )


def _read(path: Path, content_type: Any) -> dict[str, Any]:
    """Returns the contents of a JSON file with one object; empty if the file does not exist."""
    if not path.is_file():
        return {}
    try:
        contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        TypeAdapter(content_type).validate_python(contents, strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise DataError(f"{path}: damaged ({place}: {fault['msg']}); {_RESTORE}") from error
    except ValueError as error:
        raise DataError(f"{path}: damaged ({error}); {_RESTORE}") from error
    return contents
