"""Pre-training of transformers' encoders: their own classes, with the inputs and outputs of bertkit's BERT heads.

The head of a masked language model is by far its largest matrix product, and only the masked tokens, a seventh of all,
have a loss. Heads compute each position on its own, so a hook selects the masked positions where the encoder returns
its states, and the head computes no others. Losses are means over the global batch, as those of BERT's heads;
transformers' own are means over the micro-batch.

B is the batch size, S the number of tokens, P of masked tokens, V of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import MaskedLMOutput

from bertkit.checkpoint.encoders import check_encoder, longest_input, model_inputs
from bertkit.checkpoint.pretraining import MODEL_TYPE, field_types, new_architecture
from bertkit.errors import CheckpointError, RecipeError
from bertkit.model.loss_bert import mean_cross_entropy
from bertkit.model.modeling_bert import BertForPreTrainingOutput, BertPreTrainedModel

_PAIR_LOGITS = ("seq_relationship_logits", "sop_logits")  # names of different families
_TOKENS_OF_CHECK = 4


class _Selection:
    """Forward hook of an encoder that selects some positions of its states.

    Attributes:
        positions: (B, P) int64; None for all positions.
    """

    positions: Tensor | None = None

    def __call__(self, encoder: Any, inputs: Any, outputs: Any) -> Any:
        if self.positions is None:
            return outputs
        states = outputs[0]
        chosen = states.gather(1, self.positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (B, P, H)
        if isinstance(outputs, tuple):
            return (chosen, *outputs[1:])
        outputs[next(iter(outputs))] = chosen
        return outputs


class PretrainingHead:
    """Base class, in front of a class of transformers, with the ``forward`` of BERT's pre-training heads."""

    accepts_loss_kwargs = True  # transformers' Trainer then passes the number of items in the global batch
    config: Any
    selection: _Selection

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked_positions: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        num_pairs_in_batch: Tensor | int | None = None,
    ) -> MaskedLMOutput | BertForPreTrainingOutput:
        """Predicts masked tokens and pairs; arguments and losses as in `bertkit.BertForPreTraining`.

        Logits are (B, P, V) with ``masked_positions``, else (B, S, V), and ``labels`` have the shape of their rows.
        """
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        self.selection.positions = masked_positions
        try:
            outputs = super().forward(**{name: given[name] for name in model_inputs(self.config)})  # type: ignore[misc]
        finally:
            self.selection.positions = None
        logits = token_logits(outputs)
        loss = None if labels is None else mean_cross_entropy(logits, labels, num_items_in_batch)
        pairs = next((outputs[name] for name in _PAIR_LOGITS if name in outputs), None)
        if pairs is None:
            return MaskedLMOutput(loss=loss, logits=logits)
        pair_loss = None
        if next_sentence_label is not None:
            pair_loss = mean_cross_entropy(pairs, next_sentence_label, num_pairs_in_batch)
        losses = [each for each in (loss, pair_loss) if each is not None]
        return BertForPreTrainingOutput(
            loss=sum(losses[1:], start=losses[0]) if losses else None,
            masked_lm_loss=loss,
            next_sentence_loss=pair_loss,
            prediction_logits=logits,
            seq_relationship_logits=pairs,
        )


def token_logits(outputs: Any) -> Tensor:
    """Returns the logits over the vocabulary from the outputs of a pre-training model, (B, P, V) or (B, S, V)."""
    logits: Tensor = outputs["prediction_logits" if "prediction_logits" in outputs else "logits"]
    return logits


def as_pretraining_model(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Gives a model of transformers the ``forward`` of `PretrainingHead`, in place; BERT is returned as it is.

    The class keeps its name, so checkpoints are those of the original class.

    Args:
        model: an encoder with a masked-LM head, and maybe one for sentence pairs.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: the head does not compute each position on its own.
    """
    if isinstance(model, BertPreTrainedModel):
        return model
    original = type(model)
    model.__class__ = type(original.__name__, (PretrainingHead, original), {"__module__": original.__module__})
    model.selection = _Selection()
    model.base_model.register_forward_hook(model.selection)
    if not _selects(model):
        raise CheckpointError(
            f"{name}: the head of {original.__name__} does not compute each position on its own, which pre-training "
            "needs; give another encoder"
        )
    return model


def _selects(model: PreTrainedModel) -> bool:
    """Returns whether the logits at selected positions are those of the whole sequence at these positions."""
    batch = few_tokens(model.config)
    inputs, positions = {name: batch[name] for name in ("input_ids", "attention_mask")}, batch["masked_positions"]
    try:
        with torch.no_grad():
            wanted, chosen = (without_dropout(model, {**inputs, "masked_positions": at}) for at in (None, positions))
    except (RuntimeError, IndexError):
        return False
    expected, found = token_logits(wanted)[:, positions[0]], token_logits(chosen)
    return expected.shape == found.shape and torch.allclose(expected, found, rtol=1e-3, atol=1e-4, equal_nan=True)


def reaches_all_weights(model: PreTrainedModel) -> bool:
    """Returns whether the loss has a gradient for every weight, which DDP assumes unless told otherwise.

    Takes memory for one gradient of each weight.
    """
    loss = without_dropout(model, {**few_tokens(model.config), "next_sentence_label": torch.tensor([0])}).loss
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return all(gradient is not None for gradient in torch.autograd.grad(loss, weights, allow_unused=True))


def few_tokens(config: PreTrainedConfig) -> dict[str, Tensor]:
    """Returns a batch of one short input with two masked tokens, on the CPU."""
    ids, positions = torch.arange(_TOKENS_OF_CHECK)[None] % config.vocab_size, [[_TOKENS_OF_CHECK - 1, 1]]
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "masked_positions": torch.tensor(positions),
        "labels": torch.tensor(positions),
    }


def without_dropout(model: PreTrainedModel, batch: Mapping[str, Tensor | None]) -> Any:
    """Computes the outputs of a model for a batch in evaluation mode; the mode of the model does not change."""
    was_training = model.training
    model.eval()
    try:
        return model(**batch)
    finally:
        model.train(was_training)


def longest_of_new(model: dict[str, Any]) -> int:
    """Returns the maximum number of tokens of an input of new weights, from the ``model`` block of a recipe."""
    configuration = new_architecture(model.get(MODEL_TYPE))
    fields = {key: value for key, value in model.items() if key not in (MODEL_TYPE, "name_or_path")}
    return longest_input(configuration(**fields))


def new_config(model: dict[str, Any], recipe_name: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
    """Builds the configuration of new weights.

    The vocabulary size is the tokenizer's, or a larger one from the recipe; the ids of special tokens are the
    tokenizer's.

    Args:
        model: ``model`` block of the recipe.
        recipe_name: name of the recipe, for error messages.
        tokenizer: tokenizer of the run.

    Raises:
        RecipeError: a field is impossible, or contradicts the tokenizer.
        CheckpointError: the architecture is no encoder.
    """
    configuration = new_architecture(model.get(MODEL_TYPE))
    own = field_types(configuration)
    ids = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": _first_known(tokenizer.bos_token_id, tokenizer.cls_token_id),
        "eos_token_id": _first_known(tokenizer.eos_token_id, tokenizer.sep_token_id),
        "cls_token_id": tokenizer.cls_token_id,
        "sep_token_id": tokenizer.sep_token_id,
    }
    ids = {name: number for name, number in ids.items() if name in own}
    changes = {key: value for key, value in model.items() if key != MODEL_TYPE}
    for name, number in ids.items():
        if changes.get(name, number) != number:
            raise RecipeError(f"model.{name}: the tokenizer sets it to {number}; remove it")
    size = max(tokenizer.get_vocab().values()) + 1  # gaps included
    try:
        config = configuration(**{"vocab_size": size, **changes, **ids})
    except Exception as error:  # the classes of transformers check values in many ways
        raise RecipeError(f"recipe {recipe_name}: model: {error.__cause__ or error}") from error
    check_encoder(config, f"recipe {recipe_name}: model")
    return config


def _first_known(*ids: int | None) -> int | None:
    return next((number for number in ids if number is not None), None)
