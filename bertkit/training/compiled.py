"""Layers of an encoder compiled by ``torch.compile``: one compilation for all layers, and one for each of few lengths.

A compiled layer starts fewer kernels, and a compilation takes seconds to minutes. Layers have the same code, so that a
graph of one serves all, except for the last one where it computes the tokens alone that are read. Graphs are for fixed
shapes; inputs are padded to a length of `bertkit.training.batches.compiled_length`. All else runs as before:
embeddings, heads and losses, evaluations, and batches that are smaller than the others, as the last one of an epoch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import TorchDynamoPlugin
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainingArguments

from bertkit.runtime.reading.hub import cache_folder
from bertkit.training.tuning import layers_of

_GRAPHS = 128
"""Most graphs of a layer, after which torch computes it without the compiler; its default is 8. Inputs of up to 512
tokens have 14 lengths, each for a layer and for the last one, with a mask and without: 56; the others are spare."""


def check_compiler(arguments: TrainingArguments) -> None:
    """Compiles a small function for the device of a run.

    Raises:
        ValueError: no compiler works; the message has the reason.
    """
    with warnings.catch_warnings():  # torch's compiler uses deprecated functions of torch
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled = _compiled(torch.relu, arguments)
        try:
            compiled(torch.ones(2, device=arguments.device))
        except Exception as error:  # of the compiler, of what it calls, or of a system without one
            reason = str(error).partition("\n")[0]
            raise ValueError(f"no compiler works here, remove it: {reason}") from error


def _compiled(function: Callable[..., Any], arguments: TrainingArguments) -> Callable[..., Any]:
    """Returns a compiled function; sets the folder of its kernels for this process, unless the user has."""
    # Else a folder for temporary files would have the kernels.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    backend, mode = arguments.torch_compile_backend, arguments.torch_compile_mode
    options = TorchDynamoPlugin(backend=backend, mode=mode, dynamic=False).to_kwargs()
    compiled: Callable[..., Any] = torch.compile(function, **options)
    return compiled


class _CompiledForward:
    """The forward pass of a layer: in training, inputs of whole batches are computed by a compiled one.

    Args:
        layer: the layer, whose ``forward`` it becomes.
        arguments: of the training. An input has a row, or several, for each example of a batch.
    """

    def __init__(self, layer: nn.Module, arguments: TrainingArguments):
        self._layer, self._batch_size, self._forward = layer, arguments.train_batch_size, layer.forward
        self._compiled = _compiled(layer.forward, arguments)

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        is_whole = self._layer.training and hidden_states.shape[0] % self._batch_size == 0
        return (self._compiled if is_whole else self._forward)(hidden_states, *args, **kwargs)


@contextmanager
def compiled_layers(model: PreTrainedModel, arguments: TrainingArguments) -> Iterator[None]:
    """Context in which the layers of an encoder are compiled; its weights, their names and its hooks stay.

    Compiled kernels are kept for later runs: in ``TORCHINDUCTOR_CACHE_DIR``, or in the cache folder of bertkit.

    Args:
        model: the model. A family without a list of layers stays as it is.
        arguments: of the training: batch size, compiler and its mode.
    """
    layers = list(layers_of(model) or ())
    for layer in layers:
        layer.forward = _CompiledForward(layer, arguments)
    try:
        with torch._dynamo.config.patch(recompile_limit=_GRAPHS):
            yield
    finally:
        for layer in layers:
            del layer.forward
