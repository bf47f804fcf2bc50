"""A checkpoint as plain transformers knows it: BERT as ``model_type: bert``, every other family as it is.

bertkit's parameter names are those of the released BERT, so nothing is converted: the same weights get the
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
"""Between logits or hidden states in float32: the same operations, but not always by the same kernels."""

# What describes our classes, or the version that saved them, and not the network.
_OF_OUR_FORM = ("auto_map", "model_type", "architectures", "transformers_version")


def stock_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """transformers' own configuration of the same network.

    All fields of ours are fields of theirs; ``bertkit_task``, which says what a checkpoint was fine-tuned for, is kept
    as a field that transformers carries along and does not read: `bertkit predict` and `evaluate` read it.
    """
    from transformers import BertConfig

    if config.model_type not in BERT:
        return config
    return BertConfig(**{name: value for name, value in config.to_dict().items() if name not in _OF_OUR_FORM})


def write_stock(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, name: str
) -> tuple[str, Comparison]:
    """Writes a checkpoint in stock form, loads it again, and compares the two on texts.

    Args:
        model: of any family, on the CPU.
        tokenizer: its tokenizer.
        folder: to write to.
        name: what messages call the checkpoint.

    Returns:
        The name of the class of transformers that loads it, and how close the two are.

    Raises:
        CheckpointError: they are not the same; or transformers has no such class, or another tokenizer than ours comes
            back.
    """
    import transformers

    stock_class = getattr(transformers, type(model).__name__)
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
        raise CheckpointError(f"{name}: its tokenizer is another one once it is saved and loaded")
    loaded = stock_class.from_pretrained(folder)
    return stock_class.__name__, compare(torch_run(model), torch_run(loaded), batches, TOLERANCE, name)


def torch_run(model: PreTrainedModel) -> Run:
    """A model of torch for `compare`: every array it computes, dropout off."""
    import torch

    def outputs(batch: Mapping[str, Tensor]) -> list[np.ndarray]:
        with torch.inference_mode():
            return [values.numpy() for values in model(**batch).values()]

    model.eval()
    return outputs
