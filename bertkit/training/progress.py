"""Progress output of training: steps, losses, evaluations, and the remaining time."""

from __future__ import annotations

import time
from typing import Any

from tqdm import tqdm
from transformers import IntervalStrategy, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.progress import duration, on_terminal, printable, readable, say

_MEASURED = 10.0  # seconds of steps, after the first one, that the time estimate is based on


class Progress(TrainerCallback):
    """Callback that reports steps, losses and evaluations; replaces transformers' callbacks, which write to stdout."""

    def __init__(self, what: str) -> None:
        self.what = printable(what)
        self.bar: tqdm[Any] | None = None
        self.started = 0.0
        self.first_step = 0
        self.measured_from: tuple[float, int] | None = None  # time and step after this run's first step
        self.is_expected = False
        self.evaluated_at = -1  # step of the last evaluation

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.started, self.first_step = time.monotonic(), state.global_step
        self.measured_from, self.is_expected = None, False
        if state.is_world_process_zero and on_terminal():
            self.bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc=self.what, unit="step", dynamic_ncols=True
            )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)
        if not self.is_expected:
            self._expect(args, state)
        if control.should_evaluate or control.should_save:  # neither counts as a step
            self.measured_from = None

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if control.should_evaluate or control.should_save:
            self.measured_from = None

    def _expect(self, args: TrainingArguments, state: TrainerState) -> None:
        """Prints the expected duration once enough steps are measured; leaves out the first step, which is slower.

        Steps before an evaluation or a checkpoint are not continued after it.
        """
        now = time.monotonic()
        if self.measured_from is None:
            self.measured_from = now, state.global_step
            return
        since, step = self.measured_from
        if now - since < _MEASURED:
            return
        self.is_expected = True
        pace = (now - since) / (state.global_step - step)
        left = state.max_steps - state.global_step
        evaluates = ", without evaluations" if args.eval_strategy != IntervalStrategy.NO else ""
        say(
            f"time: {pace:.3g} s per step; at this speed the remaining {left:,} steps take "
            f"{duration(pace * left)}{evaluates}"
        )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "train_loss" in logs:  # the summary at the end of training
            return
        line = f"{self.what}: step {state.global_step}/{state.max_steps}"
        if any(key.startswith("eval_") for key in logs):
            # At the end of a run the evaluation may be repeated in float32; the command prints its results.
            if self.evaluated_at != state.global_step:
                say(f"{line}, validation: {readable(logs)}")
            self.evaluated_at = state.global_step
            return
        speed = f", {logs['train_tokens_per_second']:,.0f} tokens/s" if "train_tokens_per_second" in logs else ""
        left = ""
        if self.bar is None and state.global_step > self.first_step:  # a progress bar shows the remaining time itself
            pace = (time.monotonic() - self.started) / (state.global_step - self.first_step)
            left = f", {duration(pace * (state.max_steps - state.global_step))} left"
        say(f"{line}: {readable(logs)}{speed}{left}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
