"""Tracking of a run: one callback for all its trackers, open from the first check to the last figure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.errors import TrainingError, shortened
from bertkit.files import write_json
from bertkit.placement.resolve import is_main_process
from bertkit.progress import is_score, say
from bertkit.recipe.load import Recipe
from bertkit.run.tracking.names import trackers_of
from bertkit.run.tracking.trackers import Record, Tracker, tracker
from bertkit.sharing.model_card import without_paths

RECORDS_FILE = "tracking.json"
"""File of a run directory with what identifies its records, by tracker."""

_group: ContextVar[str | None] = ContextVar("group", default=None)
_open: ContextVar[list[Tracking] | None] = ContextVar("open", default=None)


@contextmanager
def run_group(folder: Path) -> Iterator[None]:
    """Context in which the records of runs form a group: a grid, or the tasks of a suite, in ``folder``."""
    token = _group.set(folder.resolve().name)
    try:
        yield
    finally:
        _group.reset(token)


@contextmanager
def records_closed() -> Iterator[None]:
    """Context at the end of which all records that were opened in it are closed, also after an exception."""
    token = _open.set([])
    try:
        yield
    finally:
        for each in _open.get() or ():
            each.abandon()
        _open.reset(token)


class Tracking(TrainerCallback):
    """Callback that writes a run to the trackers of its recipe, in the main process only.

    A tracker that fails after the start is left out with a warning, and the run goes on.

    Args:
        recipe: recipe of the run.
        output_dir: the run directory.
    """

    def __init__(self, recipe: Recipe, output_dir: Path):
        self._recipe, self._folder = recipe, output_dir
        self._trackers: list[Tracker] = []
        self._identities: dict[str, Any] = {}
        self._now: tuple[TrainingArguments, TrainerState, TrainerControl] | None = None
        self._logged: dict[str, Any] = {}

    def open(self, arguments: TrainingArguments, resume: bool) -> None:
        """Opens the records, before anything is written to the run directory.

        Raises:
            TrainingError: a tracker rejects the record, for example without a login.
        """
        if not is_main_process():
            return
        known = _read(self._folder / RECORDS_FILE) if resume else {}
        group, wanted, folder = _group.get(), self._recipe.train.get("run_name"), self._folder.resolve().name
        if (opened := _open.get()) is not None:
            opened.append(self)
        for name in trackers_of(self._recipe.train):
            record = Record(
                name=folder if group else wanted or folder,
                group=group and (wanted or group),
                config=_configuration(self._recipe),
                folder=self._folder,
                known=known.get(name, {}),
                arguments=arguments,
            )
            try:
                with redirect_stdout(sys.stderr):
                    each = tracker(name, record)
                    self._identities[name] = each.open()
            except Exception as error:  # trackers and their connections fail in many ways
                raise TrainingError(f"train.report_to: {name} cannot open a record: {_reason(error)}") from error
            self._trackers.append(each)

    def save(self) -> None:
        """Writes the file by which a resumed run finds its records."""
        if self._trackers:
            write_json(self._folder / RECORDS_FILE, _read(self._folder / RECORDS_FILE) | self._identities)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._now = args, state, control
        self._each(lambda each: each.begin(args, state, control, **kwargs))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._each(lambda each: each.callback.on_step_end(args, state, control, **kwargs))

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._each(lambda each: each.callback.on_evaluate(args, state, control, **kwargs))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._each(lambda each: each.callback.on_save(args, state, control, **kwargs))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._logged |= logs or {}
        self._each(lambda each: each.callback.on_log(args, state, control, logs=dict(logs or {}), **kwargs))

    def finish(self, metrics: Mapping[str, float], figures: Path, model: Any) -> None:
        """Writes the final scores that are not in the records yet and the figures, and closes the records.

        Args:
            metrics: results of the run.
            figures: folder with PNG files; it need not exist.
            model: the trained model.
        """
        if self._now is None:
            return
        now = self._now
        scores = {key: value for key, value in metrics.items() if is_score(key) and self._logged.get(key) != value}
        # transformers' trackers know test_, the name of others for predict_.
        final = {
            f"test_{key.removeprefix('predict_')}" if key.startswith("predict_") else key: value
            for key, value in scores.items()
            if not key.startswith("train_")
        }
        if final:
            self._each(lambda each: each.callback.on_log(*now, logs=dict(final), model=model))
        paths = sorted(figures.glob("*.png"))
        self._each(lambda each: each.figures(paths, now[1].global_step))
        self._each(lambda each: each.close(*now, model=model))
        self._trackers = []

    def abandon(self) -> None:
        """Closes the records that are still open, those of a failed run."""
        self._each(lambda each: each.abandon())
        self._trackers = []

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for each in list(self._trackers):
            try:
                with redirect_stdout(sys.stderr):  # some trackers print to stdout, which is for results
                    call(each)
            except Exception as error:  # trackers and their connections fail in many ways
                self._trackers.remove(each)
                say(f"warning: {each.name} fails, and gets no more of this run: {_reason(error)}")


def _configuration(recipe: Recipe) -> dict[str, Any]:
    """Returns the values of a recipe that are set, by dotted key and without paths."""
    blocks = without_paths(recipe.to_dict())
    return {
        f"{block}.{key}": value
        for block, values in blocks.items()
        if block != "hub"
        for key, value in values.items()
        if value is not None
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # no record is known
        return {}


def _reason(error: Exception) -> str:
    return shortened(f"{type(error).__name__}: {' '.join(str(error).split())}", 500)
