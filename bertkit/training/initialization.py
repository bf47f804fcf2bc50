"""Weights, tokenizer and attention kernel that a run starts with: a checkpoint, some of its layers, or new weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from bertkit.data.corpus.settings import TokenObjective
from bertkit.model.checkpoint.encoders import check_positions, head_class
from bertkit.model.checkpoint.load import StoredConfig, load_model, load_tokenizer, read_config
from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import KEEP
from bertkit.runtime.errors import PlacementError, RecipeError
from bertkit.runtime.placement.resolve import JOINED, Placement
from bertkit.runtime.progress import say, without_library_bars
from bertkit.tasks.base import Task, task_record
from bertkit.training.pretraining.encoders import number_of_ids
from bertkit.training.tuning import encoder_layers

_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # fields of the families of encoders


@dataclass(frozen=True)
class Initialization:
    """Source of the weights of a run: a checkpoint, some of its layers, or torch's generator.

    Attributes:
        checkpoint: folder or Hub id; None for new weights.
        tokenizer: tokenizer of the checkpoint; for new weights that of the teacher or of the corpus.
        config: configuration of the model; in fine-tuning without its labels before `of_task`.
        head: a class of heads or its name, see `bertkit.model.checkpoint.encoders.head_class`.
        layers: layers of the checkpoint's encoder to keep, from 0; None for all.
        loaded: configuration to load the checkpoint with, if it is not ``config``.
        stored: in fine-tuning, the source of ``config``.
        labels: names of the classes of a new head, in the order of their ids; None for heads without.
    """

    checkpoint: str | None
    tokenizer: PreTrainedTokenizerFast
    config: PreTrainedConfig
    head: Any = None
    layers: Sequence[int] | None = None
    loaded: PreTrainedConfig | None = None
    stored: StoredConfig | None = None
    labels: Sequence[str] | None = None

    @property
    def name(self) -> str:
        """Name of the source in messages."""
        return self.checkpoint or "the new model"

    @property
    def reaches_all_weights(self) -> bool:
        """Returns whether the loss is known to have a gradient for every weight: BERT's; others are not examined."""
        return issubclass(head_class(self.head, self.config, self.name), BertPreTrainedModel)

    @property
    def token_objective(self) -> TokenObjective:
        """Returns the objective of the tokens in pre-training: masked LM needs both directions."""
        return "next_token" if getattr(self.config, "attention", None) == "left_to_right" else "masked_lm"

    def of_task(self, task: Task, changes: Mapping[str, Any]) -> Initialization:
        """Returns the initialization of a model with the head of a task, whose configuration has some changes.

        Raises:
            RecipeError: a changed field does not exist, or is impossible for this checkpoint.
        """
        assert self.stored is not None
        fields = {**task.config(), **changes, "bertkit_task": task_record(task)}
        labels = fields.get("id2label")
        return replace(
            self, head=task.head, config=self.stored.build(fields), labels=list(labels.values()) if labels else None
        )

    def model(self) -> tuple[PreTrainedModel, list[str]]:
        """Loads or builds the model, in float32; new weights are drawn from torch's generator.

        Returns:
            The model, and the names of the weights that are not from the checkpoint.

        Raises:
            CheckpointError: as `load_model`.
            RecipeError: the checkpoint has no such layers, or the recipe has a value that they exclude; or new weights
                have impossible sizes.
        """
        if self.checkpoint is None:
            kind = head_class(self.head, self.config, self.name)
            try:
                network = kind(self.config)
            except Exception as error:  # some classes of transformers check sizes here, in many ways
                raise RecipeError(f"model: {kind.__name__} cannot be built: {error}") from error
            return network, [name for name, _ in network.named_parameters()]
        with without_library_bars():
            network, new = load_model(
                self.head, self.checkpoint, self.loaded or self.config, new_head=True, labels=self.labels
            )
        return (network if self.layers is None else with_layers(network, self.layers)), new


def finetuning_start(recipe: Recipe) -> Initialization:
    """Loads the tokenizer and reads the configuration that a fine-tuning recipe starts from.

    Raises:
        CheckpointError: the checkpoint cannot be loaded.
        RecipeError: the recipe names no checkpoint, inputs longer than the model reads, or an impossible configuration.
    """
    source, distilled = recipe.model.get("name_or_path"), recipe.distillation
    if source is None:
        if distilled is None:
            raise RecipeError(f"recipe {recipe.name}: no checkpoint to start from; give --model or model.name_or_path")
        tokenizer = load_tokenizer(distilled.teacher)
        fields = {"vocab_size": number_of_ids(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        stored = StoredConfig("the new model", {**fields, "model_type": BertConfig.model_type}, BertConfig)
        config = stored.build(recipe.config_changes)
        check_positions(recipe.data.max_seq_length, config, stored.name_or_path)
        return Initialization(None, tokenizer, config, stored=stored)
    stored = read_config(source, any_encoder=True)
    config = stored.build(recipe.config_changes)
    check_positions(recipe.data.max_seq_length, config, source)
    tokenizer = load_tokenizer(source, config=config)
    return Initialization(source, tokenizer, config, layers=kept_layers(recipe, config), stored=stored)


def set_attention(model: PreTrainedModel, recipe: Recipe, placement: Placement) -> None:
    """Sets the attention kernel if the placement names one; joined sequences only on a device that can compute them.

    Raises:
        PlacementError: the kernel does not exist, is not installed, or cannot compute this run.
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
        others = {"train.torch_compile": recipe.train.get("torch_compile"), "a teacher": recipe.has_teacher}
        others["placement.strategy=fsdp"] = placement.strategy == "fsdp"
        if excluded := [name for name, is_on in others.items() if is_on]:
            raise PlacementError(f"{what} does not work with {excluded[0]}; remove one of both")
    if ("flash" in implementation or implementation == JOINED) and placement.mixed_precision == "no":
        raise PlacementError(f"{what} needs half precision; set placement.mixed_precision=bf16, or use sdpa")
    if implementation.startswith("paged|"):
        raise PlacementError(f"{what} is for generated text; use {implementation.removeprefix('paged|')}")
    if implementation.startswith("flex"):
        if placement.device == "cpu":
            raise PlacementError(f"{what} has no gradients on CPUs; use sdpa")
        if dropout := next((name for name in _ATTENTION_DROPOUT if getattr(model.config, name, 0)), None):
            raise PlacementError(f"{what} has no dropout; set model.{dropout}=0, or use sdpa")
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        raise PlacementError(f"{what} is not available: {error}") from error


def kept_layers(recipe: Recipe, config: PreTrainedConfig) -> Sequence[int] | None:
    """Returns the layers of the checkpoint that a recipe keeps, from 0; ``None`` for all.

    Raises:
        RecipeError: the checkpoint has no such layers, or the recipe also sets their number.
    """
    layers: Sequence[int] | None = recipe.model.get(KEEP)
    if layers is not None:
        if recipe.model.get("num_hidden_layers") is not None:
            raise RecipeError(
                f"recipe {recipe.name}: model.keep_layers sets the number of layers; remove num_hidden_layers"
            )
        _check_layers(layers, config.num_hidden_layers)
    return layers


def with_layers(model: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """Builds a model of some of the encoder's layers, with their weights and all weights outside of the layers.

    The result is what loading the saved model gives; values of the configuration that are given for each layer, such as
    the kind of attention, are those of the chosen layers.

    Args:
        model: a model of any family with a list of layers.
        layers: numbers of the layers to keep, from 0, in ascending order.

    Raises:
        RecipeError: the model has no list of layers or no such layers, or its layers differ, so that these ones do not
            fit in their new places.
    """
    found = encoder_layers(model)
    _check_layers(layers, model.config.num_hidden_layers)
    if getattr(model.config, "feature_layers", None) is not None:
        raise RecipeError("model.keep_layers: does not work with model.feature_layers; remove one of them")
    prefix = next(name for name, module in model.named_modules() if module is found) + "."
    places = {f"{prefix}{old}.": f"{prefix}{new}." for new, old in enumerate(layers)}
    kept: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        if not name.startswith(prefix):
            kept[name] = value
            continue
        layer = f"{prefix}{name.removeprefix(prefix).partition('.')[0]}."
        if layer in places:
            kept[places[layer] + name.removeprefix(layer)] = value
    smaller: PreTrainedModel = type(model)(of_layers(model.config, layers))
    try:
        smaller.load_state_dict(kept)
    except RuntimeError as error:
        raise RecipeError(
            f"model.keep_layers: the layers of {type(model).__name__} differ, so layers {', '.join(map(str, layers))} "
            f"do not make a model; keep the first layer: {str(error).splitlines()[-1].strip()[:200]}"
        ) from error
    return smaller


def _check_layers(layers: Sequence[int], number: int) -> None:
    """Checks numbers of layers to keep of an encoder with ``number`` layers."""
    if not layers or list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < number:
        raise RecipeError(
            f"model.keep_layers: expected numbers from 0 to {number - 1} in ascending order, got "
            f"{', '.join(map(str, layers)) or 'none'}"
        )


def of_layers(config: PreTrainedConfig, layers: Sequence[int]) -> PreTrainedConfig:
    """Returns the configuration of a model with only these layers."""
    number = config.num_hidden_layers
    changed = copy.deepcopy(config)
    for name in ("layer_types", "attention_window"):  # the kinds of attention, and the windows of Longformer
        values = getattr(config, name, None)
        if isinstance(values, list) and len(values) == number:
            setattr(changed, name, [values[layer] for layer in layers])
    changed.num_hidden_layers = len(layers)
    return changed
