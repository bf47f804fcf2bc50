"""What the trainings of runs share: how a trainer is made, the training itself, and the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments, set_seed

from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import HEAD_RATE, KEYS
from bertkit.runtime.errors import PlacementError, RecipeError
from bertkit.runtime.files import disk_faults, write_json
from bertkit.runtime.placement.processes import failing_together, from_main_process, is_main_process
from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import say, without_library_bars
from bertkit.tasks.base import Task
from bertkit.training.arguments import has_tf32
from bertkit.training.batches import compiled_length, multiple_of_8, padded_to
from bertkit.training.cpu import CpuSpeedUps, cpu_speed_ups
from bertkit.training.evaluation import best_step_message, float32_products
from bertkit.training.initialization import Initialization
from bertkit.training.objectives import weighted_task
from bertkit.training.progress import start_lines
from bertkit.training.recovery import Preemption
from bertkit.training.runs.directory import Run, RunRecord
from bertkit.training.runs.listeners import EndOfRun, tell_end
from bertkit.training.runs.run_directory import RunSetup
from bertkit.training.steps import Objective, TaskObjective
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.tuning import tune

_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # fields of the families of encoders

Begin = Callable[[BertkitTrainer, bool], object]
"""What precedes the first step of a training, which is resumed from a checkpoint or not."""


def set_attention(model: PreTrainedModel, recipe: Recipe, placement: Placement) -> None:
    """Sets the attention kernel if the placement names one.

    Raises:
        PlacementError: the kernel does not exist, is not installed, or cannot compute with the precision or the dropout
            of the run.
    """
    implementation = recipe.placement.attn_implementation
    if implementation is None:
        return
    what = f"placement.attn_implementation: {implementation!r}"
    if implementation.startswith("flash") and placement.mixed_precision == "no":
        raise PlacementError(f"{what} needs half precision; set placement.mixed_precision=bf16, or use sdpa")
    dropout = next((name for name in _ATTENTION_DROPOUT if getattr(model.config, name, 0)), None)
    if implementation.startswith("flex") and dropout:
        raise PlacementError(f"{what} has no dropout; set model.{dropout}=0, or use sdpa")
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        raise PlacementError(f"{what} is not available: {error}") from error


@dataclass(frozen=True)
class Assembly:
    """Shared parts of the trainers of a run.

    Attributes:
        recipe: the final recipe.
        placement: of the run.
        task: the task of the training data.
        start: the encoder that every model starts from.
        labels: names of the classes by id; None for tasks without.
        teacher: the teacher of the recipe; None without one.
    """

    recipe: Recipe
    placement: Placement
    task: Task
    start: Initialization
    labels: Any | None = None
    teacher: Any | None = None

    def trainer(
        self, train: Any, arguments: TrainingArguments, what: str = "", **given: Any
    ) -> tuple[BertkitTrainer, list[str]]:
        """Returns a trainer of a new model, and the names of the weights that the encoder lacks.

        Args:
            train: rows of `Task.encode` to train on.
            arguments: the arguments of the training.
            what: name of the model in lines and errors; by default the name of the task.
            given: ``eval_dataset``, ``scores`` and ``callbacks``, as for transformers' Trainer.
        """
        recipe, placement = self.recipe, self.placement
        set_seed(recipe.train["seed"])
        network, new_weights = self.start.model(labels=self.labels)
        set_attention(network, recipe, placement)
        self.task.prepare(network)
        speed_ups = cpu_speed_ups(placement, compiles=arguments.torch_compile)
        losses = self._losses(network, train, speed_ups)
        trainer = trainer_class(placement)(
            what=what or self.task.name,
            model=network,
            args=arguments,
            objective=losses.training,
            evaluation=losses.evaluation,
            precision=placement.autocast_dtype,
            tuning=tune(network, recipe) if is_tuned(recipe) else None,
            train_dataset=train,
            data_collator=losses.collate,
            processing_class=self.start.tokenizer,
            drop_last=bool(recipe.train.get("dataloader_drop_last")),
            **given,
        )
        return trainer, new_weights

    def _losses(self, network: PreTrainedModel, train: Any, speed_ups: CpuSpeedUps) -> _Losses:
        """Returns the task with the losses of the recipe: weights of classes, smoothed labels, a teacher."""
        recipe, task, teacher, tokenizer = self.recipe, self.task, self.teacher, self.start.tokenizer
        objective = weighted_task(recipe, task, train) if is_weighted(recipe) else TaskObjective(task)
        of_teacher = () if teacher is None else teacher.inputs
        inputs = tuple(dict.fromkeys([*model_inputs(network.config), *of_teacher]))
        collate: Any = partial(task.collate, tokenizer=tokenizer, inputs=inputs)
        collate = speed_ups.collator(collate, tokenizer, recipe.data.max_seq_length, task.label_columns)
        collate = _in_fixed_shapes(collate, self.placement, recipe, task, tokenizer, speed_ups.compiles)
        if teacher is None:
            return _Losses(objective, objective, collate)
        from bertkit.training.distillation.finetuning import taught_task

        taught, collate = taught_task(objective, task, teacher, network, train, collate)
        return _Losses(taught, objective, collate)


class _Losses(NamedTuple):
    """Objectives of the training and of its evaluations, and the collator that makes batches for both."""

    training: Objective
    evaluation: Objective
    collate: Any


def _in_fixed_shapes(
    collate: Any, placement: Placement, recipe: Recipe, task: Task, tokenizer: Any, compiles: bool
) -> Any:
    """Returns a collator that pads as the device or the compiler needs it."""
    longest = recipe.data.max_seq_length
    if placement.fixed_shapes:
        return padded_to(partial(max, longest), collate, tokenizer, task.label_columns)
    if compiles:
        return padded_to(partial(compiled_length, longest), collate, tokenizer, task.label_columns)
    if placement.device == "cuda":
        return padded_to(partial(multiple_of_8, longest), collate, tokenizer, task.label_columns)
    return collate


def is_weighted(recipe: Recipe) -> bool:
    """Returns whether the loss of the labels is another one than the task's."""
    return any(recipe.train.get(key) for key in ("class_weights", "label_smoothing_factor"))


def is_tuned(recipe: Recipe) -> bool:
    """Returns whether weights are frozen, re-initialized, adapted, or learn at rates of their own."""
    own_rates = any(recipe.train.get(key) is not None for key in ("layer_lr_decay", HEAD_RATE))
    return own_rates or any(recipe.model.get(key) is not None for key in KEYS)


def trainer_class(placement: Placement) -> type[BertkitTrainer]:
    """Returns the Trainer class of a placement."""
    if placement.device == "xla":
        from bertkit.training.placements.xla import XlaTrainer

        return XlaTrainer
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        return ShardedTrainer
    return BertkitTrainer


def train(
    setup: RunSetup,
    record: RunRecord,
    trainer: BertkitTrainer,
    tokenizer: PreTrainedTokenizerBase,
    command: str,
    *,
    logits_per_sequence: int = 0,
    teacher_bytes: int = 0,
    begin: Begin | None = None,
) -> tuple[dict[str, float], dict[str, Any], Any]:
    """Prints the resources, trains, saves and evaluates.

    Args:
        setup: where the run is computed.
        record: what ``run.json`` says of the run at its start.
        trainer, tokenizer: of the model.
        command: repeats the run.
        logits_per_sequence, teacher_bytes: as for `start_lines`.
        begin: what precedes the first step.

    Returns:
        The results ``eval_…``, empty without an evaluation set; facts of the training for ``run.json``; and what
        ``begin`` has returned.
    """
    directory, recipe, listeners = setup.directory, record.recipe, setup.listeners
    preemption, begun = Preemption(), None
    for callback in [*(callback for each in listeners for callback in each.callbacks()), preemption]:
        trainer.add_callback(callback)
    with cpu_speed_ups(setup.placement, compiles=trainer.args.torch_compile).applied(trainer.model):
        facts = logits_per_sequence, teacher_bytes, has_tf32(recipe, setup.placement)
        longest = recipe.data.max_seq_length
        for line in start_lines(trainer.model, setup.placement, longest, trainer.train_dataset, *facts):
            say(line)
        with failing_together():  # all processes check the directory before the first one writes to it
            directory.check_data(record.data)
            for each in listeners:
                each.on_begin(trainer, directory.is_resumed)
        checkpoint = directory.begin(record, tokenizer, listeners, command)
        try:
            products = float32_products("tf32" if trainer.args.tf32 else "ieee")
            with without_library_bars(), disk_faults(directory.path), products:
                if begin is not None:
                    begun = begin(trainer, checkpoint is not None)  # a signal ends it at once: nothing is to be saved
                with preemption.listening():
                    outcome = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        except KeyError as error:
            if "metric_for_best_model" not in str(error):
                raise
            raise RecipeError(f"train.metric_for_best_model: {error.args[0]}") from error
        trainer.check_finite(weights=True)
        kept = best_step_message(trainer)
        if kept:
            say(kept)
        size = sum(weight.nbytes for weight in trainer.model.parameters())
        with directory.files(size) as folder, without_library_bars():
            trainer.save_weights(folder)
            if is_main_process():
                trainer.state.save_to_json(str(folder / "trainer_state.json"))
        of_run = {
            "train_loss": trainer.loss_of_run(outcome.metrics),
            "train_samples": len(trainer.train_dataset),
            "train_tokens_per_second": trainer.tokens_per_second(outcome.metrics),
        }
        directory.write_results("train", {**outcome.metrics, **of_run})
        evaluation: dict[str, float] = {}
        if trainer.eval_dataset is not None:
            found = trainer.last_evaluation() or trainer.evaluate()
            evaluation = directory.write_results("eval", {**found, "eval_samples": len(trainer.evaluated)})
    resumed_from = None if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))
    return evaluation, {"resumed_from_step": resumed_from, "kept": kept}, begun


def write_files_of_listeners(setup: RunSetup, task: Task, config: PreTrainedConfig) -> None:
    """Writes what other libraries need to load a checkpoint of this kind, beside its weights."""
    files: dict[str, Any] = {}
    for each in setup.listeners:
        files |= each.checkpoint_files(task, config)
    if not files:
        return
    with setup.directory.files() as folder:
        if is_main_process():
            for name, content in files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                write_json(folder / name, content)


def finish(
    setup: RunSetup,
    record: RunRecord,
    trainer: BertkitTrainer,
    facts: Mapping[str, Any],
    scores: Mapping[str, float],
    **of_kind: Any,
) -> Run:
    """Writes ``run.json``, and tells the listeners of the complete run.

    Args:
        setup: where the run was computed.
        record: all that is known of the run.
        trainer: the trainer at the end of the run.
        facts: facts of the training, from `train`.
        scores: results on the validation set.
        of_kind: further fields of `bertkit.training.runs.listeners.EndOfRun`.

    Raises:
        BertkitError: what the caller asked for failed, such as a push; the message has the command to retry.
    """
    directory, state = setup.directory, trainer.state

    def tell() -> None:
        end = EndOfRun(
            folder=directory.path,
            recipe=record.recipe,
            record=record,
            facts={
                "tokens_seen": state.num_input_tokens_seen,
                "steps": state.global_step,
                **facts,
                "wall_time": record.wall_time(),  # the same in all reports, however long the first one takes
            },
            config=trainer.model.config,
            steps=state.global_step,
            metrics=directory.results,
            scores=scores,
            **of_kind,
        )
        end.write_record()
        tell_end(setup.listeners, end)

    from_main_process(tell, prepares=True)  # an upload may take long
    return Run(directory.path, directory.results, record.collapse, record.verdict)
