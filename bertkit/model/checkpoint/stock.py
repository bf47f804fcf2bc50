"""The stock form of a checkpoint, and the comparison of outputs that every exported form passes.

The stock form is BERT as ``model_type: bert``, and every other family unchanged. bertkit's parameter names are those of
the released BERT, so no weights are converted: they get the configuration that transformers' own classes read.

Dimension letters: B texts, C choices of a text, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertkit.model.checkpoint.encoders import BERT, longest_input, model_inputs
from bertkit.model.checkpoint.faults import not_finite
from bertkit.model.checkpoint.load import load_tokenizer, save_tokenizer
from bertkit.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

TOLERANCE = 1e-4
"""Largest difference of logits or hidden states in float32: the same operations, but not always the same kernels."""

# Fields of our classes, or of the version that saved them; stock BERT has its own, or as of `attention` none.
_OF_OUR_FORM = ("auto_map", "model_type", "architectures", "transformers_version", "attention")
SENTENCES = (
    "Rain.",
    "The old house by the river has been empty since the autumn of 1998.",
    'Nobody expected the committee to agree so quickly; "we had prepared for weeks of argument," its chair said.',
    "Prices rose by 3.2 %, wages did not, and shops in smaller towns closed one after the other.",
    "Élise won the prize in Zürich, 42 years after her mother.",
)
_CHOICES = 3
_TOKENS = 48  # longest input of the first batch

Run = Callable[[Mapping[str, "Tensor"]], Sequence[np.ndarray]]
"""A function from the inputs of `comparison_inputs` to the arrays that a model computes from them."""


@dataclass(frozen=True)
class Comparison:
    """Difference between two forms of a checkpoint.

    Attributes:
        difference: the largest absolute difference of their outputs, logits or hidden states.
        tolerance: upper limit of the difference.
        inputs: number of texts compared.
        lengths: tokens of the shortest and of the longest text.
    """

    difference: float
    tolerance: float
    inputs: int
    lengths: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"outputs differ by at most {self.difference:.1e} (tolerance {self.tolerance:.0e}) on {self.inputs} inputs "
            f"of {self.lengths[0]} to {self.lengths[1]} tokens"
        )


def comparison_inputs(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> list[dict[str, Tensor]]:
    """Returns batches of texts or pairs: of few tokens, of the model's full length (at most 512), and of half of it.

    Args:
        tokenizer: tokenizer of the checkpoint.
        model: model of the checkpoint, which determines names and greatest length of the inputs.

    Returns:
        For each batch the model's inputs by name, (B, S) int64, or (B, C, S) with C = 3 for multiple choice; padded at
        the end, except for the last batch, which needs no padding.
    """
    import torch

    longest = min(longest_input(model.config), 512)
    long = " ".join(SENTENCES * (1 + longest // 40))
    names = model_inputs(model.config)
    picks = type(model).__name__.endswith("ForMultipleChoice")
    batches = []
    for texts, length in (
        ([*SENTENCES[:3], " ".join(SENTENCES)], min(_TOKENS, longest)),
        ([long, SENTENCES[0], SENTENCES[3]], longest),
        ([long], max(4, longest // 2)),
    ):
        others = list(reversed(texts)) if "token_type_ids" in names else None
        batch = tokenizer(
            texts,
            others,
            truncation=True,
            max_length=length,
            padding=True,
            padding_side="right",
            return_token_type_ids=True,
            return_tensors="pt",
        )
        inputs = {name: batch[name] for name in names}
        if picks:
            inputs = {
                name: torch.stack([values.roll(choice, dims=0) for choice in range(_CHOICES)], dim=1)
                for name, values in inputs.items()
            }
        batches.append(inputs)
    return batches


def compare(ours: Run, theirs: Run, batches: Sequence[Mapping[str, Tensor]], tolerance: float, name: str) -> Comparison:
    """Compares the outputs of two models on all batches, except at padding.

    Raises:
        CheckpointError: they differ by more than ``tolerance``, or one of them computes NaN or infinite values.
    """
    difference = 0.0
    lengths: list[int] = []
    for batch in batches:
        mask = batch["attention_mask"].numpy().astype(bool)
        lengths += mask.sum(axis=-1).ravel().tolist()
        for one, other in zip(ours(batch), theirs(batch), strict=True):
            if one.shape[: mask.ndim] == mask.shape:
                one, other = one[mask], other[mask]
            if not (np.isfinite(one).all() and np.isfinite(other).all()):
                raise not_finite(name)
            difference = max(difference, float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()))
    if difference > tolerance:
        raise CheckpointError(
            f"{name}: the exported model is not equivalent: its outputs differ by {difference:.1e}, tolerance "
            f"{tolerance:.0e}; nothing has been written"
        )
    return Comparison(difference, tolerance, len(lengths), (min(lengths), max(lengths)))


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

    Returns:
        The name of the transformers class that loads it, and how close the outputs are.

    Raises:
        CheckpointError: transformers has no class for the model, or one whose weights or attention differ; the outputs
            differ; or the tokenizer changes when it is saved and loaded.
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
