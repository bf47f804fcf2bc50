"""Recovery of a run: complete checkpoints, the newest of them, and one more on SIGTERM, SIGUSR1 or SIGHUP."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.runtime.files import obey_umask, write_json
from bertkit.runtime.placement.processes import INTERRUPTED, REPEATED, STOP_SIGNALS, handled, is_main_process
from bertkit.runtime.progress import counted, end_bars, say
from bertkit.runtime.reading.paths import is_below, leads_out

MANIFEST = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Writes ``manifest.json`` with the size in bytes and the SHA-256 of each file of a checkpoint.

    All files are on disk before the manifest exists, so that a checkpoint with a manifest was complete once.
    """
    obey_umask(folder)
    files = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST):
        with path.open("rb+") as stream:  # fsync needs a writable file on some systems
            os.fsync(stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        files[path.name] = {"size": path.stat().st_size, "sha256": digest}
    write_json(folder / MANIFEST, {"files": files})


def find_fault(folder: Path) -> str | None:
    """Compares the files of a checkpoint with its manifest; returns a description of the first difference, or None."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, expected in files.items():
            path = folder / name
            if not is_below(name) or leads_out(path, folder):
                return f"{MANIFEST} names {name!r}, which is not in this folder"
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != expected["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {expected['size']}"
            with path.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != expected["sha256"]:
                    return f"{name} is damaged (its SHA-256 is not that of the manifest)"
    except FileNotFoundError:
        return f"it is incomplete (no {MANIFEST})"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"it cannot be read: {error}"
    return None


def last_checkpoint(output_dir: Path) -> Path | None:
    """Returns the newest complete ``checkpoint-N`` of a run, or None; prints the newer ones that it skips, and why."""
    for folder in reversed(checkpoints_after(-1, output_dir)):
        fault = find_fault(folder)
        if fault is None:
            return folder
        say(f"warning: {folder} is not used: {fault}")
    return None


def checkpoints_after(step: int, output_dir: Path) -> list[Path]:
    """Returns the folders ``checkpoint-N`` of a run with N greater than ``step``, complete or not, by ascending N."""
    found = [(path.name.removeprefix("checkpoint-"), path) for path in output_dir.glob("checkpoint-*")]
    steps = {int(number): path for number, path in found if number.isdecimal()}
    return [steps[number] for number in sorted(steps) if number > step]


class Preemption(TrainerCallback):
    """Callback that saves a checkpoint after a signal and then ends the process with exit code 143.

    The run continues from the checkpoint as if it had not been interrupted: evaluations that are due at the step or at
    the end of the epoch come before the checkpoint. All processes save at the same step. A second signal, at least a
    second after the first, ends the process at once.

    A signal that comes after the last step adds no checkpoint: `bertkit.training.runs.training.train` raises it again
    when the training is done.

    The signal handler only records the signal: it may interrupt a write to stderr, which must not be entered again. The
    next micro-batch, of training or of an evaluation, prints that a checkpoint will be saved.

    Attributes:
        received: the first signal that this process received; None if there was none.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._since = 0.0  # time of the first signal
        self._is_announced = False
        self._is_agreed = False  # all processes know of the signal
        self._group: Any = None

    def listening(self) -> AbstractContextManager[None]:
        """Returns a context in which the signals are received; without effect outside of the main thread."""

        def receive(number: int, frame: FrameType | None) -> None:
            if self.received is not None:
                if time.monotonic() - self._since >= REPEATED:
                    signal.signal(number, signal.SIG_DFL)
                    os.kill(os.getpid(), number)
                return
            self.received, self._since = signal.Signals(number), time.monotonic()

        return handled(STOP_SIGNALS, receive)

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.received is not None and not self._is_announced:
            self._is_announced = True
            say(f"{self.received.name}: a checkpoint is saved at the end of this step; a second signal ends at once")

    on_prediction_step = on_substep_end

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.world_size > 1 and dist.is_available() and dist.is_initialized():
            self._group = dist.new_group(backend="gloo")  # does not wait for the kernels of a GPU

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.on_substep_end(args, state, control)
        if self._group is None:
            self._is_agreed = self.received is not None
        else:
            received = torch.tensor(int(self.received is not None))
            dist.all_reduce(received, dist.ReduceOp.MAX, group=self._group)
            self._is_agreed = bool(received)
        # At the end of an epoch and of the training, evaluations may be due that come before the checkpoint.
        ends = state.global_step >= state.max_steps or float(state.epoch or 0).is_integer()
        control.should_save |= self._is_agreed and not ends

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        control.should_save |= self._is_agreed

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._is_agreed:
            say(how_to_continue(Path(args.output_dir) / f"checkpoint-{state.global_step}"))
            raise SystemExit(INTERRUPTED)


@contextmanager
def interruptions_reported(output_dir: Path) -> Iterator[None]:
    """Context in which a signal ends the run and the last line says how to continue; see `Preemption` for steps of
    training.

    Ctrl-C raises KeyboardInterrupt as usual, the other signals SystemExit with exit code 143. The message follows when
    the exception leaves this context, since a signal handler may have interrupted another write to stderr.
    """
    is_interrupted = False
    interrupt = signal.getsignal(signal.SIGINT)

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        if number == signal.SIGINT and callable(interrupt):
            interrupt(number, frame)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(INTERRUPTED)

    with handled([signal.SIGINT, *STOP_SIGNALS], end):
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            if is_interrupted and is_main_process():
                end_bars()
                if (output_dir / "recipe.yaml").is_file():
                    say(how_to_continue(last_checkpoint(output_dir), folds_done(output_dir)))
                else:
                    say("interrupted before the run began; repeat the command")
            raise


FOLDS_FOLDER = "folds"
"""Folder of a run with the predictions of its models of folds that are done, see `bertkit.training.runs.folds`."""


def folds_done(output_dir: Path) -> int:
    """Returns how many models of folds of a run have been trained, which it does not train again."""
    return len(list((output_dir / FOLDS_FOLDER).glob("*.npy")))


def how_to_continue(checkpoint: Path | None, folds: int = 0) -> str:
    """Returns the message about an interrupted run.

    Args:
        checkpoint: the checkpoint that the run continues from; None if there is none.
        folds: as of `folds_done`.
    """
    if checkpoint is None and folds:
        done = counted(folds, "fold is", "folds are")
        return f"interrupted; {done} done, and the same command with --resume continues after that"
    if checkpoint is None:
        return "interrupted without a checkpoint; the same command with --resume starts the run again"
    return f"interrupted; the same command with --resume continues from {checkpoint}"
