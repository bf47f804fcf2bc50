"""The forward pass of inference: inputs of different lengths in batches, results in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bertkit.checkpoint.faults import not_finite
from bertkit.inference.networks import OnnxModel

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertkit.inference.networks import EnsembleModel
    from bertkit.inference.plain_bert import PlainBert

Kept = TypeVar("Kept")
_USUAL_LENGTH = 512  # tokens; some encoders read 8,192, and a batch of such inputs would fill the memory
_SHORTEST = 0.75  # shortest input of a batch on a CPU, as a part of the longest
_FEW, _SHORTEST_OF_FEW = 8, 0.4  # the same for the first inputs of a batch: smaller batches use the cores badly


def forward_in_batches(
    model: PreTrainedModel | PlainBert | OnnxModel | EnsembleModel,
    lengths: Sequence[int] | np.ndarray,
    collate: Callable[[list[int]], Mapping[str, Tensor]],
    keep: Callable[[list[int], Any], Iterable[Kept]],
    batch_size: int,
    name: str,
    on_progress: Callable[[int, int], object] | None = None,
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
        batch_size: inputs of a batch, at most; fewer of inputs of more than 512 tokens, as many tokens as of that
            length.
        name: name of the checkpoint, for error messages.
        on_progress: called as ``on_progress(done, N)`` after each batch.
        options: further arguments of the model.

    Raises:
        CheckpointError: an output is NaN or infinite.
    """
    import torch

    from bertkit.placement.processor import fast_products

    model.eval()
    is_cpu = model.device.type == "cpu"
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")  # as a list it would take five times the memory
    kept: list[Any] = [None] * len(order)
    start = 0
    with fast_products(model.modules() if is_cpu else ()):
        while start < len(order):
            longest = max(lengths[order[start]], 1)
            numbers = order[start : start + max(1, min(batch_size, batch_size * _USUAL_LENGTH // longest))].tolist()
            if is_cpu:  # padding costs more there than small batches
                numbers = [
                    number
                    for place, number in enumerate(numbers)
                    if lengths[number] >= (_SHORTEST_OF_FEW if place < _FEW else _SHORTEST) * longest
                ]
            batch = {name: values.to(model.device) for name, values in collate(numbers).items()}
            with torch.inference_mode():
                outputs = model(**batch, **options)
                for values in _tensors(outputs):
                    if not _is_finite(values, batch.get("attention_mask")):
                        raise not_finite(name, str(values.dtype).removeprefix("torch."))
                for number, value in zip(numbers, keep(numbers, outputs), strict=True):
                    kept[number] = value
            start += len(numbers)
            if on_progress is not None:
                on_progress(start, len(order))
    return kept


def _tensors(outputs: Any) -> Iterator[Tensor]:
    """Yields the tensors of a model's outputs, which may be nested: a mapping of tensors and of tuples of them."""
    if isinstance(outputs, Mapping):
        outputs = tuple(outputs.values())
    if isinstance(outputs, (tuple, list)):
        for each in outputs:
            yield from _tensors(each)
    elif outputs is not None:
        yield outputs


def _is_finite(values: Tensor, mask: Tensor | None) -> bool:
    """Returns whether all values are finite, except those of padding: attention to nothing may give NaN there."""
    if mask is not None and values.shape[: mask.ndim] == mask.shape:
        values = values[mask.bool()]
    return bool(values.isfinite().all())
