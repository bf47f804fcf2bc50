"""The steps shared by pre-training and fine-tuning: check, train, evaluate, write the run directory.

With several processes all of them check and compute; only the first one writes files and prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments

from bertkit.model.checkpoint.load import save_tokenizer
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import PlacementError, RecipeError
from bertkit.runtime.files import clean_run_folder, disk_faults, into_folder, write_json
from bertkit.runtime.placement.processes import (
    failing_together,
    from_main_process,
    is_main_process,
    is_restarted_by_launcher,
)
from bertkit.runtime.placement.resolve import place
from bertkit.runtime.progress import counted, say, without_library_bars
from bertkit.tasks.base import Task
from bertkit.tasks.registry import load_recipe
from bertkit.training.arguments import has_tf32, training_arguments, validate_training_arguments
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.evaluation import best_step_message, float32_products
from bertkit.training.progress import start_lines
from bertkit.training.recovery import Preemption, folds_done, last_checkpoint
from bertkit.training.runs.directory import (
    Run,
    RunRecord,
    check_output_dir,
    contents,
    is_cut_off,
    numeric_metrics,
    write_results,
)
from bertkit.training.runs.listeners import EndOfRun, listeners_of, tell_end
from bertkit.training.runs.resuming import check_same_data, check_same_recipe
from bertkit.training.trainer import BertkitTrainer

_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # fields of the families of encoders


class RunInProgress:
    """Run of a checked recipe, up to its complete directory.

    Args:
        recipe: recipe of the run.
        output_dir: a new or empty folder; with ``resume`` the directory of the run to continue.
        resume: continue from the last checkpoint in ``output_dir``. In a new folder a run is started, if the launcher
            may restart the processes.
        push_to_hub: Hub repository to push the finished run to, or ``None``.
        scratch: folder for the files of the Trainer in place of ``output_dir``, for a run that is only checked.
        fixed: ``TrainingArguments`` determined by the kind of run instead of the recipe.

    Raises:
        BertkitError: the directory is in use or holds another run, the placement or an argument is invalid, or the user
            is not logged in to the Hub for a push.
    """

    def __init__(
        self,
        recipe: Recipe,
        output_dir: str | Path,
        resume: bool,
        push_to_hub: str | None,
        scratch: Path | None = None,
        **fixed: Any,
    ):
        self.recipe = recipe
        self.output_dir = Path(output_dir)
        self._folder_of_trainer = scratch or self.output_dir
        # A launcher that restarts processes repeats the command with which it first started them.
        self.resume = resume and not (is_restarted_by_launcher() and not contents(self.output_dir))
        check_output_dir(self.output_dir, self.resume)
        self.changed = check_same_recipe(recipe, self.output_dir) if self.resume else []
        settings = recipe.placement
        self.placement = place(settings, recipe.train["global_train_batch_size"], recipe.data.max_seq_length)
        self.record = RunRecord(recipe, self.placement)
        self.listeners = listeners_of(recipe, self.output_dir, push_to_hub)
        self.metrics: dict[str, float] = {}
        self._kept: str | None = None  # which step's weights the run has, if not those of the last one
        self._resumed_from: int | None = None  # step
        for each in self.listeners:
            each.check()
        self.is_main_process = is_main_process()
        self._fixed = fixed

    def settle(self, recipe: Recipe, sentence: str) -> Recipe:
        """Replaces the recipe by one with the values that depend on the data; prints the sentence on them, if any.

        Raises:
            RecipeError: the run is resumed, and was started with other values.
        """
        if sentence:
            say(sentence)
        self.recipe = self.record.recipe = recipe
        if self.resume:
            self.changed = check_same_recipe(recipe, self.output_dir)
        return recipe

    def started_with(self, block: str, key: str) -> Any:
        """Returns a value of the recipe that a resumed run was started with; None if it is not known."""
        place = self.output_dir / "recipe.yaml"
        if not place.is_file() or is_cut_off(place):
            return None
        return load_recipe(place).to_dict()[block].get(key)

    def check_arguments(self) -> None:
        """Checks the Trainer arguments of the recipe before data are read; starts the process group.

        Raises:
            RecipeError: transformers, or a library that it uses, rejects a value or a combination of values.
        """
        validate_training_arguments(self.training_arguments(reaches_all_weights=True), self.recipe)

    def training_arguments(self, *, reaches_all_weights: bool, **known: Any) -> TrainingArguments:
        """Returns the Trainer arguments; RecipeError if transformers rejects a value or a combination of values.

        Args:
            reaches_all_weights: the loss has a gradient for every weight, as those of BERT.
            known: values determined by model and data; they take precedence over all others.
        """
        if self.recipe.train.get("ddp_find_unused_parameters") is None:
            known["ddp_find_unused_parameters"] = not reaches_all_weights
        return training_arguments(
            self.recipe,
            self.placement,
            self._folder_of_trainer,
            **{**self._fixed, **known},
        )

    def set_attention(self, model: PreTrainedModel) -> None:
        """Sets the attention kernel if the placement names one.

        Raises:
            PlacementError: the kernel does not exist, is not installed, or cannot compute with the precision or the
                dropout of the run.
        """
        implementation = self.recipe.placement.attn_implementation
        if implementation is None:
            return
        what = f"placement.attn_implementation: {implementation!r}"
        if implementation.startswith("flash") and self.placement.mixed_precision == "no":
            raise PlacementError(f"{what} needs half precision; set placement.mixed_precision=bf16, or use sdpa")
        dropout = next((name for name in _ATTENTION_DROPOUT if getattr(model.config, name, 0)), None)
        if implementation.startswith("flex") and dropout:
            raise PlacementError(f"{what} has no dropout; set model.{dropout}=0, or use sdpa")
        try:
            model.set_attn_implementation(implementation)
        except (ValueError, ImportError) as error:
            raise PlacementError(f"{what} is not available: {error}") from error

    def _heading(self, command: str) -> str:
        if self.changed:
            return f"Resumed, and {'; '.join(self.changed)}: this file alone does not reproduce the run."
        return f"Resolved from {self.recipe.name}. To repeat the run: {command}"

    def train(
        self,
        trainer: BertkitTrainer,
        tokenizer: PreTrainedTokenizerBase,
        command: str,
        logits_per_sequence: int = 0,
        teacher_bytes: int = 0,
        begin: Callable[[BertkitTrainer, bool], object] | None = None,
    ) -> dict[str, float]:
        """Prints the resources, trains, saves and evaluates; returns ``eval_…``, empty without an evaluation set.

        ``begin`` is called before the first step, with whether the run is resumed from a checkpoint.
        """
        speed_ups = cpu_speed_ups(self.placement, compiles=trainer.args.torch_compile)
        preemption = Preemption()
        for each in self.listeners:
            for callback in each.callbacks():
                trainer.add_callback(callback)
        trainer.add_callback(preemption)
        with speed_ups.applied(trainer.model):
            checkpoint = self._begin(trainer, tokenizer, command, logits_per_sequence, teacher_bytes)
            try:
                products = float32_products("tf32" if trainer.args.tf32 else "ieee")
                with without_library_bars(), disk_faults(self.output_dir), products:
                    if begin is not None:
                        begin(trainer, checkpoint is not None)  # a signal ends it at once: there is nothing to save yet
                    with preemption.listening():
                        outcome = trainer.train(resume_from_checkpoint=checkpoint)
            except KeyError as error:
                if "metric_for_best_model" not in str(error):
                    raise
                raise RecipeError(f"train.metric_for_best_model: {error.args[0]}") from error
            trainer.check_finite(weights=True)
            self._kept = best_step_message(trainer)
            if self._kept:
                say(self._kept)
            size = sum(weight.nbytes for weight in trainer.model.parameters())
            with self.files(size) as folder, without_library_bars():
                trainer.save_weights(folder)
                if self.is_main_process:
                    trainer.state.save_to_json(str(folder / "trainer_state.json"))
            of_run = {
                "train_loss": trainer.loss_of_run(outcome.metrics),
                "train_samples": len(trainer.train_dataset),
                "train_tokens_per_second": trainer.tokens_per_second(outcome.metrics),
            }
            self.write("train", {**outcome.metrics, **of_run})
            if trainer.eval_dataset is None:
                return {}
            evaluation = trainer.last_evaluation() or trainer.evaluate()
            return self.write("eval", {**evaluation, "eval_samples": len(trainer.evaluated)})

    def _begin(
        self,
        trainer: BertkitTrainer,
        tokenizer: PreTrainedTokenizerBase,
        command: str,
        logits_per_sequence: int,
        teacher_bytes: int,
    ) -> str | None:
        """Prints the resources and writes the initial files; returns the checkpoint to resume from, or None."""
        longest, train_set = self.recipe.data.max_seq_length, trainer.train_dataset
        facts = logits_per_sequence, teacher_bytes, has_tf32(self.recipe, self.placement)
        for line in start_lines(trainer.model, self.placement, longest, train_set, *facts):
            say(line)
        with failing_together():  # all processes check the directory before the first one writes to it
            if self.resume:
                check_same_data(self.output_dir, self.record.data)
            for each in self.listeners:
                each.on_begin(trainer, self.resume)
        checkpoint = from_main_process(lambda: self._write_initial_files(tokenizer, command))
        if checkpoint is not None:
            self._resumed_from = int(Path(checkpoint).name.removeprefix("checkpoint-"))
        if self.resume:
            folds = folds_done(self.output_dir)
            start = f"after {counted(folds, 'fold')}" if folds else "no complete checkpoint, so from the start"
            say(f"resuming from {checkpoint}" if checkpoint else f"resuming: {start}")
        return checkpoint

    def _write_initial_files(self, tokenizer: PreTrainedTokenizerBase, command: str) -> str | None:
        """Writes the initial files of the directory and returns the checkpoint to resume from; None if there is
        none."""
        with disk_faults(self.output_dir):
            self.output_dir.mkdir(parents=True, exist_ok=True)
        clean_run_folder(self.output_dir)
        # Written first: a folder with a recipe is a run, which can be resumed even without a checkpoint.
        self.recipe.save(self.output_dir / "recipe.yaml", self._heading(command))
        self.record.write(self.output_dir, finished=False)
        for each in self.listeners:
            each.on_first_files()
        with into_folder(self.output_dir) as folder:
            save_tokenizer(tokenizer, folder)
        checkpoint = last_checkpoint(self.output_dir) if self.resume else None
        return str(checkpoint) if checkpoint else None

    @contextmanager
    def files(self, needed: int | None = None) -> Iterator[Path]:
        """Context of all processes with the folder to save files of the run to; the first process moves them when
        complete.

        Args:
            needed: their size in bytes, for the message of a full disk; ``None`` if unknown.
        """
        with failing_together():
            of_main = into_folder(self.output_dir, needed) if self.is_main_process else nullcontext(self.output_dir)
            with of_main as folder:
                yield folder

    def write(self, split: str, metrics: dict[str, Any]) -> dict[str, float]:
        """Writes the results of a split and returns their numeric values."""
        numbers = numeric_metrics(metrics)
        self.metrics |= numbers
        from_main_process(lambda: write_results(self.output_dir, split, numbers))
        return numbers

    def write_files_of_others(self, task: Task, config: PreTrainedConfig) -> None:
        """Writes what other libraries need to load a checkpoint of this kind, beside its weights."""
        files: dict[str, Any] = {}
        for each in self.listeners:
            files |= each.checkpoint_files(task, config)
        if not files:
            return
        with self.files() as folder:
            if self.is_main_process:
                for name, content in files.items():
                    (folder / name).parent.mkdir(exist_ok=True)
                    write_json(folder / name, content)

    def finish(self, trainer: BertkitTrainer, scores: Mapping[str, float], **facts: Any) -> Run:
        """Writes ``run.json``, and tells the listeners of the complete run.

        Args:
            trainer: the trainer at the end of the run.
            scores: results on the validation set.
            facts: further fields of `bertkit.training.runs.listeners.EndOfRun`.

        Raises:
            BertkitError: what the caller asked for failed, such as a push; the message has the command to retry.
        """
        # An upload may take long.
        from_main_process(lambda: self._finish(trainer, scores, facts), prepares=True)
        return Run(self.output_dir, self.metrics, self.record.collapse, self.record.verdict)

    def _finish(self, trainer: BertkitTrainer, scores: Mapping[str, float], facts: Mapping[str, Any]) -> None:
        state = trainer.state
        recorded: dict[str, Any] = {
            "tokens_seen": state.num_input_tokens_seen,
            "steps": state.global_step,
            "resumed_from_step": self._resumed_from,
            "kept": self._kept,
            "wall_time": self.record.wall_time(),  # the same in all reports, however long the first one takes
        }
        end = EndOfRun(
            folder=self.output_dir,
            recipe=self.recipe,
            record=self.record,
            facts=recorded,
            config=trainer.model.config,
            steps=state.global_step,
            metrics=self.metrics,
            scores=scores,
            **facts,
        )
        end.write_record()
        tell_end(self.listeners, end)
