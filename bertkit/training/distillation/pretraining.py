"""Pre-training with a teacher: a checkpoint with a masked-LM head, or with the attention that a student imitates.

Dimension letters: B inputs, S tokens, P masked tokens, V vocabulary, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from bertkit.inference.networks import refuse_ensemble
from bertkit.model.checkpoint.encoders import MASKED_LM_HEADS, check_positions, model_inputs, saved_head
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.model.loss_bert import at_least_float32, mean_loss
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import DistillationSettings
from bertkit.runtime.errors import CheckpointError, PlacementError, RecipeError
from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import without_library_bars
from bertkit.training.distillation.losses import relation_divergence
from bertkit.training.distillation.teacher import (
    HIDDEN,
    OutputRecorder,
    Teacher,
    check_same_tokenizer,
    check_width,
    computing_all,
)
from bertkit.training.initialization import Initialization, of_layers
from bertkit.training.pretraining.encoders import as_pretraining_model, inputs_of, probe_batch, without_dropout
from bertkit.training.pretraining.objective import PretrainingObjective, token_logits

_PIECES = 2000  # that both tokenizers encode
_ACCENTS = " É é ñ ü ß a中b"  # a vocabulary of text without accents has no pieces with them
_LOGITS, _RELATED = "logits", ("queries", "keys", "values")
# Names of the dense layers of queries, keys and values: BERT and most others, DistilBERT, MPNet. DeBERTa-v2 passes its
# relative positions through the same layers, so the last outputs are not those of the tokens.
_PROJECTIONS = (
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"),
)


class PretrainedTeacher(Teacher):
    """A checkpoint whose outputs for the batches of a pre-training a student learns from.

    Raises:
        CheckpointError: the teacher cannot be loaded, has no masked-LM head or outputs that are not finite, or its
            tokenizer is not the student's.
        RecipeError: it does not read inputs of this length, or its sizes do not suit the student and the settings.
    """

    def __init__(self, settings: DistillationSettings, start: Initialization, max_seq_length: int):
        self.name, self.settings = settings.teacher, settings
        refuse_ensemble(self.name)
        config = load_config(self.name, any_encoder=True)
        if self.settings.objective != "minilm" and saved_head(config) not in MASKED_LM_HEADS:
            saved = (config.architectures or ["none"])[0]
            raise CheckpointError(
                f"train.distill.teacher: {self.name} has the head {saved}, not that of a masked language model, whose "
                "outputs distilbert compares; give a checkpoint with this head, or --objective minilm"
            )
        check_positions(max_seq_length, config, self.name)
        self._check_tokenizer(load_tokenizer(self.name, config=config), start)
        self.heads: int = settings.relation_heads or start.config.num_attention_heads
        self._check_sizes(config, start.config)
        relates = settings.objective == "minilm"
        if settings.teacher_layer is not None:  # the layers above it are not needed
            config = of_layers(config, range(settings.teacher_layer + 1))
        with without_library_bars():
            model, _ = load_model("BertForMaskedLM", self.name, config, new_head=relates)
        model = model.base_model if relates else as_pretraining_model(model, self.name)
        super().__init__(settings, model, self.recorder_of(model))
        self.check_finite(self.outputs(probe_batch(config)))

    def recorder_of(self, model: PreTrainedModel) -> OutputRecorder:
        """Returns a recorder of what is compared besides logits: hidden states, or queries, keys and values.

        For it, the model computes all tokens in its last layer from then on, see `computing_all`.

        Args:
            model: teacher or student, on the CPU.

        Raises:
            CheckpointError: the attention of the model has no dense layers of queries, keys and values of the tokens.
            RecipeError: the relation heads do not divide their width.
        """
        if self.settings.objective != "minilm":
            return OutputRecorder({HIDDEN: computing_all(model)} if self.settings.hidden else {})
        computing_all(model)
        fault = CheckpointError(
            f"train.distill.objective: minilm needs dense layers of queries, keys and values in each layer, which "
            f"{type(model).__name__} lacks (teacher {self.name}); give --objective distilbert"
        )
        layers = (1, model.config.num_hidden_layers)  # ALBERT's layers are one module
        dense = [(name, each) for name, each in model.named_modules() if isinstance(each, nn.Linear)]
        for names in _PROJECTIONS:
            found = [[each for name, each in dense if name.rpartition(".")[2] == wanted] for wanted in names]
            if all(len(each) in layers for each in found):
                break
        else:
            raise fault
        recorder = OutputRecorder({name: each[-1] for name, each in zip(_RELATED, found, strict=True)})
        batch = probe_batch(model.config)
        with torch.no_grad():
            without_dropout(model.base_model, {name: batch[name] for name in model_inputs(model.config)})
        for states in recorder.pop().values():
            if states.shape[:-1] != batch["input_ids"].shape:  # Longformer transposes and pads
                raise fault
            if states.shape[-1] % self.heads:
                raise RecipeError(
                    f"train.distill.relation_heads: {self.heads} heads do not divide the {states.shape[-1]} numbers of "
                    f"a query in {type(model).__name__}; give a divisor of it"
                )
        return recorder

    def outputs(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes what a student is compared with.

        Args:
            batch: inputs and labels, as `bertkit.data.corpus.examples.dataset.collate` returns them.

        Returns:
            ``logits`` (B, P, V) of the masked positions, with a weight of hidden states also ``hidden`` (B, S, H); or
            with ``minilm`` ``queries``, ``keys`` and ``values``, each (B, S, H).
        """
        inputs = inputs_of(batch)
        if self.settings.objective == "minilm":
            inputs.pop("masked_positions")
            self.run(inputs)
            return self.recorder.pop()
        return {_LOGITS: token_logits(self.run(inputs)), **self.recorder.pop()}

    def loss(
        self,
        outputs: Any,
        recorded: Mapping[str, Tensor],
        expected: Mapping[str, Tensor],
        batch: Mapping[str, Tensor],
        num_items: Tensor | int,
        num_tokens: Tensor | int,
    ) -> Tensor:
        """Computes the teacher's part of the loss, 0-d: sums over the batch, divided by the items of the global batch.

        Args:
            outputs: outputs of the student for the batch.
            recorded: the other outputs of the student, which `recorder_of` has kept.
            expected: outputs of the teacher, from `outputs`.
            batch: inputs and labels.
            num_items: number of masked tokens in the global batch.
            num_tokens: number of tokens in the global batch, without padding.
        """
        settings, mask = self.settings, batch["attention_mask"]
        if settings.objective == "minilm":
            parts = [relation_divergence(recorded[name], expected[name], mask, self.heads) for name in _RELATED]
            return mean_loss(torch.stack(parts).sum(), num_tokens)
        # Unlike in fine-tuning no output is missing, so NaN is a fault of the teacher and stays in the loss.
        logits = (token_logits(outputs), expected[_LOGITS])
        ours, theirs = (at_least_float32(each.flatten(0, 1)) / settings.temperature for each in logits)
        soft = F.cross_entropy(ours, theirs.softmax(dim=-1), reduction="none") * settings.temperature**2
        # Unused slots count as zero; selecting the others would wait for the device.
        loss = mean_loss(soft.where(batch["labels"].flatten() != IGNORE_INDEX, 0.0).sum(), num_items)
        if settings.hidden:
            ours, theirs = (at_least_float32(each[HIDDEN]) for each in (recorded, expected))
            distances = (1 - F.cosine_similarity(ours, theirs, dim=-1)).where(mask != 0, 0.0)
            loss = loss + settings.hidden * mean_loss(distances.sum(), num_tokens)
        return loss

    def freeze_unreached(self, model: PreTrainedModel, recorder: OutputRecorder) -> None:
        """Freezes the weights of a student for which the loss has no gradient, if the labels have no weight.

        These are heads and, with relations, the weights of the last layer after its attention. Otherwise DDP would wait
        for their gradients.

        Args:
            model: the student, on the CPU like the teacher.
            recorder: the result of `recorder_of` for it.
        """
        if self.settings.weight < 1:
            return
        batch = probe_batch(model.config)
        outputs = without_dropout(model, inputs_of(batch))
        loss = self.loss(outputs, recorder.pop(), self.outputs(batch), batch, 1, 1)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
            weight.requires_grad_(gradient is not None)

    def _check_tokenizer(self, own: PreTrainedTokenizerBase, start: Initialization) -> None:
        """Checks that both tokenizers give the same ids: vocabularies, special tokens, and the ids of a text.

        The text consists of pieces of the vocabulary in lower, upper and title case, accents, and a Chinese character.
        """

        def others() -> Iterator[str]:
            if own.mask_token_id != start.tokenizer.mask_token_id:
                yield f"the mask token is {own.mask_token!r} and {start.tokenizer.mask_token!r}"
            pieces = sorted(own.get_vocab())
            words = " ".join(pieces[:: len(pieces) // _PIECES + 1])
            text = f"{words} {words.upper()} {words.title()}{_ACCENTS}"
            ids = [tokenizer(text, verbose=False)["input_ids"] for tokenizer in (own, start.tokenizer)]
            if ids[0] != ids[1]:
                yield "they split a text differently, for example its upper case, accents or spaces"

        check_same_tokenizer(self.name, own, start.name, start.tokenizer, others())

    def _check_sizes(self, config: PreTrainedConfig, student: PreTrainedConfig) -> None:
        settings = self.settings
        if settings.objective == "distilbert":
            check_width(settings, config, student)
            if student.vocab_size != config.vocab_size:
                raise RecipeError(
                    f"model.vocab_size: {self.name} has logits of {config.vocab_size} tokens and the student of "
                    f"{student.vocab_size}; give --set model.vocab_size={config.vocab_size} to a new model, or "
                    "--objective minilm"
                )
            return
        if settings.teacher_layer is not None and settings.teacher_layer >= config.num_hidden_layers:
            raise RecipeError(
                f"train.distill.teacher_layer: {self.name} has the layers 0 to {config.num_hidden_layers - 1}, got "
                f"{settings.teacher_layer}"
            )
        heads, common = self.heads, gcd(config.hidden_size, student.hidden_size)
        if common % heads:
            raise RecipeError(
                f"train.distill.relation_heads: {heads} heads do not divide the hidden sizes {config.hidden_size} of "
                f"{self.name} and {student.hidden_size} of the student; give a divisor of {common}, such as "
                f"--relation-heads {gcd(common, heads)}"
            )


class TaughtPretraining(PretrainingObjective):
    """The objective of pre-training with a teacher: ``(1 - alpha) · labels + alpha · taught``.

    Evaluations and the losses that are reported separately are those of the labels.
    """

    def __init__(self, teacher: PretrainedTeacher, student: PreTrainedModel):
        self._teacher, self.teacher_bytes = teacher, teacher.nbytes
        self._recorder = teacher.recorder_of(student)
        teacher.freeze_unreached(student, self._recorder)

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the counts of `PretrainingObjective`, and the number of tokens without padding, (2,) or (3,)."""
        return torch.cat([super().count(batch), batch["attention_mask"].sum()[None]])

    def losses(self, outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> list[Tensor]:
        """Computes the losses of the labels, see `PretrainingObjective.losses`."""
        return super().losses(outputs, batch, count[:-1])

    def total(self, losses: Sequence[Tensor], outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss from the ``losses`` of the labels and the teacher's part, 0-d."""
        weight = self._teacher.settings.weight
        expected, recorded = self._teacher.outputs(batch), self._recorder.pop()
        taught = self._teacher.loss(outputs, recorded, expected, batch, count[0], count[-1])
        if weight == 1:
            return taught
        return (1 - weight) * super().total(losses, outputs, batch, count) + weight * taught

    def forget(self) -> None:
        """Frees the recorded outputs of a failed micro-batch, whose graph would keep its activations."""
        self._recorder.pop()


def pretrained_teacher(recipe: Recipe, start: Initialization, placement: Placement) -> PretrainedTeacher:
    """Returns the teacher of a recipe, loaded and checked against the student.

    Raises:
        BertkitError: as `PretrainedTeacher`; or the placement or a setting of the run does not work with a teacher.
    """
    settings = recipe.distillation
    assert settings is not None
    if placement.device == "xla" or placement.strategy == "fsdp":
        where = "XLA" if placement.device == "xla" else "fsdp"
        raise PlacementError(
            f"recipe {recipe.name}: train.distill: a teacher in pre-training is not supported on {where}; use another "
            "placement, such as ddp"
        )
    for key in ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"):
        if settings.objective == "minilm" and (recipe.train.get(key) or {}).get("use_reentrant"):
            # Its forward pass has no gradients within the layers, where queries, keys and values are.
            raise RecipeError(f"recipe {recipe.name}: train.{key}: use_reentrant does not work with minilm; remove it")
    if start.token_objective != "masked_lm":
        raise RecipeError(
            f"recipe {recipe.name}: train.distill: the student predicts the next token (model.attention: "
            "left_to_right), and a teacher the masked ones; remove one of them"
        )
    return PretrainedTeacher(settings, start, recipe.data.max_seq_length)
