"""The values that a walk gives to an option, and the runs of two steps that it gives them to, in this process."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

import bertkit
from bertkit.cli.app import main

from .materials import WORDS

VALUES = ("0", "-1", ".nan", ".inf", "1e18", "word")
LIMIT = 60  # seconds of a run; most take less than one
STEPS = 2
# Options with names that only an evaluation can know: they are refused when the first one is done.
KNOWN_LATE = ("metric_for_best_model",)

_OF_RUN = {"train.max_steps": str(STEPS), "train.global_train_batch_size": "4", "train.logging_steps": "1"}
_OF_RUN |= {"train.warmup_steps": "0", "data.max_seq_length": "16", "placement.device": "cpu"}
_OF_RUN |= {"placement.mixed_precision": "no", "placement.preprocessing_num_workers": "1"}
_NEW_MODEL = {"model.num_hidden_layers": "1", "model.hidden_size": "16", "model.num_attention_heads": "2"}
_NEW_MODEL |= {"model.intermediate_size": "32", "model.max_position_embeddings": "32"}
_NEW_MODEL |= {"data.document_separator": "blank-line"}


class _Stop(TrainerCallback):
    """Ends a run after two steps, whatever its options say about its length."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop |= state.global_step >= STEPS


@dataclass
class Walk:
    """Runs commands of two steps on tiny data.

    Args:
        folder: for the data, and for the runs.
        checkpoint: a tiny one to start from.
    """

    folder: Path
    checkpoint: Path

    def __post_init__(self) -> None:
        rng = random.Random(0)
        texts = [" ".join(rng.choices(WORDS, k=5)) for _ in range(24)]
        rows = [f"{text},{('bad', 'good')[number % 2]}\n" for number, text in enumerate(texts)]
        (self.folder / "rows.csv").write_text("text,label\n" + "".join(rows))
        documents = [
            "\n".join(f"{text.capitalize()}." for text in texts[first : first + 4]) for first in range(0, 24, 4)
        ]
        (self.folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")

    def fault(self, command: str, option: str, value: str, capfd: pytest.CaptureFixture[str]) -> str | None:
        """Runs ``finetune`` or ``pretrain`` with a value of an option of ``train``; returns what is wrong, or None.

        Exit code 0 is right, and so is 2 with one message that names the option, before anything is written.
        """
        out = self.folder / "out" / f"{command}-{option}-{value}"
        # The callback that ends a run is not one of the models of folds.
        settings = {**_OF_RUN, **({"data.folds": "0"} if command == "finetune" else _NEW_MODEL)}
        if option == "num_train_epochs":  # max_steps would take precedence
            settings = {key: each for key, each in settings.items() if key != "train.max_steps"}
        settings = {**settings, f"train.{option}": value}
        data: list[object] = ["pretrain", "--recipe", "bert-tiny", "--corpus", self.folder / "corpus.txt"]
        data += ["--tokenizer", self.checkpoint]
        if command == "finetune":
            data = ["finetune", "classification", "--train-file", self.folder / "rows.csv", "--model", self.checkpoint]
        given = [word for key, each in settings.items() for word in ("--set", f"{key}={each}")]
        code, err = _run([*map(str, data), *given, "--output-dir", str(out)], capfd)
        if code == 0:
            return None
        if code != 2:
            return f"exit code {code}: {err[-1000:]}"
        if err.count("bertkit: error: ") != 1 or "Traceback" in err:
            return f"not one message: {err[-1000:]}"
        if f"train.{option}" not in err.partition("bertkit: error: ")[2]:
            return f"the message does not name train.{option}: {err[-1000:]}"
        if out.exists() and option not in KNOWN_LATE:
            return f"refused after the run has begun: {err[-1000:]}"
        return None


def _run(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Runs a command in this process; returns its exit code, and stderr with the traceback of any exception."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), _limited(), _environment():
        warnings.simplefilter("ignore")  # as in a process of its own, they are no errors
        for name in ("finetune", "pretrain"):
            patch.setattr(bertkit, name, _stopping(getattr(bertkit, name)))
        patch.setattr(sys, "argv", ["bertkit", *arguments])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception as error:
            code = 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return code, capfd.readouterr().err


def _stopping(function: Any) -> Any:
    return lambda *arguments, **options: function(*arguments, **options, callbacks=[_Stop()])


@contextmanager
def _environment() -> Iterator[None]:
    """Restores the environment variables: some arguments of transformers are passed on in them."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _limited() -> Iterator[None]:
    """Fails a run that takes too long; not a subclass of Exception, which the run might handle."""

    def fail(*_: object) -> None:
        pytest.fail(f"no end after {LIMIT} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
