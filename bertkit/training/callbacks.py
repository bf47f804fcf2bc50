"""Callbacks of transformers' Trainer that a caller gives to a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments

from bertkit.errors import RecipeError, shown


def check_callbacks(callbacks: Any) -> None:
    """Checks that a value is a list or tuple of instances of transformers' ``TrainerCallback``.

    Raises:
        RecipeError: it is not; the message names every wrong entry.
    """
    if not isinstance(callbacks, (list, tuple)):
        raise RecipeError(f"callbacks: expected a list of transformers' TrainerCallbacks, got {shown(callbacks)}")
    wrong = [f"entry {number} is {_named(each)}" for number, each in enumerate(callbacks, 1) if not _is_callback(each)]
    if wrong:
        raise RecipeError(f"callbacks: expected instances of transformers' TrainerCallback; {', '.join(wrong)}")


def check_early_stopping(callbacks: Sequence[TrainerCallback], arguments: TrainingArguments) -> None:
    """Checks that a run has the evaluations that an early-stopping callback compares; it fails in its first step
    otherwise.

    Raises:
        RecipeError: the run evaluates nothing, or has no metric to compare.
    """
    if not any(isinstance(each, EarlyStoppingCallback) for each in callbacks):
        return
    if arguments.eval_strategy == "no" or arguments.metric_for_best_model is None:
        raise RecipeError(
            "callbacks: EarlyStoppingCallback compares evaluations; set train.eval_strategy and "
            "train.metric_for_best_model, or train.load_best_model_at_end when fine-tuning"
        )


def _is_callback(each: Any) -> bool:
    return isinstance(each, TrainerCallback)


def _named(each: Any) -> str:
    if isinstance(each, type) and issubclass(each, TrainerCallback):
        return f"the class {each.__name__}, give {each.__name__}(…)"
    return shown(each)
