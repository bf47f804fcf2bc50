"""The directory of a run that is under way, and all that is checked before its data are read.

The directory knows first files, files of all processes, results, and how the run is resumed.

With several processes all of them check and compute; only the first one writes files and prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from bertkit.model.checkpoint.load import save_tokenizer
from bertkit.recipe.load import Recipe
from bertkit.runtime.files import clean_run_folder, disk_faults, into_folder
from bertkit.runtime.placement.processes import (
    failing_together,
    from_main_process,
    is_main_process,
    is_restarted_by_launcher,
)
from bertkit.runtime.placement.resolve import Placement, place
from bertkit.runtime.progress import counted, say
from bertkit.tasks.registry import load_recipe
from bertkit.training.arguments import training_arguments, validate_training_arguments
from bertkit.training.recovery import folds_done, last_checkpoint
from bertkit.training.runs.directory import (
    RunRecord,
    check_output_dir,
    contents,
    is_cut_off,
    numeric_metrics,
    write_results,
)
from bertkit.training.runs.listeners import Listener, listeners_of
from bertkit.training.runs.resuming import check_same_data, check_same_recipe


class RunDirectory:
    """The directory of a run.

    Args:
        path: a new or empty folder; with ``resume`` the directory of the run to continue.
        resume: continue from the last checkpoint there. In a new folder a run is started, if the launcher may restart
            the processes.

    Attributes:
        path: the folder.
        is_resumed: the run is continued.
        results: all results, by the keys of ``all_results.json``.

    Raises:
        OutputError: the directory is in use or holds another run.
    """

    def __init__(self, path: str | Path, resume: bool):
        self.path = Path(path)
        # A launcher that restarts processes repeats the command with which it first started them.
        self.is_resumed = resume and not (is_restarted_by_launcher() and not contents(self.path))
        check_output_dir(self.path, self.is_resumed)
        self.results: dict[str, float] = {}

    # ---- resumption --------------------------------------------------------------------------------------------------

    def check_recipe(self, recipe: Recipe) -> list[str]:
        """Returns the changes that a resumed run makes to its recipe, none for a new one; see `check_same_recipe`."""
        return check_same_recipe(recipe, self.path) if self.is_resumed else []

    def check_data(self, data: Mapping[str, Any]) -> None:
        """Checks that the data of a resumed run have not changed; see `check_same_data`."""
        if self.is_resumed:
            check_same_data(self.path, data)

    def started_with(self, block: str, key: str) -> Any:
        """Returns a value of the recipe that a resumed run was started with; None if it is not known."""
        place = self.path / "recipe.yaml"
        if not place.is_file() or is_cut_off(place):
            return None
        return load_recipe(place).to_dict()[block].get(key)

    # ---- files -------------------------------------------------------------------------------------------------------

    def begin(
        self, record: RunRecord, tokenizer: PreTrainedTokenizerBase, listeners: Sequence[Listener], command: str
    ) -> Path | None:
        """Writes the first files; a collective call.

        Args:
            record: what ``run.json`` says of the run, with its recipe.
            tokenizer: of the model.
            listeners: add to the first files.
            command: repeats the run.

        Returns:
            The checkpoint to resume from; None if there is none.
        """
        changes = self.check_recipe(record.recipe)
        checkpoint = from_main_process(
            lambda: self._write_first_files(record, tokenizer, listeners, heading(record.recipe, changes, command))
        )
        if self.is_resumed:
            folds = folds_done(self.path)
            start = f"after {counted(folds, 'fold')}" if folds else "no complete checkpoint, so from the start"
            say(f"resuming from {checkpoint}" if checkpoint else f"resuming: {start}")
        return None if checkpoint is None else Path(checkpoint)

    def _write_first_files(
        self, record: RunRecord, tokenizer: PreTrainedTokenizerBase, listeners: Sequence[Listener], first_line: str
    ) -> str | None:
        with disk_faults(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        clean_run_folder(self.path)
        # Written first: a folder with a recipe is a run, which can be resumed even without a checkpoint.
        record.recipe.save(self.path / "recipe.yaml", first_line)
        record.write(self.path, finished=False)
        for each in listeners:
            each.on_first_files()
        with into_folder(self.path) as folder:
            save_tokenizer(tokenizer, folder)
        checkpoint = last_checkpoint(self.path) if self.is_resumed else None
        return str(checkpoint) if checkpoint else None

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

    def write_results(self, split: str, metrics: dict[str, Any]) -> dict[str, float]:
        """Writes the results of a split and returns their numeric values."""
        numbers = numeric_metrics(metrics)
        self.results |= numbers
        from_main_process(lambda: write_results(self.path, split, numbers))
        return numbers


def heading(recipe: Recipe, changes: Sequence[str], command: str) -> str:
    """Returns the first line of the ``recipe.yaml`` of a run, with the changes of a resumed one."""
    if changes:
        return f"Resumed, and {'; '.join(changes)}: this file alone does not reproduce the run."
    return f"Resolved from {recipe.name}. To repeat the run: {command}"


@dataclass(frozen=True)
class RunSetup:
    """Where and on what a run is computed: known before its data are read.

    Attributes:
        directory: the run directory.
        placement: devices, processes and batches.
        listeners: what features do around the run.
        folder_of_trainer: folder for the files of the Trainer.
        started: time of the start in seconds since 1970.
    """

    directory: RunDirectory
    placement: Placement
    listeners: list[Listener]
    folder_of_trainer: Path
    started: float = field(default_factory=time.time)


def set_up(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    resume: bool = False,
    push_to_hub: str | None = None,
    scratch: Path | None = None,
    **fixed: Any,
) -> RunSetup:
    """Checks all of a run that needs no data, and starts its process group.

    Args:
        recipe: a checked recipe.
        output_dir, resume: as for `RunDirectory`.
        push_to_hub: Hub repository to push the finished run to, or ``None``.
        scratch: folder for the files of the Trainer in place of ``output_dir``, for a run that is only checked.
        fixed: ``TrainingArguments`` that the kind of run determines instead of the recipe, to be checked too.

    Raises:
        BertkitError: the directory is in use or holds another run, the placement or an argument is invalid, or the user
            is not logged in to the Hub for a push.
    """
    directory = RunDirectory(output_dir, resume)
    directory.check_recipe(recipe)
    placement = place(recipe.placement, recipe.train["global_train_batch_size"], recipe.data.max_seq_length)
    listeners = listeners_of(recipe, directory.path, push_to_hub)
    for each in listeners:
        each.check()
    setup = RunSetup(directory, placement, listeners, scratch or directory.path)
    validate_training_arguments(training_arguments(recipe, placement, setup.folder_of_trainer, **fixed), recipe)
    return setup
