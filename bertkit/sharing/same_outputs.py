"""Comparison of two forms of a checkpoint on the same texts.

Dimension letters: B texts, C choices of a text, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bertkit.checkpoint.encoders import longest_input, model_inputs
from bertkit.checkpoint.faults import not_finite
from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
    """Returns batches of texts or pairs: very short, of some sentences, and of the model's full length (at most 512).

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
