"""Evaluation during training: order of the examples, mean loss, the best checkpoint, and early stopping.

Inputs of similar length are evaluated together to reduce padding. Predictions and scores do not depend on the order
beyond rounding, since padding is masked in attention. The loss is a mean over all items, independent of batches and
processes. The best checkpoint is chosen by the main metric of the task; of equal values the one with the lower loss is
kept: see `EqualsByLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import JOINED
from bertkit.runtime.progress import counted


def evaluation_order(dataset: Any) -> np.ndarray | None:
    """Returns the indices of the examples from the longest to the shortest, (N,) int64.

    The longest come first so that a lack of memory shows in the first batch. Returns None, for the original order, if
    the data set has no column ``length``.
    """
    if "length" not in (getattr(dataset, "column_names", None) or ()):
        return None
    return np.argsort(-np.asarray(dataset["length"][:]), kind="stable")


def evaluation_sampler(dataset: Any) -> Sampler[int]:
    """Returns a sampler in the order of `evaluation_order`."""
    order = evaluation_order(dataset)
    return SequentialSampler(dataset) if order is None else _Order(order.tolist())


class _Order(Sampler[int]):
    def __init__(self, order: list[int]):
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


def in_dataset_order(outputs: Any, dataset: Any) -> Any:
    """Restores the order of the data set in the outputs of an evaluation.

    Args:
        outputs: an array of N rows in the order of the evaluation; None; or tuples, lists and mappings of such values.
        dataset: the evaluated data set.
    """
    order = evaluation_order(dataset)
    return outputs if order is None else _restored(outputs, np.argsort(order))


def _restored(outputs: Any, places: np.ndarray) -> Any:
    if isinstance(outputs, Mapping):
        return {name: _restored(each, places) for name, each in outputs.items()}
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(_restored(each, places) for each in outputs)
    return None if outputs is None else outputs[places]


def has_nan(outputs: Any) -> bool:
    """Returns whether an output is NaN, in an array, or in tuples, lists and mappings of arrays.

    >>> has_nan({"logits": [np.array([1.0, np.nan])], "labels": np.array([1])}), has_nan((None, np.zeros(2)))
    (True, False)
    """
    if isinstance(outputs, Mapping):
        return any(map(has_nan, outputs.values()))
    if isinstance(outputs, (tuple, list)):
        return any(map(has_nan, outputs))
    return outputs is not None and outputs.dtype.kind == "f" and bool(np.isnan(outputs).any())


class EvaluationLoss:
    """Accumulates the losses of an evaluation's batches in one process.

    accelerate assigns batches of ``at_once`` examples to the processes in turn, and fills up the last batches with
    examples from the start of the data set, so that all processes have the same number. These must not be counted
    twice.

    Args:
        num_examples: number of examples in the data set.
        at_once: examples in a batch of one process.
        num_processes, process_index: number of processes of the run, and index of this process.

    Attributes:
        sums: sums of losses and of items of each batch of this process, (2,) float32.

    >>> evaluation = EvaluationLoss(5, 2, num_processes=2, process_index=1)  # 0 1 | 2 3 and 4 0 | 1 2
    >>> evaluation.next_batch(), evaluation.next_batch()
    ((2, False), (0, True))
    """

    def __init__(self, num_examples: int, at_once: int, *, num_processes: int, process_index: int):
        self.num_examples = num_examples
        self.at_once = at_once
        self.num_processes = num_processes
        self.process_index = process_index
        self._batch = -1
        self.sums: list[torch.Tensor] = []

    def next_batch(self) -> tuple[int, bool]:
        """Returns the number of examples of the next batch that are not repeated, and whether any process's batch is
        filled up."""
        self._batch += 1
        first_of_all = self._batch * self.num_processes * self.at_once
        first = first_of_all + self.process_index * self.at_once
        own = min(max(self.num_examples - first, 0), self.at_once)
        is_filled_up = self.num_processes > 1 and self.num_examples < first_of_all + self.num_processes * self.at_once
        return own, is_filled_up

    def add(self, loss: torch.Tensor, items: torch.Tensor) -> None:
        """Adds the sum of a batch's losses, and the number of its items that have a label."""
        self.sums.append(torch.stack([loss.float(), items.to(loss.device).float()]))


@contextmanager
def float32_products(precision: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Context that sets how products of float32 matrices round their inputs: to 24 bits (``ieee``), or to 11 where a
    GPU has TF32 (``tf32``). It overrides the settings of the program, and restores them at the end."""
    backends: Any = torch.backends
    changed: list[tuple[Any, str]] = []
    try:
        # What `torch.set_float32_matmul_precision` has set for matrix products alone prevails over the first.
        for place in (backends, backends.cuda.matmul, backends.mkldnn.matmul):
            before = place.fp32_precision  # of a place without its own, that of the first
            if before != precision and (before, precision) != ("none", "ieee"):
                place.fp32_precision = precision  # transformers' `enable_tf32` works once in a process
                changed.append((place, before))
        yield
    finally:
        for place, before in reversed(changed):
            place.fp32_precision = before


@contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Context in which a model computes in float32, the ``EVALUATION_PRECISION`` of a run.

    TF32 is off. Flash attention and the joined form, which is built on it, have no float32; sdpa replaces them.
    """
    kernel = str(model.config._attn_implementation)
    is_flash = "flash" in kernel or kernel == JOINED
    if is_flash:
        model.set_attn_implementation("sdpa")
    try:
        with float32_products("ieee"):
            yield
    finally:
        if is_flash:
            model.set_attn_implementation(kernel)


def best_step_message(trainer: Trainer) -> str | None:
    """Returns a line that says which step's weights the trainer has at its end; None if they are those of the last."""
    state, arguments = trainer.state, trainer.args
    best = state.best_global_step
    if not arguments.load_best_model_at_end or not best or best == state.global_step:
        return None
    metric = (arguments.metric_for_best_model or "loss").removeprefix("eval_")
    values = [entry.get(f"eval_{metric}") for entry in state.log_history if "eval_loss" in entry]
    criterion = f"{metric}, of equal ones by loss" if values.count(state.best_metric) > 1 else metric
    evaluations = counted(len(values), "evaluation")
    return f"kept: step {best}, the best of {evaluations} by {criterion}; the scores are those of this step"


def last_evaluation(trainer: Trainer) -> dict[str, float] | None:
    """Returns the results of an evaluation of the current weights, so that it need not be repeated; None without."""
    state, arguments = trainer.state, trainer.args
    if arguments.load_best_model_at_end and state.best_global_step != state.global_step:
        return None
    for entry in reversed(state.log_history):
        if entry["step"] == state.global_step and "eval_loss" in entry:
            return {key: value for key, value in entry.items() if key != "step"}
    return None


def is_better_of_equals(metrics: Mapping[str, float], state: TrainerState, metric_for_best_model: str | None) -> bool:
    """Returns whether an evaluation has the best value of the metric and a lower loss than the best evaluation."""
    name = f"eval_{(metric_for_best_model or '').removeprefix('eval_')}"
    best = [each for each in state.log_history if each["step"] == state.best_global_step and "eval_loss" in each]
    if not best or "eval_loss" not in metrics or metrics.get(name) != state.best_metric:
        return False
    return bool(metrics["eval_loss"] < best[-1]["eval_loss"])


class EqualsByLoss(TrainerCallback):
    """Prefers the lower loss among evaluations with the same score.

    transformers compares the score with the best one after this callback, which makes it forget the best one for that.
    """

    _is_training = False

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._is_training = True

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._is_training = False

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any, **kwargs: Any
    ) -> None:
        if self._is_training and is_better_of_equals(metrics, state, args.metric_for_best_model):
            state.best_metric = None


def early_stopping(recipe: Recipe) -> list[TrainerCallback]:
    """Returns the callback for early stopping, if the recipe requires it."""
    patience = recipe.train.get("early_stopping_patience")
    return [] if patience is None else [_Patience(patience)]


class _Patience(EarlyStoppingCallback):
    """Early stopping that counts evaluations in which neither the score is better than before nor the loss.

    F1 of few examples is 0 for many epochs in which the loss falls, or is high by chance in the first one.
    """

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any, **kwargs: Any
    ) -> None:
        before = [each["eval_loss"] for each in state.log_history[:-1] if "eval_loss" in each]
        if before and metrics["eval_loss"] < min(before):
            self.early_stopping_patience_counter = 0
        else:
            super().on_evaluate(args, state, control, metrics, **kwargs)


def check_evaluations(callbacks: Sequence[TrainerCallback], arguments: TrainingArguments) -> None:
    """Checks that a run has the evaluations that early stopping and the choice of checkpoints compare.

    Raises:
        RecipeError: the run evaluates nothing, or has no metric to compare.
    """
    stops = any(isinstance(each, EarlyStoppingCallback) for each in callbacks)
    if not stops and arguments.save_strategy != "best":
        return
    if arguments.eval_strategy == "no" or arguments.metric_for_best_model is None:
        raise RecipeError(
            f"{'callbacks: EarlyStoppingCallback' if stops else 'train.save_strategy: best'} compares evaluations; set "
            "train.eval_strategy and train.metric_for_best_model, in pre-training data.validation_fraction too, or "
            "train.load_best_model_at_end when fine-tuning"
        )
