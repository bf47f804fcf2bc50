"""Weights that fine-tuning changes, and how much: frozen and re-initialized layers, learning rates by layer, LoRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import HEAD_RATE, KEYS, LORA, LoraSettings
from bertkit.runtime.errors import PlacementError, RecipeError, importing
from bertkit.runtime.placement.resolve import Placement
from bertkit.training.warm_start.heads import classifier_of

_ADAPTER = "default"  # PEFT's name of the only adapter of a model
_LAST = 1 << 20  # place of the last layer of the head behind all others
ADAPTER_FOLDER = "adapter"
"""Folder of the adapters in a run directory, with ``model.lora.save: adapter``."""


def layers_of(model: PreTrainedModel) -> nn.ModuleList | None:
    """Returns the layers of the encoder, of which the first reads the embeddings; None where the family has no such
    list, as ALBERT, whose layers share their weights, and XLM, which has a list of each part of the layers."""
    number = model.config.num_hidden_layers
    lists = [each for each in model.base_model.modules() if isinstance(each, nn.ModuleList) and len(each) == number]
    # A list within a layer may have as many members.
    return lists[0] if lists and set(lists[0].modules()).issuperset(lists) else None


def encoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """Returns `layers_of`.

    Raises:
        RecipeError: the family has no list of layers.
    """
    layers = layers_of(model)
    if layers is None:
        keys = ", ".join(key for key in KEYS if key != "freeze_embeddings")
        raise RecipeError(
            f"model: a checkpoint of type {model.config.model_type!r} has no list of {model.config.num_hidden_layers} "
            f"layers, which {keys} and train.layer_lr_decay need; remove them"
        )
    return layers


def check_tuning(recipe: Recipe, placement: Placement) -> None:
    """Checks the tuning of a recipe as far as possible without the model.

    Raises:
        RecipeError: PEFT is not installed, or values exclude each other.
        PlacementError: the placement does not support the values.
    """
    if recipe.model.get(LORA) is not None:
        with importing(f"recipe {recipe.name}: model.lora", "lora"):
            import peft  # noqa: F401
        for key in ("freeze_layers", "freeze_embeddings", "reinit_layers"):
            if recipe.model.get(key):
                raise RecipeError(
                    f"recipe {recipe.name}: model.lora: trains no weight of the encoder's layers; remove {key}"
                )
        if placement.strategy == "fsdp":
            raise PlacementError(f"recipe {recipe.name}: model.lora: does not work with fsdp; use another placement")


def tune(model: PreTrainedModel, recipe: Recipe) -> Tuning | None:
    """Freezes weights, re-initializes layers and adds adapters; returns learning rates and adapters, None for neither.

    ``reinit_layers`` re-initializes the last layers of the encoder and the pooler (Zhang et al. 2021,
    arXiv:2006.05987), from torch's random numbers.

    Raises:
        RecipeError: the model has too few layers, no list of layers, no last layer that may have a rate of its own, or
            nothing left to train.
    """
    frozen, drawn = (int(recipe.model.get(key) or 0) for key in ("freeze_layers", "reinit_layers"))
    if frozen or drawn:
        layers = encoder_layers(model)
        for key, number in (("freeze_layers", frozen), ("reinit_layers", drawn)):
            if not 0 <= number <= len(layers):
                raise RecipeError(f"recipe {recipe.name}: model.{key}: expected 0 to {len(layers)}, got {number}")
        if frozen + drawn > len(layers):
            raise RecipeError(
                f"recipe {recipe.name}: model.freeze_layers: {frozen} frozen and {drawn} new layers are more than the "
                f"{len(layers)} of the checkpoint; new layers must be trained"
            )
        layers[:frozen].requires_grad_(False)
        pooler = getattr(model.base_model, "pooler", None)
        for module in [*layers[len(layers) - drawn :], *([pooler] if drawn and pooler is not None else [])]:
            for parameter in module.parameters():
                parameter._is_hf_initialized = False  # else transformers leaves it as it is
            module.apply(model._init_weights)
    if recipe.model.get("freeze_embeddings"):
        base = model.base_model
        (getattr(base, "embeddings", None) or base.get_input_embeddings()).requires_grad_(False)
    # An encoder without a head, as for similarity, has no loss of its pooler.
    if all("pooler" in name.split(".") for name, weight in model.named_parameters() if weight.requires_grad):
        raise RecipeError(
            f"recipe {recipe.name}: model.freeze_layers: with all layers and the embeddings frozen, this model has "
            "nothing to train; freeze fewer layers, or not the embeddings"
        )
    decay, lora = recipe.train.get("layer_lr_decay"), recipe.model.get(LORA)
    head_rate = recipe.train.get(HEAD_RATE)
    if decay not in (None, 1):
        encoder_layers(model)  # raises here, since the optimizer is created when the run directory has files
    if head_rate is not None and classifier_of(model) is None:
        raise RecipeError(
            f"recipe {recipe.name}: train.{HEAD_RATE}: {type(model).__name__} has no layer with an output for each "
            "label; remove it"
        )
    if lora is None and decay in (None, 1) and head_rate is None:
        return None
    return Tuning(model, 1.0 if decay is None else decay, None if lora is None else LoraSettings(**lora), head_rate)


class Tuning:
    """Learning rates by layer and adapters of a model in training.

    As in ELECTRA's released code, the head and the pooler have the learning rate of the run, layer i of n (from 1) that
    times ``layer_lr_decay ** (n + 2 - i)``, with one more factor for the embeddings. The last layer of the head may
    have a rate of its own.

    Low-rank adapters of the encoder's dense layers are trained together with all weights outside of the encoder's
    layers and embeddings: the head and the pooler. Checkpoints of the training hold the adapters; the model is saved
    with merged weights, so that it is an ordinary checkpoint.

    Args:
        model: the model; adapters are added to it.
        layer_lr_decay: factor of the learning rate per layer.
        lora: settings of the adapters; None for no adapters.
        head_rate: learning rate of the last layer; None for that of the run.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        layer_lr_decay: float = 1.0,
        lora: LoraSettings | None = None,
        head_rate: float | None = None,
    ):
        self.layer_lr_decay, self.lora, self.head_rate = layer_lr_decay, lora, head_rate
        self._tuner: Any = None if lora is None else add_adapters(model, lora)

    def set_learning_rates(self, optimizer: torch.optim.Optimizer, model: PreTrainedModel, wrapped: nn.Module) -> None:
        """Divides the groups of an optimizer by layer, each with its learning rate.

        Args:
            optimizer: an optimizer of the parameters of ``wrapped``.
            model: the model.
            wrapped: the model as the trainer wraps it.
        """
        if self.layer_lr_decay == 1 and self.head_rate is None:
            return
        distances = _distances(model) if self.layer_lr_decay != 1 else {name: 0 for name, _ in model.named_parameters()}
        last = classifier_of(model) if self.head_rate is not None else None
        of_last = {id(each) for each in last.parameters()} if last is not None else set()
        # The first group has the rate that the log shows: that of the run, and not that of the last layer.
        places = {name: _LAST if id(each) in of_last else distances[name] for name, each in model.named_parameters()}
        of_parameters = {
            id(parameter): places[name.removeprefix("module.")] for name, parameter in wrapped.named_parameters()
        }
        groups = []
        for place in sorted(set(places.values())):
            for group in optimizer.param_groups:
                parameters = [each for each in group["params"] if of_parameters[id(each)] == place]
                if parameters:
                    rate = self.head_rate if place == _LAST else group["lr"] * self.layer_lr_decay**place
                    groups.append({**group, "params": parameters, "lr": rate})
        optimizer.param_groups[:] = groups

    def finish(self, model: PreTrainedModel, folder: Path | None) -> None:
        """Merges the adapters into the weights, and saves them before if the settings say so.

        Args:
            model: the model.
            folder: the run directory; None in processes that write nothing.
        """
        if self._tuner is None or self.lora is None:
            return
        if self.lora.save == "adapter" and folder is not None:
            save_adapters(model, self._tuner, folder / ADAPTER_FOLDER)
        self._tuner.merge_and_unload()
        self._tuner = None


def _distances(model: PreTrainedModel) -> dict[str, int]:
    """Returns parameter name → number of factors of its learning rate."""
    layers = encoder_layers(model)
    of_layers = {
        id(parameter): len(layers) + 1 - number
        for number, layer in enumerate(layers)
        for parameter in layer.parameters()
    }
    # ELECTRA's projection of embeddings and DeBERTa's relative ones are outside of the module "embeddings"; EuroBERT's
    # module is "embed_tokens".
    named = model.base_model.named_parameters()
    embeddings = {id(each): len(layers) + 2 for name, each in named if "embed" in name}
    distances = {**embeddings, **of_layers}
    return {name: distances.get(id(parameter), 0) for name, parameter in model.named_parameters()}


def add_adapters(model: PreTrainedModel, lora: LoraSettings) -> Any:
    """Adds adapters to a model in place and freezes its layers and embeddings; returns PEFT's ``LoraModel``.

    Raises:
        RecipeError: a target is not a dense layer of the encoder's layers.
    """
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    inside = {id(module) for module in encoder_layers(model).modules()}
    dense = [name for name, each in model.named_modules() if isinstance(each, nn.Linear) and id(each) in inside]
    known = sorted({name.rpartition(".")[2] for name in dense})
    unknown = [target for target in lora.targets if target not in known]
    if unknown:
        raise RecipeError(
            f"model.lora.targets: {unknown[0]!r} is no dense layer of this encoder; expected some of {', '.join(known)}"
        )
    chosen = [name for name in dense if not lora.targets or name.rpartition(".")[2] in lora.targets]
    distances = _distances(model)
    outside = [name for name, each in model.named_parameters() if distances[name] == 0 and each.requires_grad]
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.effective_alpha,
        lora_dropout=lora.dropout,
        target_modules=chosen,
    )
    tuner = LoraModel(model, config, _ADAPTER)
    for name, parameter in model.named_parameters():
        if name in outside:
            parameter.requires_grad_(True)
    return tuner


def save_adapters(model: PreTrainedModel, tuner: Any, folder: Path) -> None:
    """Writes the adapters in PEFT's format: ``adapter_config.json`` and ``adapter_model.safetensors``."""
    from peft.utils import get_peft_model_state_dict
    from safetensors.torch import save_file

    folder.mkdir()
    config = tuner.peft_config[_ADAPTER]
    state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    weights = get_peft_model_state_dict(model, state_dict=state, adapter_name=_ADAPTER)
    config.inference_mode = True
    config.save_pretrained(str(folder))
    prefix = "base_model.model."  # PEFT's name of the model that has the adapters
    save_file(
        {prefix + name: value.contiguous() for name, value in weights.items()}, folder / "adapter_model.safetensors"
    )
