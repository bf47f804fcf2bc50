"""Training with sharded weights (FSDP), with the checkpoints of a single process.

transformers and accelerate write checkpoints of sharded models in a separate format, which only sharded models load.
Here checkpoint files do not depend on the placement, so that a run can be resumed in any other one.

In mixed precision the processes exchange weights in bf16 and sum gradients in float32; each keeps its shards of weights
and optimizer states in float32. Evaluations use float32 weights, as without FSDP.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType
from accelerate.utils import FullyShardedDataParallelPlugin
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from torch.func import functional_call
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME
from transformers.utils import SAFE_WEIGHTS_NAME

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.processes import failing_together
from bertkit.training.trainer import BertkitTrainer

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


class ShardedTrainer(BertkitTrainer):
    """BertkitTrainer for FSDP with full checkpoints.

    Raises:
        PlacementError: the layer classes of the model are unknown.
    """

    def __init__(self, *, model: PreTrainedModel, args: TrainingArguments, **kwargs: Any):
        # Heads return views, such as the start logits; they are not modified in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        args.fsdp_plugin_args["transformer_cls_names_to_wrap"] = ",".join(layer_classes(model))
        # accelerate's policy would be that of `args.mixed_precision`. Weights are gathered in the dtype of autocast.
        policy, precision = MixedPrecisionPolicy(), kwargs.get("precision")
        if precision is not None:
            policy = MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=torch.float32)
        args.fsdp_plugin_args["mixed_precision_policy"] = policy
        self._evaluated_model: PreTrainedModel | None = None
        super().__init__(model=model, args=args, **kwargs)

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        if not self.is_fsdp_enabled:
            # accelerate enables FSDP on accelerators only, without an error; torch supports it on CPUs too.
            state = self.accelerator.state
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            state.distributed_type = DistributedType.FSDP
            self.is_fsdp_enabled: bool = True

    def _prepare_for_training(self, *args: Any) -> Any:
        if self._precision is not None:
            self._evaluated_model = without_weights(self.model)
        # accelerate would make a group of its own of the embeddings and the head that they are tied to. BERT's head has
        # a bias that is tied as well, beyond that group, which torch refuses: so all of them stay in the outermost one.
        hidden = ("get_input_embeddings", "get_output_embeddings")
        for name in hidden:
            setattr(self.model, name, lambda: None)
        try:
            return super()._prepare_for_training(*args)
        finally:
            for name in hidden:
                delattr(self.model, name)

    def _wrap_model(self, model: torch.nn.Module, training: bool = True, dataloader: Any = None) -> torch.nn.Module:
        """Returns the model of a training or an evaluation; for the latter with float32 weights if the sharded model
        gathers bf16, since the policy of FSDP is fixed."""
        if training or self._evaluated_model is None:
            wrapped: torch.nn.Module = super()._wrap_model(model, training, dataloader)
            return wrapped
        with torch.no_grad():
            values = [each.full_tensor() if isinstance(each, DTensor) else each for each in _tensors(model).values()]
        return _WithWeights(self._evaluated_model, values)

    def own_weights(self) -> list[torch.Tensor]:
        return [each.to_local() if isinstance(each, DTensor) else each for each in self.model.parameters()]

    def _write_weights(self, folder: Path) -> None:
        weights = self._whole_weights()
        with own_class(self.model):
            self.model.save_pretrained(folder, is_main_process=self.args.should_save, state_dict=weights)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Saves a checkpoint's model with all weights in one file; a collective call."""
        weights = self._whole_weights()
        with failing_together(), own_class(self.model):
            self._save(output_dir, weights)

    def _whole_weights(self) -> dict[str, Any]:
        """Returns the full weights in the first process; tied weights occur once, as without FSDP."""
        whole = get_model_state_dict(self.model, options=_WHOLE)
        return {name: values for name, values in whole.items() if name not in self.model.all_tied_weights_keys}

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        whole = get_optimizer_state_dict(self.model, self.optimizer, options=_WHOLE)
        with failing_together():
            if self.args.should_save:
                torch.save(numbered(whole), Path(output_dir) / OPTIMIZER_NAME)
                torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        weights: dict[str, Any] = load_file(Path(resume_from_checkpoint) / SAFE_WEIGHTS_NAME)
        # Tied weights are saved once.
        options = StateDictOptions(full_state_dict=True, strict=False)
        set_model_state_dict(self.model, weights, options=options)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        # Checkpointed layers are inside a wrapper module whose name is not part of the states.
        parameters = self.model.named_parameters()
        names = {id(parameter): name.replace("_checkpoint_wrapped_module.", "") for name, parameter in parameters}
        order = [names[id(parameter)] for group in self.optimizer.param_groups for parameter in group["params"]]
        state = torch.load(Path(checkpoint) / OPTIMIZER_NAME, map_location="cpu", weights_only=True)
        set_optimizer_state_dict(self.model, self.optimizer, named(state, order), options=_WHOLE)
        self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint) / SCHEDULER_NAME, weights_only=True))


def without_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Returns a copy of a model that shares its configuration, with parameters and buffers on the meta device."""
    known: dict[int, Any] = {id(each): each.to("meta") for each in model.buffers()}
    known |= {id(each): torch.nn.Parameter(each.detach().to("meta")) for each in model.parameters()}
    known[id(model.config)] = model.config  # the attention kernel of a run may change
    return copy.deepcopy(model, known)


def _tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers by name; tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


class _WithWeights(torch.nn.Module):
    """Model on the meta device, called with other tensors in place of its own.

    They are freed with this module, after an evaluation.

    Args:
        model: from `without_weights`.
        values: parameters and buffers in the order of those of the model.
    """

    def __init__(self, model: torch.nn.Module, values: list[torch.Tensor]):
        super().__init__()
        self.model = model
        self._values = dict(zip(_tensors(model), values, strict=True))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs of the model."""
        return functional_call(self.model, self._values, args, kwargs)


@contextmanager
def own_class(model: PreTrainedModel) -> Iterator[None]:
    """Context in which a model has its original class instead of FSDP's derived class, which cannot be loaded
    elsewhere."""
    derived = type(model)
    if issubclass(derived, FSDPModule):
        model.__class__ = next(base for base in derived.__bases__ if issubclass(base, PreTrainedModel))
    try:
        yield
    finally:
        model.__class__ = derived


def layer_classes(model: PreTrainedModel) -> list[str]:
    """Returns the names of a model's layer classes, which are sharded one by one; sorted.

    These are the modules that transformers does not split across devices, without the embeddings: a head may be tied to
    them and has to be in the same group.

    Raises:
        PlacementError: the model declares none of its modules.
    """
    there = {type(module).__name__ for module in model.modules()}
    names = sorted(name for name in there & set(model._no_split_modules or ()) if not name.endswith("Embeddings"))
    if not names:
        raise PlacementError(f"placement.strategy: the layers of {type(model).__name__} are unknown to fsdp; use ddp")
    return names


def numbered(state: Mapping[str, Any]) -> dict[str, Any]:
    """Converts an optimizer state keyed by parameter names to one keyed by parameter numbers.

    >>> numbered({"state": {"b": 1, "a": 2}, "param_groups": [{"lr": 3, "params": ["a"]}, {"lr": 4, "params": ["b"]}]})
    {'state': {1: 1, 0: 2}, 'param_groups': [{'lr': 3, 'params': [0]}, {'lr': 4, 'params': [1]}]}
    """
    order = [name for group in state["param_groups"] for name in group["params"]]
    numbers = {name: number for number, name in enumerate(order)}
    return _renamed(state, numbers)


def named(state: Mapping[str, Any], order: list[str]) -> dict[str, Any]:
    """Inverts `numbered`; ``order`` holds the names of parameters 0, 1, ….

    >>> named({"state": {1: 1, 0: 2}, "param_groups": [{"lr": 3, "params": [0, 1]}]}, ["a", "b"])
    {'state': {'b': 1, 'a': 2}, 'param_groups': [{'lr': 3, 'params': ['a', 'b']}]}
    """
    return _renamed(state, dict(enumerate(order)))


def _renamed(state: Mapping[str, Any], names: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "state": {names[key]: value for key, value in state["state"].items()},
        "param_groups": [
            {**group, "params": [names[key] for key in group["params"]]} for group in state["param_groups"]
        ],
    }
