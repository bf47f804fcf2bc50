"""The forward pass of inference: inputs of different lengths in batches, results in the order of the inputs."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bertkit.inference.networks import OnnxModel
from bertkit.model.checkpoint.faults import not_finite
from bertkit.runtime.errors import DataError, PlacementError
from bertkit.runtime.placement.resolve import JOINED
from bertkit.runtime.progress import say

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertkit.inference.networks import EnsembleModel
    from bertkit.inference.plain_bert import PlainBert

Kept = TypeVar("Kept")
Item = TypeVar("Item")
Result = TypeVar("Result")
_USUAL_LENGTH = 512  # tokens; some encoders read 8,192, and a batch of such inputs would fill the memory
_SHORTEST = 0.75  # shortest input of a batch on a CPU, as a part of the longest
_FEW, _SHORTEST_OF_FEW = 8, 0.4  # the same for the first inputs of a batch: smaller batches use the cores badly
_MOST_AT_ONCE = 4  # batches on a CPU: Python starts the operations of all of them one after the other
_SMALLEST_AT_ONCE = 4  # inputs of a batch: smaller ones are not made to compute more batches at once


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
    memory runs out at once or not at all. On a CPU several batches are computed at once, each by some of the threads:
    threads that share the operations of one batch wait for each other after each of them. A model with the attention
    `JOINED` computes no padding, and gets the lengths of each batch, for which it would have to wait.

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
        DataError: an input has no token, as an empty text whose tokenizer adds none.
        CheckpointError: an output is NaN or infinite.
    """
    if 0 in lengths:
        raise DataError(
            f"{name}: its tokenizer adds no tokens to an empty text, so nothing can be computed; leave empty texts out"
        )
    import torch

    from bertkit.runtime.placement.processor import fast_products

    model.eval()
    is_cpu = model.device.type == "cpu"
    # Hooks may keep values of a batch, and onnxruntime, which has no modules, has threads of its own.
    modules = list(model.modules())
    has_hooks = any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    if joins := getattr(getattr(model, "config", None), "_attn_implementation", "") == JOINED:
        from bertkit.model.joined import joined_sequences, with_lengths  # imports all that trainings need

        collate = with_lengths(collate)
    at_once = min(torch.get_num_threads(), _MOST_AT_ONCE) if is_cpu and modules and not (has_hooks or joins) else 1
    size = min(batch_size, max(_SMALLEST_AT_ONCE, -(-min(batch_size, len(lengths)) // at_once)))
    batches = _make_batches(lengths, size, is_padding_slow=is_cpu)
    kept: list[Any] = [None] * len(lengths)
    done = 0

    def outputs_of(batch: Mapping[str, Tensor]) -> Any:
        with torch.inference_mode():
            outputs = model(**batch, **options)
            mask = batch.get("attention_mask")
            for values in _find_tensors(outputs):
                if mask is not None and values.shape[: mask.ndim] == mask.shape:
                    values = values[mask.bool()]  # not those of padding: attention to nothing may give NaN there
                if not values.isfinite().all():
                    raise not_finite(name, str(values.dtype).removeprefix("torch."))
        return outputs

    def inputs_of(numbers: np.ndarray) -> dict[str, Any]:
        inputs = collate(numbers.tolist())
        return {key: each if isinstance(each, list) else each.to(model.device) for key, each in inputs.items()}

    computed = _compute_in_threads(outputs_of, map(inputs_of, batches), min(at_once, len(batches)))
    with ExitStack() as contexts:
        for member in getattr(model, "members", [model]) if joins else ():
            contexts.enter_context(joined_sequences(member))
        contexts.enter_context(fast_products(modules if is_cpu else ()))
        contexts.enter_context(closing(computed))
        for batch, outputs in zip(batches, computed, strict=True):
            numbers = batch.tolist()
            with torch.inference_mode():
                for number, value in zip(numbers, keep(numbers, outputs), strict=True):
                    kept[number] = value
            done += len(numbers)
            if on_progress is not None:
                on_progress(done, len(lengths))
    return kept


def _make_batches(lengths: Sequence[int] | np.ndarray, batch_size: int, is_padding_slow: bool) -> list[np.ndarray]:
    """Returns the numbers of the inputs of each batch, the longest first.

    Args:
        lengths, batch_size: as for `forward_in_batches`.
        is_padding_slow: padding takes more time than smaller batches, as on a CPU.
    """
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    batches = []
    while len(order):
        longest = lengths[order[0]]
        size = max(1, min(batch_size, batch_size * _USUAL_LENGTH // longest))
        if is_padding_slow:
            size = sum(
                lengths[number] >= (_SHORTEST_OF_FEW if place < _FEW else _SHORTEST) * longest
                for place, number in enumerate(order[:size])
            )
        batches.append(order[:size])
        order = order[size:]
    return batches


def _compute_in_threads(compute: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Generator[Result]:
    """Yields the result of each item in order, computed in threads that share those of torch, some items ahead."""
    if threads <= 1:
        yield from map(compute, items)
        return
    import torch

    of_torch = torch.get_num_threads()
    waiting: deque[Future[Result]] = deque()
    try:
        with ThreadPoolExecutor(threads, "bertkit", torch.set_num_threads, (of_torch // threads,)) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(compute, item))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # after an interruption: the pool waits for what has begun only
                    future.cancel()
    finally:
        torch.set_num_threads(of_torch)  # this thread has them still; those that begin later take the last number set


def computes_beside_cores(model: PreTrainedModel | PlainBert | OnnxModel | EnsembleModel) -> bool:
    """Returns whether a device such as a GPU computes a model, so that the cores can tokenize meanwhile."""
    return bool(model.device.type != "cpu")


def one_ahead(items: Iterator[Item]) -> Generator[Item]:
    """Yields items; while the caller uses one, a thread makes the next, such as tokens for a GPU that computes.

    An exception is raised in the place of its item. To close it waits for the item that is being made.
    """
    end = object()
    with ThreadPoolExecutor(1, "bertkit") as pool:
        following: Future[Any] = pool.submit(next, items, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, items, end)
            yield item


def _find_tensors(outputs: Any) -> Iterator[Tensor]:
    """Yields the tensors of a model's outputs, which may be nested: a mapping of tensors and of tuples of them."""
    if isinstance(outputs, Mapping):
        outputs = tuple(outputs.values())
    if isinstance(outputs, (tuple, list)):
        for each in outputs:
            yield from _find_tensors(each)
    elif outputs is not None:
        yield outputs


# ---- without padding, see `bertkit.model.joined` ---------------------------------------------------------------------


ATTENTION = "BERTKIT_ATTN_IMPLEMENTATION"
"""Environment variable: `JOINED`, or nothing. It reaches all commands, and the processes that they start."""


def asks_to_join(device: str, dtype: torch.dtype) -> bool:
    """Returns whether `ATTENTION` asks for joined sequences; where they cannot be computed, says so, returns False.

    Args:
        device, dtype: of the inference.

    Raises:
        PlacementError: the variable has another value.
    """
    asked = os.environ.get(ATTENTION, "")
    if not asked:
        return False
    if asked != JOINED:
        raise PlacementError(f"{ATTENTION}={asked}: expected {JOINED}; correct or unset this environment variable")
    from bertkit.model.joined import missing_on_device  # imports all that trainings need

    lacks = missing_on_device(device)
    if not lacks and device == "cuda" and str(dtype) == "torch.float32":
        lacks = "half precision"
    if lacks:
        say(f"{ATTENTION}={asked} needs {lacks}; padded sequences are computed")
    return not lacks


def join_sequences(model: PreTrainedModel) -> None:
    """Sets the attention with which `forward_in_batches` joins sequences; a line says why a model cannot."""
    from bertkit.model.joined import reason_not_to_join

    if reason := reason_not_to_join(model):
        say(f"{ATTENTION}={JOINED} is not possible: {reason}; padded sequences are computed")
    else:
        model.set_attn_implementation(JOINED)
