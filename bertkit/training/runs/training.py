"""Functions that fine-tuning and pre-training share: choice of the Trainer class, training, and end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import has_teacher
from bertkit.runtime.errors import PlacementError, RecipeError
from bertkit.runtime.files import disk_faults, write_json
from bertkit.runtime.placement.processes import failing_together, from_main_process, is_main_process
from bertkit.runtime.placement.resolve import JOINED, Placement
from bertkit.runtime.progress import say, without_library_bars
from bertkit.tasks.base import Task
from bertkit.training.arguments import has_tf32
from bertkit.training.evaluation import best_step_message, float32_products, last_evaluation
from bertkit.training.progress import start_lines
from bertkit.training.recovery import Preemption
from bertkit.training.runs.directory import Run, RunRecord
from bertkit.training.runs.listeners import EndOfRun, tell_end
from bertkit.training.runs.run_directory import RunSetup
from bertkit.training.trainer import BertkitTrainer

_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # fields of the families of encoders

Begin = Callable[[bool], object]
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
    if implementation == JOINED:
        from bertkit.model.joined import missing_on_device, reason_not_to_join

        if missing := missing_on_device(placement.device):
            say(f"{what} needs {missing}; this run computes padded sequences")
            return
        if reason := reason_not_to_join(model):
            raise PlacementError(f"{what} is not possible: {reason}; use sdpa")
        others = {"train.torch_compile": recipe.train.get("torch_compile"), "a teacher": has_teacher(recipe.train)}
        others["placement.strategy=fsdp"] = placement.strategy == "fsdp"
        if excluded := [name for name, is_on in others.items() if is_on]:
            raise PlacementError(f"{what} does not work with {excluded[0]}; remove one of both")
    if implementation.startswith(("flash", JOINED)) and placement.mixed_precision == "no":
        raise PlacementError(f"{what} needs half precision; set placement.mixed_precision=bf16, or use sdpa")
    dropout = next((name for name in _ATTENTION_DROPOUT if getattr(model.config, name, 0)), None)
    if implementation.startswith("flex") and dropout:
        raise PlacementError(f"{what} has no dropout; set model.{dropout}=0, or use sdpa")
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        raise PlacementError(f"{what} is not available: {error}") from error


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
    with trainer.speed_ups.applied(trainer.model):
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
                    begun = begin(checkpoint is not None)  # a signal ends it at once: nothing is to be saved
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
        of_run = {"train_samples": len(trainer.train_dataset), **trainer.record.results(outcome.metrics, trainer.state)}
        directory.write_results("train", {**outcome.metrics, **of_run})
        evaluation: dict[str, float] = {}
        if trainer.eval_dataset is not None:
            # A resumed run may be complete, and has no outputs then.
            found = (last_evaluation(trainer) if trainer.evaluated is not None else None) or trainer.evaluate()
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
