"""What happens around a run besides training: features register listeners, so that a run knows none of them.

A feature names its listeners in ``LISTENERS`` of its ``__init__.py``; see `bertkit.features`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError, described
from bertkit.runtime.features import declared, load
from bertkit.runtime.progress import say

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, TrainerCallback

    from bertkit.inference.outcome import Outcome
    from bertkit.tasks.base import Task
    from bertkit.tasks.splits import Split
    from bertkit.training.initialization import Initialization
    from bertkit.training.runs.record import RunRecord
    from bertkit.training.trainer import BertkitTrainer

_group: ContextVar[str | None] = ContextVar("group", default=None)


@dataclass
class EndOfRun:
    """What listeners know of a run whose weights, results and predictions are written.

    Attributes:
        folder: the run directory.
        recipe: of the run.
        record: what ``run.json`` says of the run.
        facts: what it says besides, of the end of the run.
        config: configuration of the model.
        steps: optimizer steps.
        metrics: all results, by the keys of ``all_results.json``.
        scores: results on the validation set, and on further validation sets of a fine-tuning.
        note: the caller's sentence for the model card.
        task, splits, outcome: of a fine-tuning; the last are the outputs for the validation set.
        start: start of a pre-training.
        for_later: what listeners leave to those after them, by name.
    """

    folder: Path
    recipe: Recipe
    record: RunRecord
    facts: dict[str, Any]
    config: PreTrainedConfig
    steps: int
    metrics: Mapping[str, float]
    scores: Mapping[str, float]
    note: str = ""
    task: Task | None = None
    splits: Mapping[str, Split] = field(default_factory=dict)
    outcome: Outcome | None = None
    start: Initialization | None = None
    for_later: dict[str, Any] = field(default_factory=dict)

    def write_record(self, **facts: Any) -> None:
        """Writes ``run.json`` of the finished run, with further facts."""
        self.facts |= facts
        self.record.write(self.folder, finished=True, **self.facts)


class Listener:
    """Base class of what a feature does around a run; by default nothing.

    Attributes:
        place: listeners of smaller places are called first.
        takes: the options that this listener carries out, of ``push_to_hub`` and ``train.report_to``; a run that gives
            one which no listener takes is refused.
        is_asked: the listener acts only where the caller asks for it by an option, so a failure at the end of a run is
            an error; otherwise it is a warning.
        leaves: what it leaves at the end of a run, in words, for the warning.
        again: the command that makes it later, with ``{}`` in place of the run directory; empty without one.
    """

    place = 0
    takes: tuple[str, ...] = ()
    is_asked = False
    leaves = ""
    again = ""

    def __init__(self, recipe: Recipe, folder: Path, push_to_hub: str | None = None):
        self.recipe, self.folder, self.push_to_hub = recipe, folder, push_to_hub

    @classmethod
    def wants(cls, recipe: Recipe, push_to_hub: str | None) -> bool:
        """Returns whether there is anything to do in a run."""
        return True

    def check(self) -> None:
        """Checks what the listener needs, before data are read; raises a BertkitError if it lacks something."""

    def callbacks(self) -> Sequence[TrainerCallback]:
        """Returns callbacks of the Trainer."""
        return ()

    def on_begin(self, trainer: BertkitTrainer, resume: bool) -> None:
        """Begins a training, in every process, before the first file is written."""

    def on_first_files(self) -> None:
        """Adds to the first files of the run directory, in the main process."""

    def on_end(self, end: EndOfRun) -> None:
        """Does something with a finished run, in the main process."""

    def complete(self, outcome: Callable[[], Outcome]) -> None:
        """Makes for a run that was chosen among others what each of them left out, in the main process."""


def has_trackers(recipe: Recipe) -> bool:
    """Returns whether a recipe reports the run to a tracker."""
    return recipe.train.get("report_to") not in (None, "none", ["none"], [])


def listeners_of(recipe: Recipe, folder: Path, push_to_hub: str | None = None) -> list[Listener]:
    """Returns the listeners of a run.

    Args:
        recipe: of the run.
        folder: the run directory.
        push_to_hub: Hub repository to push the finished run to; None for no push.

    Raises:
        RecipeError: the caller asks for what no feature does.
    """
    known = [load(feature, place) for feature, places in declared("LISTENERS") for place in places]
    wanted = [each for each in sorted(known, key=lambda each: each.place) if each.wants(recipe, push_to_hub)]
    asked = {"push_to_hub": push_to_hub, "train.report_to": recipe.train["report_to"] if has_trackers(recipe) else None}
    for name, value in asked.items():
        if value is not None and not any(name in each.takes for each in known):
            raise RecipeError(f"{name}: {value!r}: this installation of bertkit has no feature for it; leave it out")
    return [each(recipe, folder, push_to_hub) for each in wanted]


def tell_end(listeners: Sequence[Listener], end: EndOfRun) -> None:
    """Tells listeners that a run has ended.

    One that fails does not keep the others from their work, and the run is complete without it.

    Raises:
        Exception: that of the first one that failed and that the caller asked for.
    """
    failed: Exception | None = None
    for each in listeners:
        try:
            each.on_end(end)
        except Exception as error:  # libraries that draw or connect fail in many ways
            if each.is_asked:
                failed = failed or error
            else:
                warn_of(each, error)
    if failed is not None:
        raise failed


def complete_run(recipe: Recipe, folder: Path, outcome: Callable[[], Outcome]) -> None:
    """Makes for a run that was chosen among others what its recipe left out; a failure is a warning.

    Args:
        recipe: what is wanted of the chosen run.
        folder: its directory.
        outcome: computes the outputs of its model for the validation set.
    """
    for each in listeners_of(recipe, folder):
        try:
            each.complete(outcome)
        except Exception as error:
            warn_of(each, error)


def warn_of(listener: Listener, error: Exception) -> None:
    """Prints what a complete run lacks, since a listener failed, and how to make it."""
    again = f"; to try again: {listener.again.format(shlex.quote(str(listener.folder)))}" if listener.again else ""
    say(f"warning: the run is complete, but its {listener.leaves} failed: {described(error, 300)}{again}")


@contextmanager
def run_group(folder: Path) -> Iterator[None]:
    """Context in which runs form a group: a grid, or the tasks of a suite, in ``folder``."""
    token = _group.set(folder.resolve().name)
    try:
        yield
    finally:
        _group.reset(token)


def group_of_runs() -> str | None:
    """Returns the name of the group that runs form now; None for single runs."""
    return _group.get()
