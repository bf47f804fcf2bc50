"""Evaluation during training: order of the examples, mean loss, the best checkpoint, and early stopping.

Inputs of similar length are evaluated together to reduce padding. Predictions and scores do not depend on the order
beyond rounding, since padding is masked in attention. The loss is a mean over all items, independent of batches and
processes. The best checkpoint is chosen by the main metric of the task; of equal values the one with the lower loss is
kept: see `BertkitTrainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from transformers.trainer_utils import EvalLoopOutput

from bertkit.recipe.fields import LOGGING_STEPS
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError
from bertkit.training.batches import part_of_batch
from bertkit.training.objectives import Objective

_OFF = {"early_stopping_patience": "null", "load_best_model_at_end": "false"}


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
    """Returns whether an array is, or tuples, lists and mappings have, an output that is no number.

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
    """Context in which the products of float32 matrices round inputs to 24 bits (``ieee``), or to 11 where a GPU has
    TF32."""
    backends: Any = torch.backends
    before = backends.fp32_precision
    if before == precision or (before, precision) == ("none", "ieee"):
        yield
        return
    backends.fp32_precision = precision  # transformers' `enable_tf32` works once in a process
    try:
        yield
    finally:
        backends.fp32_precision = before


@contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Context in which a model computes in float32, the ``EVALUATION_PRECISION`` of a run.

    TF32 is off, and sdpa replaces flash attention, which has no float32.
    """
    kernel = str(model.config._attn_implementation)
    if "flash" in kernel:
        model.set_attn_implementation("sdpa")
    try:
        with float32_products("ieee"):
            yield
    finally:
        if "flash" in kernel:
            model.set_attn_implementation(kernel)


def best_checkpoint_arguments(recipe: Recipe) -> dict[str, Any]:
    """Returns the Trainer arguments that keep the best checkpoint, if the recipe requires it.

    The last checkpoint is kept as well, so that the run can be resumed.

    Raises:
        RecipeError: the recipe does not evaluate during training.
    """
    train, asked = recipe.train, _asked(recipe)
    if not asked:
        return {}
    strategy = train.get("eval_strategy", "no")
    if strategy == "no":
        raise RecipeError(
            f"train.{asked[0]}: nothing is evaluated during training; set train.eval_strategy to epoch or steps"
        )
    if asked == ["save_strategy"]:
        return {}
    fixed: dict[str, Any] = {"load_best_model_at_end": True}
    if train["save_total_limit"] == 1:
        fixed["save_total_limit"] = 2
    if given := [key for key in ("save_strategy", "save_steps") if key in train]:
        saves = train.get("save_strategy", "steps")
        if saves not in (strategy, "best"):
            raise RecipeError(
                f"train.{given[0]}: checkpoints are saved by {saves} and evaluated by {strategy}, so the best one is "
                f"unknown; set train.eval_strategy to {saves}, or train.{asked[0]} to {_OFF[asked[0]]}"
            )
    else:
        saves_each = train.get("eval_steps") or train["logging_steps"] or LOGGING_STEPS
        fixed |= {"save_strategy": strategy, "save_steps": saves_each}
    return fixed | {"restore_callback_states_from_checkpoint": "early_stopping_patience" in asked}


def comparison_arguments(metric: str, recipe: Recipe) -> dict[str, Any]:
    """Returns the Trainer arguments that compare checkpoints by a metric; larger is better.

    The result is empty if the recipe names another metric, or if no best checkpoint is kept.
    """
    if "metric_for_best_model" in recipe.train or not _asked(recipe):
        return {}
    return {"metric_for_best_model": metric, "greater_is_better": True}


def best_step_message(trainer: Trainer) -> str | None:
    """Returns a line that says which step's weights the trainer has at its end; None if they are those of the last."""
    state, arguments = trainer.state, trainer.args
    best = state.best_global_step
    if not arguments.load_best_model_at_end or not best or best == state.global_step:
        return None
    metric = (arguments.metric_for_best_model or "loss").removeprefix("eval_")
    values = [entry.get(f"eval_{metric}") for entry in state.log_history if "eval_loss" in entry]
    criterion = f"{metric}, of equal ones by loss" if values.count(state.best_metric) > 1 else metric
    return f"kept: step {best}, the best of {len(values)} evaluations by {criterion}; the scores are those of this step"


def is_better_of_equals(metrics: Mapping[str, float], state: TrainerState, metric_for_best_model: str | None) -> bool:
    """Returns whether an evaluation has the best value of the metric and a lower loss than the best evaluation."""
    name = f"eval_{(metric_for_best_model or '').removeprefix('eval_')}"
    best = [each for each in state.log_history if each["step"] == state.best_global_step and "eval_loss" in each]
    if not best or "eval_loss" not in metrics or metrics.get(name) != state.best_metric:
        return False
    return bool(metrics["eval_loss"] < best[-1]["eval_loss"])


def _asked(recipe: Recipe) -> list[str]:
    """Returns the keys of the ``train`` block that require the best checkpoint."""
    asked = [name for name in ("early_stopping_patience", "load_best_model_at_end") if recipe.train.get(name)]
    return [*asked, "save_strategy"] if recipe.train.get("save_strategy") == "best" else asked


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


class EvaluatingTrainer(Trainer):
    """Trainer that evaluates in float32 and long inputs first; its evaluation loss is a mean over all items.

    Attributes:
        objective: the objective of the training, whose labels stay out of the model.
        evaluated: the data set of the last evaluation; outputs are in its order.
    """

    objective: Objective
    evaluated: Any = None
    _of_evaluation: Objective
    _evaluation: EvaluationLoss | None = None
    _evaluated_at: Callable[[int], Any] | None
    _scores_the_loss: bool
    _outputs: Any = None

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return evaluation_sampler(eval_dataset)

    def _get_dataloader(self, *args: Any, is_training: bool = False, **kwargs: Any) -> Any:
        drops_last = self.args.dataloader_drop_last
        self.args.dataloader_drop_last = drops_last and is_training  # an evaluation leaves out no example
        try:
            return super()._get_dataloader(*args, is_training=is_training, **kwargs)
        finally:
            self.args.dataloader_drop_last = drops_last

    def evaluate(self, eval_dataset: Any = None, **kwargs: Any) -> dict[str, float]:
        """Evaluates ``eval_dataset``, by default that of the run, or of its last step's phase."""
        if eval_dataset is None and self._evaluated_at is not None:
            eval_dataset = self._evaluated_at(max(self.state.global_step - 1, 0))
        return super().evaluate(eval_dataset, **kwargs)

    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor | None, Any, Any]:
        is_labelled = any(name in inputs for name in self.label_names)
        given = inputs if is_labelled else self._of_model(inputs)
        loss, logits, labels = super().prediction_step(model, given, *args, **kwargs)
        if loss is not None and self._evaluation is not None and not self._scores_the_loss:
            own, is_filled_up = self._evaluation.next_batch()
            if is_filled_up:  # all processes do this together, since parameters may be sharded
                inputs = self._prepare_inputs(part_of_batch(inputs, 0, max(own, 1)))
                with torch.no_grad():
                    loss = self.compute_loss(model, dict(inputs))
            counts = own > 0
            self._evaluation.add(loss * counts, self._of_evaluation.count(inputs) * counts)
        return loss, logits, labels

    def _of_model(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch without what only the loss reads."""
        return {name: values for name, values in inputs.items() if name not in self.objective.label_columns}

    def evaluation_loop(
        self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> EvalLoopOutput:
        """Runs the loop of transformers in float32; sets ``evaluated`` before metrics are computed."""
        dataset, arguments = self.dataset_of(dataloader), self.args
        self.evaluated, self._outputs = dataset, None
        self._evaluation = EvaluationLoss(
            len(dataset),
            arguments.eval_batch_size,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
        )
        try:
            with in_float32(self.model):
                outcome = super().evaluation_loop(dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs)
            sums = self._evaluation.sums
        finally:
            self._evaluation = None
        outcome = outcome._replace(
            predictions=in_dataset_order(outcome.predictions, dataset),
            label_ids=in_dataset_order(outcome.label_ids, dataset),
        )
        self._outputs = outcome.predictions
        if sums:
            of_process = torch.stack(sums).sum(dim=0, keepdim=True)
            loss, items = self.accelerator.gather(of_process).sum(dim=0).tolist()
            outcome.metrics[f"{metric_key_prefix}_loss"] = loss / items if items > 0 else 0.0
        return outcome

    def outputs(self, dataset: Any) -> Any:
        """Returns the model's outputs for a data set; reuses those of the last evaluation if it was on this data set.

        Call it after `last_evaluation` or ``evaluate``, so that the stored outputs are those of the current weights.
        """
        if self.evaluated is not dataset or self._outputs is None:
            self.predict(dataset)
        return self._outputs

    def forget_outputs(self) -> None:
        """Forgets the outputs of the last evaluation, since the weights have changed."""
        self.evaluated = self._outputs = None

    def dataset_of(self, dataloader: Any) -> Any:
        """Returns the data set that a prepared dataloader reads."""
        return dataloader.dataset

    def last_evaluation(self) -> dict[str, float] | None:
        """Returns the results of an evaluation of the current weights, if there was one, so that it need not be
        repeated."""
        state = self.state
        if self.evaluated is None or (self.args.load_best_model_at_end and state.best_global_step != state.global_step):
            return None
        for entry in reversed(state.log_history):
            if entry["step"] == state.global_step and "eval_loss" in entry:
                return {key: value for key, value in entry.items() if key != "step"}
        return None

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Compares an evaluation with the best one; of equal values of the metric the lower loss is better.

        Early stopping counts the metric alone.
        """
        before = self.state.best_global_step
        is_best = super()._determine_best_metric(metrics, trial)
        if not is_best and before and is_better_of_equals(metrics, self.state, self.args.metric_for_best_model):
            self.state.best_global_step, is_best = self.state.global_step, True
        return is_best
