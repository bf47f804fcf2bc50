"""Pre-training of transformers' encoders: their own classes, which also take ``masked_positions``, as bertkit's BERT.

The head of a masked language model is by far its largest matrix product, and only the masked tokens, a seventh of all,
have a loss. Heads compute each position on its own, so hooks select the masked positions where the encoder returns
its states, and the head computes no others.

B is the batch size, S the number of tokens, P of masked tokens, V of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from bertkit.model.checkpoint.encoders import (
    MODEL_TYPE,
    check_encoder,
    field_types,
    model_inputs,
    new_architecture,
)
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.training.pretraining.objective import PretrainingObjective, scores_pairs, token_logits

_TOKENS_OF_CHECK = 4


class _Selection:
    """Hooks of a model of transformers that select the positions for its head.

    Args:
        inputs: the arguments that the model takes; others of a batch are left out.
    """

    def __init__(self, inputs: Sequence[str]):
        self.inputs = inputs
        self.positions: Tensor | None = None  # (B, P) int64; None for all

    def begin(self, model: Any, args: Any, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Takes ``masked_positions`` out of the arguments of a forward pass."""
        self.positions = batch.get("masked_positions")
        return args, {name: values for name, values in batch.items() if name in self.inputs}

    def select(self, encoder: Any, inputs: Any, outputs: Any) -> Any:
        """Selects the positions of the states that the encoder returns, (B, S, H) → (B, P, H)."""
        if self.positions is None:
            return outputs
        states = outputs[0]
        selected = states.gather(1, self.positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        if isinstance(outputs, tuple):
            return (selected, *outputs[1:])
        outputs[next(iter(outputs))] = selected
        return outputs


def as_pretraining_model(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Makes a model of transformers take ``masked_positions``, (B, P), in place; BERT is returned as it is.

    Args:
        model: an encoder with a masked-LM head, and maybe one for sentence pairs.
        name: name of the checkpoint, for error messages.

    Raises:
        CheckpointError: the head does not compute each position on its own.
    """
    if isinstance(model, BertPreTrainedModel):
        return model
    selection = _Selection(model_inputs(model.config))
    model.register_forward_pre_hook(selection.begin, with_kwargs=True)
    model.base_model.register_forward_hook(selection.select)
    if not _selects(model):
        raise CheckpointError(
            f"{name}: the head of {type(model).__name__} does not compute each position on its own, which pre-training "
            "needs; give another encoder"
        )
    return model


def _selects(model: PreTrainedModel) -> bool:
    """Returns whether the logits at selected positions are those of the whole sequence at these positions."""
    batch = probe_batch(model.config)
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
    batch, objective = probe_batch(model.config), PretrainingObjective()
    outputs = without_dropout(model, inputs_of(batch))
    if scores_pairs(outputs):
        batch["next_sentence_label"] = torch.tensor([0])
    loss = objective.loss(outputs, batch, objective.count(batch))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return all(gradient is not None for gradient in torch.autograd.grad(loss, weights, allow_unused=True))


def probe_batch(config: PreTrainedConfig) -> dict[str, Tensor]:
    """Returns a batch of one short input with two masked tokens, on the CPU."""
    ids, positions = torch.arange(_TOKENS_OF_CHECK)[None] % config.vocab_size, [[_TOKENS_OF_CHECK - 1, 1]]
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "masked_positions": torch.tensor(positions),
        "labels": torch.tensor(positions),
    }


def inputs_of(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns a batch without its labels."""
    return {name: values for name, values in batch.items() if name not in PretrainingObjective.label_columns}


def without_dropout(model: PreTrainedModel, batch: Mapping[str, Tensor | None]) -> Any:
    """Computes the outputs of a model for a batch in evaluation mode; the mode of the model does not change."""
    was_training = model.training
    model.eval()
    try:
        return model(**batch)
    finally:
        model.train(was_training)


def new_config(model: dict[str, Any], recipe_name: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
    """Builds the configuration of new weights.

    The vocabulary size is the tokenizer's, or a larger one from the recipe; the ids of special tokens are the
    tokenizer's.

    Args:
        model: ``model`` block of the recipe.
        recipe_name: name of the recipe, for error messages.
        tokenizer: tokenizer of the run.

    Raises:
        RecipeError: there is no such architecture, or a field is impossible, or contradicts the tokenizer.
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
    try:
        config = configuration(**{"vocab_size": number_of_ids(tokenizer), **changes, **ids})
    except Exception as error:  # the classes of transformers check values in many ways
        raise RecipeError(f"recipe {recipe_name}: model: {error.__cause__ or error}") from error
    check_encoder(config, f"recipe {recipe_name}: model")
    return config


def number_of_ids(tokenizer: PreTrainedTokenizerFast) -> int:
    """Returns the largest id of a tokenizer plus one, gaps included: the least size of a vocabulary."""
    return max(tokenizer.get_vocab().values()) + 1


def _first_known(*ids: int | None) -> int | None:
    return next((number for number in ids if number is not None), None)
