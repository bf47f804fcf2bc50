"""The thin Trainer that pre-training and fine-tuning share.

transformers' Trainer does the loop. Added here: losses that are means over the *global* batch, however it is cut by
accumulation and processes; progress on stderr; and ``TrainingArguments`` made from a recipe and a placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate.data_loader import SeedableRandomSampler
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, TrainerCallback, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks
from transformers.trainer_callback import TrainerControl, TrainerState
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction

from bertkit.errors import PlacementError, RecipeError
from bertkit.model.loss_bert import mean_cross_entropy, position_loss, sequence_classification_loss
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.placement.resolve import Placement
from bertkit.recipe.load import OWN_TRAIN_KEYS, Recipe
from bertkit.training.batches import GlobalBatches, LengthGroups, labelled_items, part_of_batch
from bertkit.training.cpu.compact_embedding import compact_embeddings
from bertkit.training.evaluation_loss import EvaluationLoss
from bertkit.training.evaluation_order import evaluation_sampler, in_dataset_order
from bertkit.training.placements.fsdp import ShardedTrainer
from bertkit.training.placements.oom_retry import MemorySavingTrainer
from bertkit.training.placements.xla import XlaTrainer
from bertkit.training.progress import Progress


def training_arguments(recipe: Recipe, placement: Placement, output_dir: Path, **fixed: Any) -> TrainingArguments:
    """The recipe's ``train`` block and the placement, as transformers wants them.

    Raises:
        RecipeError: transformers refuses a value or a combination of values.
    """
    if recipe.train.get("train_sampling_strategy") == "batch_rebalance":
        raise RecipeError(
            f"recipe {recipe.name}: train.train_sampling_strategy: batch_rebalance makes other batches of every "
            "placement; use group_by_length"
        )
    values = {key: value for key, value in recipe.train.items() if key not in OWN_TRAIN_KEYS}
    if placement.device == "xla" and values.get("optim", "adamw_torch_fused") == "adamw_torch_fused":
        values["optim"] = "adamw_torch"  # the same AdamW; the fused one is not made for XLA
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
    # Else a launcher's; and on XLA accelerate's is not wanted, see `Placement.training_arguments`.
    arguments.mixed_precision = "no" if placement.autocast_on_xla else placement.mixed_precision
    if placement.strategy == "fsdp":  # accelerate's precision would be that of the weights, not autocast's
        arguments.fsdp_plugin_args["mixed_precision_policy"] = MixedPrecisionPolicy()
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # `place` has settled on the first of them; else transformers would use DataParallel
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


class _Beginnings(TrainerCallback):
    """What a training and its epochs begin with."""

    def __init__(self, trainer: BertkitTrainer):
        self.trainer = trainer

    def on_train_begin(self, args: TrainingArguments, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        if args.process_index:  # with the seed that all share, every process would drop the same units
            torch.manual_seed(args.seed + args.process_index)
        if isinstance(self.trainer.model_wrapped, DistributedDataParallel):
            # Buffers are the same everywhere; and a forward that is done again must not wait for other processes'.
            self.trainer.model_wrapped.broadcast_buffers = False

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # accelerate's wrappers may keep the epoch from the order.
        self.trainer.batches.set_epoch(int((state.epoch or 0) + 1e-6))


class BertkitTrainer(MemorySavingTrainer, ShardedTrainer, XlaTrainer):
    """Trainer whose losses are means over the global batch.

    transformers counts the items of ``labels`` over all micro-batches and processes and hands the number to the model
    as ``num_items_in_batch``. Two other things are counted as well: the sentence pairs of pre-training, which are a
    second loss over other items, and the answers of question answering, which are no ``labels``. BERT's heads divide by
    these numbers (``accepts_loss_kwargs``). The heads of other families would take them and divide by their own batch's
    all the same, so their losses are computed here from their logits, by the rules of ``bertkit.model.loss_bert``. The
    loss of an evaluation is a mean over all items of its set, too, and not of the means of batches.

    Args:
        what: is trained, in a word or two, for the log.
        model, args, compute_metrics, kwargs: as for transformers' Trainer and `XlaTrainer`.

    Attributes:
        batches: what this process trains on in an epoch.
        evaluated: the data set of the last evaluation; what comes of it is in its order, see
            `bertkit.training.evaluation_order`.
    """

    batches: GlobalBatches
    scores_the_loss = False  # whether ``compute_metrics`` gives the loss of an evaluation

    def __init__(
        self,
        *,
        what: str,
        model: PreTrainedModel,
        args: TrainingArguments,
        callbacks: list[TrainerCallback] | None = None,
        compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
        **kwargs: Any,
    ):
        self._scores = compute_metrics
        self._fillers: list[bool] = []  # which micro-batches of this step have no example of their own
        self._num_pairs_in_batch: torch.Tensor | None = None
        self._evaluation: EvaluationLoss | None = None
        self.evaluated: Any = None
        self._outputs: Any = None
        is_bert = isinstance(model, BertPreTrainedModel)
        if args.ddp_find_unused_parameters is None:
            args.ddp_find_unused_parameters = not is_bert  # BERT's losses reach every weight
        told = [Progress(what), _Beginnings(self), *(callbacks or [])]
        in_order = None if compute_metrics is None else self._scores_in_order
        super().__init__(model=model, args=args, callbacks=told, compute_metrics=in_order, **kwargs)
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if not is_bert:
            self.compute_loss_func = self._stock_loss
            self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> DataLoader[Any]:
        arguments = self.args
        self.batches = GlobalBatches(
            self._order(),
            arguments.train_batch_size,
            arguments.gradient_accumulation_steps,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
            drop_last=arguments.dataloader_drop_last,
        )
        return self._get_dataloader(
            self.train_dataset, "Training", arguments.train_batch_size, lambda dataset: self.batches, is_training=True
        )

    def create_optimizer(self, *args: Any) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(*args)
        for embedding in compact_embeddings(self.model) if is_new else ():
            embedding.follow(optimizer)
        return optimizer

    def _order(self) -> Sampler[int]:
        """The order of an epoch's examples, a function of (seed, epoch) alone."""
        arguments = self.args
        if arguments.train_sampling_strategy == "sequential":
            return SequentialSampler(self.train_dataset)
        seed = arguments.seed if arguments.data_seed is None else arguments.data_seed
        if arguments.train_sampling_strategy == "group_by_length":
            global_batch = arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
            return LengthGroups(self.train_dataset["length"][:], global_batch, seed)
        return SeedableRandomSampler(self.train_dataset, data_seed=seed)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        accumulation = self.args.gradient_accumulation_steps
        steps_per_epoch = -(-len(self.batches) // accumulation)
        first = self.state.global_step % steps_per_epoch * accumulation
        self._fillers = [self.batches.is_filler(first + number) for number in range(num_batches)]
        batch_samples, num_items_in_batch = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._num_pairs_in_batch = None
        if batch_samples and "next_sentence_label" in batch_samples[0]:
            counts = [batch["next_sentence_label"].ne(-100).sum() for batch in batch_samples]
            self._num_pairs_in_batch = self._in_global_batch(counts, device)
        return batch_samples, num_items_in_batch

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor | int | None:
        if self._evaluation is not None:
            return self.args.world_size  # by which transformers multiplies the loss: it is the sum over the batch
        pairs = zip(batch_samples, self._fillers, strict=True)
        return self._in_global_batch([labelled_items(batch) * (not is_filler) for batch, is_filler in pairs], device)

    def _in_global_batch(self, counts: list[torch.Tensor], device: torch.device) -> torch.Tensor:
        """The sum over micro-batches and processes."""
        count = torch.stack(counts).sum().to(device)
        return self.accelerator.gather(count).sum() if self.args.world_size > 1 else count

    def _is_filler(self) -> bool:
        """Whether what is computed now must not count."""
        return self._evaluation is None and self._fillers[self._micro_batch]

    def _track_num_input_tokens(self, inputs: dict[str, torch.Tensor]) -> None:
        unseen = {"attention_mask": torch.zeros_like(inputs["attention_mask"])} if self._is_filler() else {}
        super()._track_num_input_tokens({**inputs, **unseen})

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return evaluation_sampler(eval_dataset)

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
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        loss = loss * (not self._is_filler())
        return (loss, outputs) if return_outputs else loss

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

    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor | None, Any, Any]:
        loss, logits, labels = super().prediction_step(model, inputs, *args, **kwargs)
        if loss is not None and self._evaluation is not None and not self.scores_the_loss:
            own, is_filled_up = self._evaluation.next_batch()
            if is_filled_up:  # all processes do this together: parameters may be shared among them
                inputs = self._prepare_inputs(part_of_batch(inputs, 0, max(own, 1)))
                with torch.no_grad():
                    loss = self.compute_loss(model, dict(inputs), num_items_in_batch=self.args.world_size)
            counts = own > 0
            self._evaluation.add(loss * counts, labelled_items(inputs) * counts)
        return loss, logits, labels

    def evaluation_loop(
        self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> EvalLoopOutput:
        """As in transformers; ``evaluated`` is the data set already while metrics are computed."""
        dataset, arguments = self.dataset_of(dataloader), self.args
        self.evaluated, self._outputs = dataset, None
        self._evaluation = EvaluationLoss(
            len(dataset),
            arguments.eval_batch_size,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
        )
        try:
            outcome = super().evaluation_loop(dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs)
            sums = self._evaluation.sums
        finally:
            self._evaluation = None
        outcome = outcome._replace(
            predictions=in_dataset_order(outcome.predictions, dataset),
            label_ids=in_dataset_order(outcome.label_ids, dataset),
        )
        self._outputs = outcome.predictions
        if sums is not None:
            loss, items = self.accelerator.gather(sums[None]).sum(dim=0).tolist()
            outcome.metrics[f"{metric_key_prefix}_loss"] = loss / max(items, 1)
        return outcome

    def _scores_in_order(self, outcome: EvalPrediction) -> dict[str, float]:
        assert self._scores is not None
        outputs = (in_dataset_order(each, self.evaluated) for each in (outcome.predictions, outcome.label_ids))
        return self._scores(EvalPrediction(*outputs))

    def outputs(self, dataset: Any) -> Any:
        """What the model gives for a data set: what it gave in the last evaluation, if that was of this set.

        Call it after `last_evaluation` or ``evaluate``; the weights of the remembered outputs are then those of now.
        """
        if self.evaluated is not dataset or self._outputs is None:
            self.predict(dataset)
        return self._outputs

    def weights_to_save(self) -> dict[str, torch.Tensor] | None:
        return self.xla_weights() if self.on_xla else super().weights_to_save()

    def leave_mixed_precision(self) -> None:
        super().leave_mixed_precision()
        self.autocast = False

    def tokens_per_second(self, metrics: dict[str, float]) -> float:
        """Tokens without padding that all processes trained on in a second, since the start or the resumption.

        Args:
            metrics: what ``train`` gave, with ``train_runtime`` in seconds.
        """
        tokens = self.state.num_input_tokens_seen - self._initial_num_input_tokens_seen
        return round(tokens / metrics["train_runtime"], 1)

    def last_evaluation(self) -> dict[str, float] | None:
        """The results of an evaluation made at this very step, if there was one: no need to make it again."""
        if self.args.load_best_model_at_end or self.args.bf16 or self.args.fp16 or self.trained_in_autocast:
            return None  # the weights are an earlier step's by now, or that evaluation was not in float32
        for entry in reversed(self.state.log_history):
            if entry["step"] == self.state.global_step and "eval_loss" in entry:
                return {key: value for key, value in entry.items() if key != "step"}
        return None
