"""The directory of a run: what may be written to, the scope of a run that writes there, its first files, resumption.

With several processes all of them check and compute; only the first one writes files and prints.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from transformers import PreTrainedTokenizerBase

from bertkit.model.checkpoint.load import save_tokenizer
from bertkit.recipe.files import read_recipe_file, read_recipe_text
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import HubSettings
from bertkit.runtime.errors import DataError, OutputError, RecipeError, TrainingError
from bertkit.runtime.files import check_links, clean_run_folder, disk_faults, into_folder, is_temporary
from bertkit.runtime.locks import LOCK_FILE, RunLock
from bertkit.runtime.placement.processes import (
    failing_together,
    from_main_process,
    is_main_process,
    is_restarted_by_launcher,
)
from bertkit.runtime.progress import counted, keeping_warnings, say
from bertkit.tasks.registry import load_recipe
from bertkit.training.recovery import folds_done, interruptions_reported, last_checkpoint
from bertkit.training.runs.listeners import Listener
from bertkit.training.runs.record import RunRecord, is_finished, recorded
from bertkit.training.schedule import FITS_DATA, FITTED

_HEADINGS = (b"# Resolved from ", b"# Resumed, and ")
"""First lines of a run's ``recipe.yaml``, see `heading`."""
_CHANGED = re.compile(r"# Resumed, and (.+): this file alone does not reproduce the run\.")

TRACKING_KEYS = ("report_to", "run_name", "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id")
"""Keys of the ``train`` block that select and name the records of a run; they change no number."""

# Values that a resumed run may change: duration, logging, intermediate checkpoints, the report, and trackers.
_FREE_ON_RESUME = {
    "train.max_steps",
    "train.num_train_epochs",
    "train.logging_steps",
    "train.save_steps",
    "train.save_total_limit",
    "train.eval_steps",
    "train.report",
    *(f"train.{key}" for key in TRACKING_KEYS),
}

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_at_end: ContextVar[ExitStack | None] = ContextVar("at_end", default=None)


class RunDirectory:
    """The directory of a run.

    Args:
        path: a new or empty folder; with ``resume`` the directory of the run to continue.
        resume: continue from the last checkpoint there. In a new folder a run is started, if the launcher may restart
            the processes.

    Attributes:
        path: the folder.
        is_resumed: the run is continued.
        earlier: the recipe that a resumed run was started with; None if its file is cut off, and for a new run.

    Raises:
        OutputError: as of `check_output_dir`.
        RecipeError: the recipe of the run to continue is damaged.
    """

    def __init__(self, path: str | Path, resume: bool):
        self.path = Path(path)
        # A launcher that restarts processes repeats the command with which it first started them.
        self.is_resumed = resume and not (is_restarted_by_launcher() and not contents(self.path))
        check_output_dir(self.path, self.is_resumed)
        file = self.path / "recipe.yaml"
        self.earlier = load_recipe(file) if self.is_resumed and not is_cut_off(file) else None

    def check_recipe(self, recipe: Recipe) -> list[str]:
        """Checks that a resumed run has a recipe that gives the same results.

        Returns:
            Descriptions of the changes that it may make; none for a new run.

        Raises:
            RecipeError: other values differ; the message names each of them.
        """
        if self.earlier is None:
            return []
        then, now = self.earlier.to_dict(), recipe.to_dict()
        if now["train"].get(FITS_DATA):  # the data, which are not read yet, give what the recipe lacks
            fitted = {key: then["train"][key] for key in FITTED if key in then["train"]}
            now["train"] = {**fitted, **now["train"], FITS_DATA: then["train"].get(FITS_DATA)}
            if now["data"].get("folds") is None and then["data"].get("fold") is None:
                now["data"]["folds"] = then["data"].get("folds")
        if now["data"].get("max_seq_length") == 0:  # as many as the training texts have
            now["data"]["max_seq_length"] = then["data"].get("max_seq_length")
        wrong: list[str] = []
        allowed: list[str] = []
        for block in ("task", "model", "data", "train"):
            for key in sorted(then[block].keys() | now[block].keys()):
                before, after = then[block].get(key), now[block].get(key)
                if before != after and not (key == "folds" and not before and not after):  # no folds
                    change = f"{block}.{key} was {before!r} and is now {after!r}"
                    (allowed if f"{block}.{key}" in _FREE_ON_RESUME else wrong).append(change)
        if wrong:
            raise RecipeError(
                f"--resume: the run in {self.path} was started with other values: {'; '.join(wrong)}. "
                "Give the same values, or start a new run in another folder"
            )
        return allowed

    def check_data(self, data: Mapping[str, Any]) -> None:
        """Checks that the data of a resumed run have not changed; see `check_same_data`."""
        if self.is_resumed:
            check_same_data(self.path, data)

    # ---- files -------------------------------------------------------------------------------------------------------

    def write_first_files(
        self, record: RunRecord, tokenizer: PreTrainedTokenizerBase, listeners: Sequence[Listener], command: str
    ) -> None:
        """Writes ``recipe.yaml``, ``run.json``, what listeners add, and the tokenizer; a collective call.

        Args:
            record: what ``run.json`` says of the run, with its recipe.
            tokenizer: of the model.
            listeners: add to the first files.
            command: repeats the run.
        """
        changes, file = self.check_recipe(record.recipe), self.path / "recipe.yaml"

        def write() -> None:
            with disk_faults(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            clean_run_folder(self.path)
            # Written first: a folder with a recipe is a run, which can be resumed even without a checkpoint.
            earlier = "" if self.earlier is None else read_recipe_text(file).partition("\n")[0]
            record.recipe.save(file, heading(record.recipe, changes, command, earlier))
            record.write(self.path, finished=False)
            for each in listeners:
                each.on_first_files()
            with into_folder(self.path) as folder:
                save_tokenizer(tokenizer, folder)

        from_main_process(write)

    def checkpoint(self) -> Path | None:
        """Returns the last checkpoint of a resumed run, and prints where it continues; None if there is none, and for a
        new run. A collective call."""
        if not self.is_resumed:
            return None
        found = from_main_process(lambda: last_checkpoint(self.path))
        folds = folds_done(self.path)
        start = f"after {counted(folds, 'fold')}" if folds else "no complete checkpoint, so from the start"
        say(f"resuming from {found}" if found else f"resuming: {start}")
        return found

    @contextmanager
    def files(self, needed: int | None = None) -> Iterator[Path]:
        """Context of all processes with the folder to save files of the run to; the first process moves them when
        complete.

        Args:
            needed: their size in bytes, for the message of a full disk; ``None`` if unknown.
        """
        with failing_together():
            of_main = into_folder(self.path, needed) if is_main_process() else nullcontext(self.path)
            with of_main as folder:
                yield folder


def heading(recipe: Recipe, changes: Sequence[str], command: str, earlier: str = "") -> str:
    """Returns the first line of the ``recipe.yaml`` of a run, with the changes of a resumed one, after those that the
    ``earlier`` line of the file names."""
    if (found := _CHANGED.match(earlier)) is not None:
        changes = [found[1], *changes]
    if changes:
        return f"Resumed, and {'; '.join(changes)}: this file alone does not reproduce the run."
    return f"Resolved from {recipe.name}. To repeat the run: {command}"


def check_same_data(output_dir: Path, data: Mapping[str, Any]) -> None:
    """Checks that the data of a resumed run have not changed.

    Args:
        output_dir: the run directory; its ``run.json`` holds the original fingerprints.
        data: current facts of each split or corpus, with its ``fingerprint``.

    Raises:
        DataError: a fingerprint differs, or ``run.json`` is damaged.
    """
    try:
        began = recorded(output_dir).get("data", {})
        changed = [
            name for name, facts in data.items() if facts["fingerprint"] != began.get(name, facts)["fingerprint"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"--resume: {output_dir / 'run.json'} is damaged ({error}); restore it, or remove it to continue without a "
            "comparison of the data"
        ) from error
    if changed:
        raise DataError(
            f"--resume: the data of the run in {output_dir} have changed since it began ({', '.join(changed)}); "
            "restore them, or start a new run in another folder"
        )


def check_repeated_run(recipe: Recipe, folder: Path) -> None:
    """Checks that a folder is free, or holds the run of a recipe, which a repeated call leaves or resumes.

    Raises:
        BertkitError: the folder holds a run of another recipe, or other files.
    """
    if not (folder / "recipe.yaml").is_file():
        found = contents(folder)
        if found:
            raise OutputError(
                f"{folder}: contains {', '.join(found[:3])} and no run; remove it, or give another folder"
            )
        check_output_dir(folder, resume=False)
        return
    try:
        changes = RunDirectory(folder, resume=True).check_recipe(recipe)
    except (RecipeError, OutputError) as error:  # a repeated call resumes without the option
        raise type(error)(str(error).removeprefix("--resume: ")) from error
    if changes and is_finished(folder):
        raise RecipeError(f"{folder}: this run is finished, but {'; '.join(changes)}; give another folder")


# ---- what may be written to ------------------------------------------------------------------------------------------


def check_output_dir(output_dir: Path, resume: bool, can_resume: bool = True) -> None:
    """Checks that an output directory can be used, without changing it; ``can_resume``: the command has ``--resume``.

    Temporary files of a killed run, and a ``recipe.yaml`` that is cut off, as a full disk may leave it, do not count as
    a run: a new or a resumed run replaces them.

    Raises:
        OutputError: the directory holds files, or no run if ``resume`` is set; it cannot be created, or is a file.
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
            + (", or --resume to continue that run" if can_resume and "recipe.yaml" in found else "")
        )


def contents(folder: Path) -> list[str]:
    """Returns the sorted names of the entries of a folder, without lock and temporary files; empty if it does not
    exist."""
    entries = folder.iterdir() if os.path.isdir(folder) else ()
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
        OutputError: it or a folder above is a file or a link without a target, or cannot be written to; or it is a URL.
    """
    # Methods of Path raise here for names that are too long, and below folders that are closed.
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise OutputError(f"--output-dir {output_dir}: a file of that name exists; give a folder")
    check_links(output_dir, f"--output-dir {output_dir}")
    parent = next(path for path in (output_dir, *output_dir.absolute().parents) if os.path.exists(path))
    if not parent.is_dir():
        raise OutputError(f"--output-dir {output_dir}: {parent} is a file; give another folder")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"--output-dir {output_dir}: {parent} cannot be written to; give another folder")


def is_cut_off(recipe_file: Path) -> bool:
    """Returns whether the ``recipe.yaml`` of a run is empty or ends early; False for a recipe that a user has written.

    A run writes all blocks below a heading; the last value is ``hub.citations``.
    """
    try:
        text = recipe_file.read_bytes().strip(b"\0\r\n ")
    except OSError:  # a folder, or closed: what reads the recipe says so
        return False
    if not any(text.startswith(start) or start.startswith(text) for start in _HEADINGS):
        return False
    try:
        blocks, _ = read_recipe_file(recipe_file)
        HubSettings(**blocks["hub"])
    except (RecipeError, AttributeError, KeyError, TypeError, ValueError):
        return True
    return "citations" not in blocks["hub"]


# ---- the scope of a run ----------------------------------------------------------------------------------------------


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
