"""The directory of a run: what holds while one writes there, and its recipe, results and ``run.json``."""

from __future__ import annotations

import math
import os
import platform
import shlex
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from bertkit.inference.verdict import NO_VERDICT, Verdict
from bertkit.recipe.files import read_recipe_file
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import HubSettings
from bertkit.runtime.errors import OutputError, RecipeError, TrainingError
from bertkit.runtime.files import check_links, is_temporary, read_json, readable_size, write_json
from bertkit.runtime.locks import LOCK_FILE, RunLock
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.placement.inference import EVALUATION_PRECISION
from bertkit.runtime.placement.processes import is_main_process
from bertkit.runtime.placement.processor import processor
from bertkit.runtime.progress import counted, is_of_class, is_score, keeping_warnings, warnings_said
from bertkit.runtime.version import __version__
from bertkit.training.arguments import has_tf32
from bertkit.training.progress import device_name
from bertkit.training.recovery import interruptions_reported

if TYPE_CHECKING:
    from bertkit.runtime.placement.resolve import Placement
    from bertkit.tasks.splits import Truncation

_HEADINGS = (b"# Resolved from ", b"# Resumed, and ")
"""First lines of a run's ``recipe.yaml``, see `bertkit.training.runs.run_directory`."""
_LARGE = 10**8  # bytes of checkpoints that the end of a run names
_PACKAGES = ("torch", "transformers", "datasets", "accelerate", "evaluate", "tokenizers")


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_at_end: ContextVar[ExitStack | None] = ContextVar("at_end", default=None)


@dataclass(frozen=True)
class Run(Summarized):
    """Result of `bertkit.pretrain` and `bertkit.finetune`.

    Attributes:
        output_dir: the run directory; its top level loads with ``AutoModel….from_pretrained``.
        metrics: the contents of ``all_results.json``.
        collapse: description of the predictions if they are the same for the whole validation set, such as "all
            predictions are 'good'"; None for other runs, and for pre-training.
        verdict: what the scores say, and what to try next; empty for pre-training.
    """

    output_dir: Path
    metrics: dict[str, float]
    collapse: str | None = None
    verdict: Verdict = NO_VERDICT

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        scores = [(name, self.metrics[key]) for key, name in named_scores(self.metrics)]
        return Summary(f"Run {self.output_dir}", scores, self.verdict.sentences)

    @property
    def disk(self) -> str | None:
        """Lines on the disk space of a run with large checkpoints, and how to free theirs; None for other runs."""
        folders = sorted(path for path in self.output_dir.glob("checkpoint-*") if path.is_dir())
        of_checkpoints, of_all = (
            sum(file.stat().st_size for folder in places for file in folder.rglob("*") if file.is_file())
            for places in (folders, [self.output_dir])
        )
        if of_checkpoints < _LARGE:
            return None
        part = f"{readable_size(of_checkpoints)} of it in {counted(len(folders), 'checkpoint')}"
        free = f"rm -r {shlex.quote(str(self.output_dir))}/checkpoint-*"
        return f"disk: {readable_size(of_all)}, {part} that only --resume needs; to free them:\n  {free}"


@dataclass(frozen=True)
class RunRecord:
    """Contents of ``run.json``; ``wall_time`` is in seconds, for a resumed run since its resumption.

    ``evaluation_precision`` is that of the scores at the end of the run, of its predictions, and of all later ones of
    `bertkit.report` and `bertkit.compare`.

    Attributes:
        recipe, placement: of the run.
        data: facts of each split, or of the corpus.
        truncation: what was cut of each split.
        main_metric: name of the score by which the task compares checkpoints; None if it has none.
        collapse, verdict: as in `Run`.
        curves: what the report draws in curves: ``baselines``, the values of simple models by metric, and ``phases``.
        further_scores: names of the scores of ``task.metrics``.
        estimate: how the scores were made: ``folds``, ``held_out`` or ``file``; None for pre-training.
        folds: what is known of the models of folds; empty without them.
        started: time of the start in seconds since 1970.
    """

    recipe: Recipe
    placement: Placement
    data: Mapping[str, Any] = field(default_factory=dict)
    truncation: Mapping[str, Truncation] = field(default_factory=dict)
    main_metric: str | None = None
    collapse: str | None = None
    verdict: Verdict = NO_VERDICT
    curves: Mapping[str, Any] = field(default_factory=dict)
    further_scores: Sequence[str] = ()
    estimate: str | None = None
    folds: Mapping[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    def versions(self) -> dict[str, str]:
        """Returns the versions of the packages that results depend on."""
        return {"bertkit": __version__, **{name: version(name) for name in _PACKAGES}}

    def wall_time(self) -> float:
        """Returns the seconds since the start, for a resumed run since its resumption."""
        return round(time.time() - self.started, 1)

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
                "tf32": has_tf32(self.recipe, self.placement),
                "per_device_train_batch_size": self.placement.per_device_train_batch_size,
                "gradient_accumulation_steps": self.placement.gradient_accumulation_steps,
                "evaluation_precision": EVALUATION_PRECISION,
            },
            "hardware": {"device": device_name(self.placement.device), "processor": processor()},
            "seed": self.recipe.train["seed"],
            "data": self.data,
            "truncation": {split: vars(cut) for split, cut in self.truncation.items()},
            "main_metric": self.main_metric,
            "collapse": self.collapse,
            "verdict": list(self.verdict.sentences),
            "proposal": None if self.verdict.proposal is None else asdict(self.verdict.proposal),
            "warnings": warnings_said(),
            **self.curves,
            **({"estimate": self.estimate} if self.estimate else {}),
            **({"folds": self.folds} if self.folds else {}),
            **({"further_scores": list(self.further_scores)} if self.further_scores else {}),
            "wall_time": self.wall_time(),
            **facts,
        }
        write_json(output_dir / "run.json", record, default=str)


def write_results(output_dir: Path, split: str, metrics: dict[str, float]) -> None:
    """Writes ``<split>_results.json`` and updates ``all_results.json``; both are flat.

    Raises:
        TrainingError: a metric is not finite.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            why = "the training diverged; "
            if "loss" not in name:
                why = (
                    "it is not defined if all labels, or all predictions, are the same. Look at the labels of that set "
                    "first; if they differ, "
                )
            raise TrainingError(
                f"{name} is {value}: {why}try another train.learning_rate, or more steps with a longer warm-up"
            )
    write_json(output_dir / f"{split}_results.json", metrics)
    path = output_dir / "all_results.json"
    write_json(path, {**read_json(path), **metrics})


def named_scores(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """Returns the scores of a fine-tuning as (key, name), without those of single classes; the names tell the sets of
    rows apart if a test set is labelled too.

    >>> named_scores({"eval_f1": 0.5, "eval_runtime": 2.0, "predict_runtime": 2.0})
    [('eval_f1', 'f1')]
    >>> named_scores({"eval_f1": 0.5, "predict_f1": 0.7, "predict_class/a/f1": 0.1})
    [('eval_f1', 'validation f1'), ('predict_f1', 'test f1')]
    """
    scores = [name for name in metrics if is_score(name) and not is_of_class(name)]
    validation, test = ([name for name in scores if name.startswith(prefix)] for prefix in ("eval_", "predict_"))
    if not test:
        return [(key, key.removeprefix("eval_")) for key in validation]
    of_validation = [(key, f"validation {key.removeprefix('eval_')}") for key in validation]
    return [*of_validation, *((key, f"test {key.removeprefix('predict_')}") for key in test)]


def check_output_dir(output_dir: Path, resume: bool, can_resume: bool = True) -> None:
    """Checks that an output directory can be used, without changing it; ``can_resume``: the command has ``--resume``.

    Temporary files of a killed run, and a ``recipe.yaml`` that is cut off, as a full disk may leave it, do not count as
    a run: a new or a resumed run replaces them.

    Raises:
        OutputError: the directory is in use, cannot be created, is a file, or holds no run although ``resume`` is set.
    """
    check_place(output_dir)
    found = contents(output_dir)
    if "recipe.yaml" in found and is_cut_off(output_dir / "recipe.yaml"):
        if resume and any(output_dir.glob("checkpoint-*")):
            raise OutputError(
                f"--resume: {output_dir / 'recipe.yaml'} is cut off, so the checkpoints there may be of another "
                "recipe; restore it, or start a new run in another folder"
            )
        found = found if resume or found != ["recipe.yaml"] else []
    if resume and "recipe.yaml" not in found:
        raise OutputError(f"--resume: {output_dir} contains no run (no recipe.yaml); remove --resume to start one")
    if found and not resume:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise OutputError(
            f"--output-dir {output_dir}: already contains {shown}; give another folder"
            + (", or --resume to continue that run" if can_resume else "")
        )


def contents(folder: Path) -> list[str]:
    """Returns the sorted names of the entries of a folder, without lock and temporary files; empty if it does not
    exist."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted(entry.name for entry in entries if entry.name != LOCK_FILE and not is_temporary(entry.name))


def check_contents(output_dir: Path, own: Collection[str]) -> None:
    """Checks as `check_place`, and that the directory has no other entries than ``own``.

    Raises:
        OutputError: it has; the message names some of them.
    """
    check_place(output_dir)
    if others := [name for name in contents(output_dir) if name not in own]:
        raise OutputError(f"--output-dir {output_dir}: contains {', '.join(others[:3])}; give another folder")


def check_place(output_dir: Path) -> None:
    """Checks that an output directory exists or can be created, without changing it.

    Raises:
        OutputError: it or a folder above is a file or a link without a target, or cannot be written to.
    """
    if output_dir.exists() and not output_dir.is_dir():
        raise OutputError(f"--output-dir {output_dir}: a file of that name exists; give a folder")
    check_links(output_dir, f"--output-dir {output_dir}")
    parent = next(path for path in (output_dir, *output_dir.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise OutputError(f"--output-dir {output_dir}: {parent} is a file; give another folder")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"--output-dir {output_dir}: {parent} cannot be written to; give another folder")


def is_cut_off(recipe_file: Path) -> bool:
    """Returns whether the ``recipe.yaml`` of a run is empty or ends early; False for a recipe that a user has written.

    A run writes all blocks below a heading; the last value is ``hub.citations``.
    """
    text = recipe_file.read_bytes().strip(b"\0\r\n ")
    if not any(text.startswith(heading) or heading.startswith(text) for heading in _HEADINGS):
        return False
    try:
        blocks, _ = read_recipe_file(recipe_file)
        HubSettings(**blocks["hub"])
    except (RecipeError, KeyError, TypeError, ValueError):
        return True
    return "citations" not in blocks["hub"]


def is_finished(output_dir: Path) -> bool:
    """Returns whether a folder holds a finished run."""
    try:
        return recorded(output_dir).get("finished") is True
    except (ValueError, AttributeError):
        return False


def recorded(output_dir: Path) -> Any:
    """Returns the contents of ``run.json``, ``{}`` if it does not exist; ValueError if it is not JSON."""
    return read_json(output_dir / "run.json")


def numeric_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numeric values of a Trainer's metrics as floats, for JSON."""
    return {key: float(value) for key, value in metrics.items() if isinstance(value, (int, float))}


@contextmanager
def killed_workers_reported() -> Iterator[None]:
    """Raises a TrainingError in place of torch's RuntimeError if a data worker of the block was killed.

    Workers that are killed after it raise nothing, so that the run can release its lock and report.
    """
    try:
        try:
            yield
        except (OSError, EOFError):
            time.sleep(1)  # of a worker that is killed while it hands a batch over, torch's handler raises only now
            raise
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        # The traceback keeps the loaders and their workers alive; torch's handler would raise anywhere from here on.
        # Loaders of later runs in this process find killed workers when they wait for them, within seconds.
        if hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        process = f"process {os.environ['RANK']}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
        raise TrainingError(
            f"{process}{' '.join(str(error).split())} The same command with --resume continues from the last "
            "checkpoint; --set placement.dataloader_num_workers=0 needs no workers"
        ) from error


@contextmanager
def run_scope(folder: Path) -> Iterator[None]:
    """Context in which a run writes to a folder.

    The main process holds its `RunLock`. A killed data worker raises a TrainingError. A signal that ends the run prints
    how to continue.

    Raises:
        FolderInUseError: another process holds the lock.
        OutputError: the folder cannot be created or written to.
    """
    check_place(folder)
    lock = RunLock(folder) if is_main_process() else nullcontext()
    at_end = ExitStack()
    token = _at_end.set(at_end)
    try:
        with lock, keeping_warnings(), killed_workers_reported(), interruptions_reported(folder), at_end:
            yield
    finally:
        _at_end.reset(token)


def at_end_of_run(call: Callable[[], None]) -> None:
    """Has a function called at the end of the innermost `run_scope`, also after an exception; outside of one, never."""
    if (scope := _at_end.get()) is not None:
        scope.callback(call)


def writes_run(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates a function that writes a run to its keyword argument ``output_dir``, in the `run_scope` of it."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if "output_dir" not in kwargs:
            return function(*args, **kwargs)  # raises the usual TypeError
        with run_scope(Path(cast(Any, kwargs["output_dir"]))):
            return function(*args, **kwargs)

    return run
