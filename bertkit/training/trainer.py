"""The thin Trainer that pre-training and fine-tuning share.

transformers' Trainer does the loop. Added here: losses that are means over the *global* batch, however it is cut by
accumulation and processes; progress on stderr; and ``TrainingArguments`` made from a recipe and a placement.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import SequentialSampler
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks
from transformers.trainer_callback import TrainerControl, TrainerState
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import EvalLoopOutput

from bertkit.errors import PlacementError, RecipeError
from bertkit.model.loss_bert import mean_cross_entropy, position_loss, sequence_classification_loss
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.placement import Placement
from bertkit.recipe import OWN_TRAIN_KEYS, Recipe
from bertkit.training.progress import Progress


def training_arguments(recipe: Recipe, placement: Placement, output_dir: Path, **fixed: Any) -> TrainingArguments:
    """The recipe's ``train`` block and the placement, as transformers wants them.

    Raises:
        RecipeError: transformers refuses a value or a combination of values.
    """
    values = {key: value for key, value in recipe.train.items() if key not in OWN_TRAIN_KEYS}
    try:
        arguments = TrainingArguments(
            output_dir=str(output_dir),
            **{**values, **placement.training_arguments(), **fixed},
            disable_tqdm=True,  # `Progress` shows what there is to show
        )
        for reporter in get_reporting_integration_callbacks(arguments.report_to):
            reporter()  # one that is not installed says so
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise RecipeError(f"recipe {recipe.name}: train: {error}") from error
    return arguments


def use_attention(model: PreTrainedModel, implementation: str | None) -> None:
    """Chooses the attention kernel, where the placement names one.

    Raises:
        PlacementError: there is no such kernel, or it is not installed.
    """
    if implementation is None:
        return
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        raise PlacementError(f"placement.attn_implementation: {implementation!r} cannot be had: {error}") from error


class LengthGroups(LengthGroupedSampler):
    """An epoch's order in which the inputs of one *global* batch are of like length.

    transformers' own draws from the process's generator and groups what one process takes: its order changes when a
    run is resumed within an epoch, and with the number of processes. This one is a function of (seed, epoch) alone.

    Args:
        lengths: tokens of each example.
        global_batch_size: examples per optimizer step over all processes.
        seed: of the run.
    """

    def __init__(self, lengths: list[int], global_batch_size: int, seed: int):
        super().__init__(global_batch_size, lengths=lengths)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch, also one that is resumed in the middle."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        key = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1, np.uint64)[0]
        self.generator = torch.Generator().manual_seed(int(key >> 1))
        return iter(super().__iter__())


class _EpochOrder(TrainerCallback):
    """Tells the order which epoch begins: in several processes accelerate's wrappers keep it from the sampler."""

    def __init__(self, trainer: BertkitTrainer):
        self.trainer = trainer

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.trainer._length_groups is not None:
            self.trainer._length_groups.set_epoch(int((state.epoch or 0) + 1e-6))


class BertkitTrainer(Trainer):
    """Trainer whose losses are means over the global batch.

    transformers counts the items of ``labels`` over all micro-batches and processes and hands the number to the model
    as ``num_items_in_batch``. Two other things are counted as well: the sentence pairs of pre-training, which are a
    second loss over other items, and the answers of question answering, which are no ``labels``. BERT's heads divide by
    these numbers (``accepts_loss_kwargs``). The heads of other families would take them and divide by their own batch's
    all the same, so their losses are computed here from their logits, by the rules of ``bertkit.model.loss_bert``. One
    inexactness is left, where a set is no multiple of the batch and several processes train: accelerate then fills the
    epoch's last batch with examples from its start.
    """

    def __init__(self, *args: Any, what: str, callbacks: list[TrainerCallback] | None = None, **kwargs: Any):
        self._length_groups: LengthGroups | None = None
        self._num_pairs_in_batch: torch.Tensor | None = None
        self.evaluated: Any = None
        self._outputs: Any = None
        super().__init__(*args, callbacks=[Progress(what), _EpochOrder(self), *(callbacks or [])], **kwargs)
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if not isinstance(self.model, BertPreTrainedModel):
            self.compute_loss_func = self._stock_loss
            self.model_accepts_loss_kwargs = False

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        batch_samples, num_items_in_batch = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._num_pairs_in_batch = None
        if batch_samples and "next_sentence_label" in batch_samples[0]:
            counts = [batch["next_sentence_label"].ne(-100).sum() for batch in batch_samples]
            self._num_pairs_in_batch = self._in_global_batch(counts, device)
        return batch_samples, num_items_in_batch

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor | int | None:
        if not batch_samples or "start_positions" not in batch_samples[0]:
            return super()._get_num_items_in_batch(batch_samples, device)
        # An answer begins and ends in the same input; those that lie outside are ignored, see `position_loss`.
        counts = [
            ((batch["start_positions"] >= 0) & (batch["start_positions"] < batch["input_ids"].shape[-1])).sum()
            for batch in batch_samples
        ]
        return self._in_global_batch(counts, device)

    def _in_global_batch(self, counts: list[torch.Tensor], device: torch.device) -> torch.Tensor:
        """The sum over micro-batches and, where losses are averaged over processes, over these."""
        count = torch.stack(counts).sum().to(device)
        over_processes = self.args.world_size > 1 and self.args.average_tokens_across_devices
        return self.accelerator.gather(count).sum() if over_processes else count

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if self.args.train_sampling_strategy == "group_by_length":
            global_batch = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
            self._length_groups = LengthGroups(self.train_dataset["length"][:], global_batch, self.args.seed)
            return self._length_groups
        return super()._get_train_sampler(train_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        # transformers groups these by length too, in a random order, and predictions would come back in that order.
        return SequentialSampler(eval_dataset)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        if num_items_in_batch is not None and self._num_pairs_in_batch is not None:
            inputs = {**inputs, "num_pairs_in_batch": self._num_pairs_in_batch}
        if self.compute_loss_func is not None and "start_positions" in inputs:
            # A loss function is handed what is called labels, and nothing else.
            inputs = dict(inputs)
            positions = [inputs.pop(name).reshape(-1) for name in ("start_positions", "end_positions")]
            inputs["labels"] = torch.stack(positions, dim=-1)
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    def _stock_loss(
        self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """The loss of a head of transformers' own, 0-d: what the head of bertkit's BERT for the same purpose computes.

        Args:
            outputs: of the model, computed without labels.
            labels: as that head takes them; for question answering (B, 2), start and end.
            num_items_in_batch: labelled items in the global batch; None for those of this batch.
        """
        if "start_logits" in outputs:
            starts, ends = labels.unbind(dim=-1)
            start_loss = position_loss(outputs["start_logits"], starts, num_items_in_batch)
            return (start_loss + position_loss(outputs["end_logits"], ends, num_items_in_batch)) / 2
        if self.label_smoother is not None:
            return self.label_smoother(outputs, labels, num_items_in_batch=num_items_in_batch)
        if self.model.loss_type == "ForSequenceClassification":
            return sequence_classification_loss(self.model.config, outputs["logits"], labels, num_items_in_batch)
        return mean_cross_entropy(outputs["logits"], labels, num_items_in_batch)

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in transformers; ``evaluated`` is the data set already while metrics are computed."""
        self.evaluated, self._outputs = dataloader.dataset, None
        outcome = super().evaluation_loop(dataloader, *args, **kwargs)
        self._outputs = outcome.predictions
        return outcome

    def outputs(self, dataset: Any) -> Any:
        """What the model gives for a data set: what it gave in the last evaluation, if that was of this set.

        Call it after `last_evaluation` or ``evaluate``; the weights of the remembered outputs are then those of now.
        """
        if self.evaluated is not dataset or self._outputs is None:
            self.predict(dataset)
        return self._outputs

    def leave_mixed_precision(self) -> None:
        """Computes in float32 from here on, as everybody does who loads the checkpoint: scores are to be theirs.

        accelerate has put its autocast around the forward of this one instance; the class has the plain one still.
        """
        for name in ("forward", "_original_forward"):
            self.model.__dict__.pop(name, None)

    def tokens_per_second(self, metrics: dict[str, float]) -> float:
        """Tokens without padding that all processes trained on in a second, since the start or the resumption.

        Args:
            metrics: what ``train`` gave, with ``train_runtime`` in seconds.
        """
        tokens = self.state.num_input_tokens_seen - self._initial_num_input_tokens_seen
        return round(tokens / metrics["train_runtime"], 1)

    def last_evaluation(self) -> dict[str, float] | None:
        """The results of an evaluation made at this very step, if there was one: no need to make it again."""
        if self.args.load_best_model_at_end or self.args.bf16 or self.args.fp16:
            return None  # the weights are an earlier step's by now, or that evaluation was not in float32
        for entry in reversed(self.state.log_history):
            if entry["step"] == self.state.global_step and "eval_loss" in entry:
                return {key: value for key, value in entry.items() if key != "step"}
        return None
