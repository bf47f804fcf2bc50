"""What a run shows while it works: bars with the time left on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.placement import is_main_process

# Metrics in the order in which people read them; anything else follows as it comes.
_SHOWN = {
    "loss": "loss",
    "masked_lm_loss": "MLM loss",
    "masked_lm_accuracy": "MLM accuracy",
    "next_sentence_loss": "NSP loss",
    "next_sentence_accuracy": "NSP accuracy",
    "learning_rate": "learning rate",
}
_HIDDEN = ("epoch", "grad_norm", "total_flos", "step", "runtime", "per_second", "timing", "num_input_tokens_seen")


def on_terminal() -> bool:
    """Whether stderr is a terminal, on which bars can be drawn."""
    return sys.stderr.isatty()


def say(line: str) -> None:
    """Prints a line of progress to stderr, around any bar that stands there; the first process does."""
    if is_main_process():
        tqdm.write(line, file=sys.stderr)


def readable(metrics: dict[str, Any]) -> str:
    """Metrics as one line.

    >>> readable({"loss": 4.51234, "learning_rate": 5e-05, "epoch": 1.0, "eval_accuracy": 0.5})
    'loss 4.5123, learning rate 5.00e-05, accuracy 0.5000'
    """
    plain = {key.removeprefix("eval_").removeprefix("train_"): value for key, value in metrics.items()}
    ordered = [key for key in _SHOWN if key in plain] + [key for key in plain if key not in _SHOWN]
    parts = []
    for key in ordered:
        if isinstance(plain[key], (int, float)) and not key.endswith(_HIDDEN):
            form = ".2e" if key == "learning_rate" else ".4f"
            parts.append(f"{_SHOWN.get(key, key.replace('_', ' '))} {plain[key]:{form}}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(8.2), duration(75), duration(7384)
    ('8s', '1m15s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


class Progress(TrainerCallback):
    """Shows steps, losses and evaluations of one training; replaces transformers' callbacks, which write to stdout."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.bar: tqdm[Any] | None = None
        self.started = 0.0
        self.first_step = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.started, self.first_step = time.monotonic(), state.global_step
        if state.is_world_process_zero and on_terminal():
            self.bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc=self.what, unit="step", dynamic_ncols=True
            )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "train_loss" in logs:  # that is the summary
            return
        line = f"{self.what}: step {state.global_step}/{state.max_steps}"
        if any(key.startswith("eval_") for key in logs):
            say(f"{line}, validation: {readable(logs)}")
            return
        left = ""
        if self.bar is None and state.global_step > self.first_step:  # a bar shows the time left itself
            pace = (time.monotonic() - self.started) / (state.global_step - self.first_step)
            left = f", {duration(pace * (state.max_steps - state.global_step))} left"
        say(f"{line}: {readable(logs)}{left}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class ByteProgress:
    """A bar for work that is counted in bytes; nothing where there is no terminal. A context manager."""

    def __init__(self, what: str):
        self.what = what
        self.bar: tqdm[Any] | None = None

    def __enter__(self) -> ByteProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, done: int, total: int) -> None:
        if self.bar is None and on_terminal():
            self.bar = tqdm(total=total, desc=self.what, unit="B", unit_scale=True, dynamic_ncols=True, leave=False)
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
