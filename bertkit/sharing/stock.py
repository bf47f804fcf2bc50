"""The stock form of a checkpoint: BERT as ``model_type: bert``, every other family unchanged.

bertkit's parameter names are those of the released BERT, so no weights are converted: they get the
configuration that transformers' own classes read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertkit.checkpoint.encoders import BERT
from bertkit.checkpoint.load import load_tokenizer, save_tokenizer
from bertkit.errors import CheckpointError
from bertkit.sharing.same_outputs import Comparison, Run, compare, comparison_inputs

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

TOLERANCE = 1e-4
"""Largest difference of logits or hidden states in float32: the same operations, but not always the same kernels."""

# Fields that describe our classes, or the version that saved them, and not the network.
_OF_OUR_FORM = ("auto_map", "model_type", "architectures", "transformers_version", "attention")


def stock_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Returns transformers' own configuration of the same network.

    Fields that transformers does not have are kept as extra fields, such as ``bertkit_task``, the task that a
    checkpoint was fine-tuned for, which `bertkit predict` and `evaluate` read.
    """
    from transformers import BertConfig

    if config.model_type not in BERT:
        return config
    return BertConfig(**{name: value for name, value in config.to_dict().items() if name not in _OF_OUR_FORM})


def write_stock(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, name: str
) -> tuple[str, Comparison]:
    """Writes a checkpoint in stock form, loads it again, and compares the outputs on texts.

    Args:
        model: a model of any family, on the CPU.
        tokenizer: its tokenizer.
        folder: the folder to write to.
        name: name of the checkpoint in messages.

    Returns:
        The name of the transformers class that loads it, and how close the outputs are.

    Raises:
        CheckpointError: the outputs differ, the weights do not fit transformers' class, or the tokenizer changes when
            it is saved and loaded.
    """
    import transformers

    stock_class = getattr(transformers, type(model).__name__, None)
    if getattr(model.config, "attention", "bidirectional") != "bidirectional":
        raise CheckpointError(
            f"{name}: stock BERT has no encoder with {model.config.attention} attention; the folder itself loads in "
            "transformers with trust_remote_code=True, or export it with --to onnx"
        )
    if stock_class is None:
        raise CheckpointError(
            f"{name}: {type(model).__name__} is code of the checkpoint, without a form of transformers; export it with "
            "--to onnx"
        )
    stock = stock_class(stock_config(model.config))
    report = stock.load_state_dict(model.state_dict(), strict=False)
    if report.missing_keys or report.unexpected_keys:
        keys = ", ".join([*report.missing_keys, *report.unexpected_keys])
        raise CheckpointError(f"{name}: {stock_class.__name__} of transformers does not have the same weights: {keys}")
    stock.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)

    batches = comparison_inputs(tokenizer, model)
    again = comparison_inputs(load_tokenizer(folder), model)
    if any(not np.array_equal(one[key], two[key]) for one, two in zip(batches, again, strict=True) for key in one):
        raise CheckpointError(f"{name}: its tokenizer changes when it is saved and loaded")
    loaded = stock_class.from_pretrained(folder, trust_remote_code=False)
    return stock_class.__name__, compare(torch_run(model), torch_run(loaded), batches, TOLERANCE, name)


def torch_run(model: PreTrainedModel) -> Run:
    """Returns a function for `compare` that runs a torch model without dropout."""
    import torch

    def outputs(batch: Mapping[str, Tensor]) -> list[np.ndarray]:
        with torch.inference_mode():
            return [values.numpy() for values in model(**batch).values()]

    model.eval()
    return outputs
