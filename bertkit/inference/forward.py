"""The forward pass of inference: inputs of different lengths in batches, results in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bertkit.inference.onnx_model import OnnxModel

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Kept = TypeVar("Kept")


def forward_in_batches(
    model: PreTrainedModel | OnnxModel,
    lengths: Sequence[int],
    collate: Callable[[list[int]], Mapping[str, Tensor]],
    keep: Callable[[list[int], Any], Iterable[Kept]],
    batch_size: int,
    reached: Callable[[int, int], object] | None = None,
    **options: Any,
) -> list[Kept]:
    """Runs a model over N inputs and returns one result for each, in the order given.

    Inputs of similar length share a batch, so that little is computed on padding; the longest come first, so that
    memory runs out at once or not at all.

    Args:
        model: switched to evaluation; batches are moved to its device.
        lengths: tokens of each input.
        collate: makes a padded batch of inputs, given by their numbers.
        keep: takes the numbers of a batch's inputs and the model's output, and returns one value for each input. It
            runs in inference mode.
        batch_size: inputs of a batch, at most.
        reached: called as ``reached(done, N)`` after each batch.
        options: further arguments of the model.
    """
    import torch

    model.eval()
    order = np.argsort([-length for length in lengths], kind="stable").tolist()
    kept: dict[int, Kept] = {}
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        batch = {name: values.to(model.device) for name, values in collate(chosen).items()}
        with torch.inference_mode():
            kept.update(zip(chosen, keep(chosen, model(**batch, **options)), strict=True))
        if reached is not None:
            reached(start + len(chosen), len(order))
    return [kept[number] for number in range(len(order))]
