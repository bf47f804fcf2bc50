"""Functions that fine-tuning and pre-training share: what precedes the data, training, and the end of a run."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.files import disk_faults
from bertkit.runtime.placement.processes import failing_together, from_main_process, is_main_process
from bertkit.runtime.placement.resolve import Placement, place
from bertkit.runtime.progress import say, without_library_bars
from bertkit.training.arguments import training_arguments, validate_training_arguments
from bertkit.training.evaluation import best_step_message, float32_products, last_evaluation
from bertkit.training.progress import start_lines
from bertkit.training.recovery import Preemption
from bertkit.training.runs.directory import RunDirectory
from bertkit.training.runs.listeners import EndOfRun, Listener, listeners_of, tell_end
from bertkit.training.runs.record import Results, Run, RunRecord, all_results, finite_numbers, write_results
from bertkit.training.trainer import BertkitTrainer


@dataclass(frozen=True)
class RunSetup:
    """Where and on what a run is computed: known before its data are read, except for the batch of a device.

    Attributes:
        directory: the run directory.
        placement: devices, processes and batches.
        listeners: what features do around the run: report, card, push, trackers.
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
    joins_batch: bool = False,
    **fixed: Any,
) -> RunSetup:
    """Checks all of a run that needs no data; with several processes, `place` starts their group.

    Args:
        recipe: a checked recipe.
        output_dir, resume: as for `RunDirectory`.
        push_to_hub: Hub repository to push the finished run to, or ``None``.
        scratch: folder for the files of the Trainer in place of ``output_dir``, for a run that is only checked.
        joins_batch: as for `place`.
        fixed: ``TrainingArguments`` that the kind of run determines instead of the recipe, to be checked too.

    Raises:
        BertkitError: the directory is in use or holds another run, the placement or an argument is invalid, or the user
            is not logged in to the Hub for a push.
    """
    directory = RunDirectory(output_dir, resume)
    directory.check_recipe(recipe)
    placement = place_run(recipe, joins_batch)
    listeners = listeners_of(recipe, directory.path, push_to_hub)
    for each in listeners:
        each.check()
    setup = RunSetup(directory, placement, listeners, scratch or directory.path)
    validate_training_arguments(training_arguments(recipe, placement, setup.folder_of_trainer, **fixed), recipe)
    return setup


def place_run(recipe: Recipe, joins_batch: bool = False) -> Placement:
    """Returns the placement of the batches and input lengths of a recipe; see `place`."""
    size, longest = recipe.train["global_train_batch_size"], recipe.data.max_seq_length
    return place(recipe.placement, size, longest, joins_batch=joins_batch)


def trainer_class(placement: Placement) -> type[BertkitTrainer]:
    """Returns the Trainer class of a placement."""
    if placement.device == "xla":
        from bertkit.training.placements.xla import XlaTrainer

        return XlaTrainer
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        return ShardedTrainer
    return BertkitTrainer


def begin(
    setup: RunSetup,
    record: RunRecord,
    trainer: BertkitTrainer,
    tokenizer: PreTrainedTokenizerBase,
    command: str,
) -> Path | None:
    """Adds the callbacks of the listeners, prints the resources, checks that the data of a resumed run are the same,
    tells the listeners, and writes ``recipe.yaml``, ``run.json`` and the tokenizer; a collective call.

    Args:
        setup: where the run is computed.
        record: what ``run.json`` says of the run at its start.
        trainer, tokenizer: of the model.
        command: repeats the run; for the first line of ``recipe.yaml``.

    Returns:
        The last complete checkpoint of a resumed run; None if there is none.
    """
    directory, listeners = setup.directory, setup.listeners
    for callback in [callback for each in listeners for callback in each.callbacks()]:
        trainer.add_callback(callback)
    for line in start_lines(trainer, setup.placement, record.recipe.data.max_seq_length):
        say(line)
    with failing_together():  # all processes check the directory before the first one writes to it
        directory.check_data(record.data)
        for each in listeners:
            each.on_begin(trainer, directory.is_resumed)
    directory.write_first_files(record, tokenizer, listeners, command)
    return directory.checkpoint()


@contextmanager
def computing(setup: RunSetup, trainer: BertkitTrainer) -> Iterator[None]:
    """Context of the steps of a run, and of what precedes them: no bars of libraries, faults of the disk in one line,
    and products in float32 as the arguments say; evaluations set their own.

    A signal ends what precedes the steps at once, also the training of models of folds; `train` saves a checkpoint
    first. Other writes of a run name faults of the disk themselves.
    """
    products = float32_products("tf32" if trainer.args.tf32 else "ieee")
    with without_library_bars(), disk_faults(setup.directory.path), products:
        yield


def train(trainer: BertkitTrainer, checkpoint: Path | None) -> dict[str, float]:
    """Trains from a checkpoint, or from the start; a signal ends it with a checkpoint. If the recipe keeps the best
    checkpoint, the model has its weights at the end.

    Returns:
        Metrics of transformers' Trainer.

    Raises:
        SystemExit: a signal came; the checkpoint is saved, and `Preemption` says how to continue.
        RecipeError: the metric that the recipe compares checkpoints by is no score of this task.
        TrainingError: weights are not finite.
    """
    preemption = Preemption()
    trainer.add_callback(preemption)
    try:
        with preemption.listening():  # the callback ends the process after its checkpoint
            outcome = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if preemption.received is not None:  # after the last step, as during its evaluation
            signal.raise_signal(preemption.received)
    except KeyError as error:
        if "metric_for_best_model" not in str(error):
            raise
        raise RecipeError(f"train.metric_for_best_model: {error.args[0]}") from error
    trainer.check_finite(weights=True)
    return outcome.metrics


def save_and_score(
    setup: RunSetup, trainer: BertkitTrainer, metrics: Mapping[str, float], checkpoint: Path | None
) -> tuple[Results, dict[str, Any]]:
    """Saves a trained model, and scores its validation set unless the last evaluation was one of these weights.

    Args:
        setup: where the run is computed.
        trainer: the trainer of the model.
        metrics, checkpoint: what `train` has returned, and started from.

    Returns:
        Results of the training, and of the validation set if there is one; and facts of the training for ``run.json``.
    """
    kept = best_step_message(trainer)
    if kept:
        say(kept)
    size = sum(weight.nbytes for weight in trainer.model.parameters())
    with setup.directory.files(size) as folder, without_library_bars():  # all of them appear, or none
        trainer.save_weights(folder)
        if is_main_process():
            trainer.state.save_to_json(str(folder / "trainer_state.json"))
    own = {"train_samples": len(trainer.train_dataset), **trainer.record.results(metrics, trainer.state)}
    results = {"train": finite_numbers({**metrics, **own})}
    if trainer.eval_dataset is not None:
        # A run that is resumed after its last step has evaluated nothing in this process.
        found = (last_evaluation(trainer) if trainer.evaluated is not None else None) or trainer.evaluate()
        results["eval"] = finite_numbers({**found, "eval_samples": len(trainer.evaluated)})
    resumed_from = None if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))
    return results, {"resumed_from_step": resumed_from, "kept": kept}


def finish(
    setup: RunSetup,
    record: RunRecord,
    trainer: BertkitTrainer,
    facts: Mapping[str, Any],
    results: Results,
    **fields: Any,
) -> Run:
    """Writes ``all_results.json`` and its parts, then ``run.json``; then tells the listeners, in the order of their
    places, that the run is complete: report, model card, trackers, and last the push.

    Args:
        setup: where the run was computed.
        record: all that is known of the run.
        trainer: the trainer at the end of the run.
        facts: facts of the training, from `save_and_score`.
        results: all results of the run.
        fields: further ones of `bertkit.training.runs.listeners.EndOfRun`.

    Raises:
        BertkitError: what the caller asked for failed, such as a push; the message has the command to retry.
    """
    directory, state, metrics = setup.directory, trainer.state, all_results(results)

    def tell() -> None:
        write_results(directory.path, results)
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
            metrics=metrics,
            scores=results.get("eval", {}),
            **fields,
        )
        end.write_record()
        tell_end(setup.listeners, end)

    from_main_process(tell, prepares=True)  # an upload may take long
    return Run(directory.path, metrics, record.collapse, record.verdict)
