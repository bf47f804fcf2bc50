"""Speed-ups of training on CPUs; the interface of this package for the rest of bertkit.

They do not change results beyond rounding, except that dropout samples different units from the same distribution.

oneDNN compiles kernels for each shape and caches 1,024 of them. A step of BERT takes about twenty per length, so with
hundreds of different lengths it would compile kernels in almost every step: lengths are rounded up. Examples of
pre-training are padded to the maximum length; since the loss is a mean over the global batch, they can be regrouped by
length within it, and padding that no example needs is removed.

By default glibc returns large blocks to the system immediately. A step frees and allocates hundreds of MiB, and the
system has to map and clear the pages each time, which takes a quarter of a step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bertkit.runtime.placement.processor import fast_products
from bertkit.runtime.placement.resolve import Placement
from bertkit.training.batches import Collate, batch_size, padded_to
from bertkit.training.cpu.dropout import ATTENTION, FastDropout, fast_dropout

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")  # (B, S); other tensors have other columns
# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = -1
_GROWN_BY = 64 << 20  # bytes


@dataclass(frozen=True, kw_only=True)
class CpuSpeedUps:
    """Speed-ups of a run; methods of speed-ups that are off return their arguments unchanged.

    Attributes:
        is_on: the run is on a CPU, and ``placement.cpu_speed_ups`` is not false.
        changes_lengths: batches may differ in length.
        compiles: the model is compiled by ``train.torch_compile``.
    """

    is_on: bool = False
    changes_lengths: bool = False
    compiles: bool = False

    def collator(
        self, collate: Collate, tokenizer: PreTrainedTokenizerBase, max_seq_length: int, label_columns: Sequence[str]
    ) -> Collate:
        """Returns the collator to fine-tune with.

        Args:
            collate: makes a batch of examples, padded to the longest of them.
            tokenizer: tokenizer with the padding ids.
            max_seq_length: maximum tokens of an input of the run.
            label_columns: names of the tensors of a batch that hold labels.
        """
        if not (self.is_on and self.changes_lengths) or self.compiles:  # which has lengths of its own
            return collate
        return bucket_lengths(collate, tokenizer, max_seq_length, label_columns)

    def micro_batches(self, batches: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
        """Regroups the micro-batches of one pre-training step; their number and sizes stay the same.

        Args:
            batches: all micro-batches of this process in the step, padded on the right.
        """
        # torch.compile would compile the model for each length.
        is_on = self.is_on and self.changes_lengths and not self.compiles
        return group_by_length(batches) if is_on else batches

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Context that applies the speed-ups to a model and to this process during training.

        The process keeps freed memory until it ends.
        """
        if self.is_on:
            keep_freed_memory()
        if not self.is_on or self.compiles:  # Inductor fails on their autograd functions
            yield
            return
        with fast_dropout(model), fast_products(model.modules()):
            yield


def cpu_speed_ups(placement: Placement, *, compiles: bool = False) -> CpuSpeedUps:
    """Returns the speed-ups of a run in a placement.

    Args:
        placement: source of the device, ``cpu_speed_ups`` and ``fixed_shapes``.
        compiles: ``train.torch_compile`` is on.
    """
    return CpuSpeedUps(
        is_on=placement.device == "cpu" and placement.settings.cpu_speed_ups,
        changes_lengths=not placement.fixed_shapes,
        compiles=compiles,
    )


def attention_kernel(model: PreTrainedModel) -> tuple[str, int | None]:
    """Returns transformers' name of the attention kernel, and the bytes per element of dropout masks.

    The bytes are None for torch's dropout.
    """
    kernel = str(model.config._attn_implementation)
    is_fast = kernel == ATTENTION or any(isinstance(module, FastDropout) for module in model.modules())
    return "sdpa" if kernel == ATTENTION else kernel, 1 if is_fast else None


def rounded_length(length: int) -> int:
    """Rounds up a length by at most a sixteenth, to one of sixteen values between powers of two.

    >>> [rounded_length(length) for length in (5, 31, 33, 65, 130, 257, 512)]
    [5, 31, 34, 68, 136, 272, 512]
    """
    step = max(1, 1 << length.bit_length() - 1 >> 4)
    return -(-length // step) * step


def bucket_lengths(
    collate: Collate, tokenizer: PreTrainedTokenizerBase, max_seq_length: int, label_columns: Sequence[str]
) -> Collate:
    """Returns ``collate`` with the inputs of every batch padded to a length of `rounded_length`.

    Args:
        collate, tokenizer, label_columns: as for `padded_to`.
        max_seq_length: maximum tokens of an input; it is not rounded up.
    """
    return padded_to(partial(_rounded, max_seq_length), collate, tokenizer, label_columns)


def _rounded(max_seq_length: int, length: int) -> int:
    return max(length, min(rounded_length(length), max_seq_length))


def group_by_length(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Sorts examples by length, longest first, into as many batches of the same sizes, cut by `rounded_length`.

    Args:
        batches: micro-batches of one step, padded on the right as given by ``attention_mask``. May be empty.
    """
    if not batches:
        return []
    examples = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
    lengths, order = examples["attention_mask"].sum(dim=-1).sort(descending=True, stable=True)
    first, grouped = 0, []
    for size in map(batch_size, batches):
        rows = order[first : first + size]
        columns = rounded_length(int(lengths[first]))
        grouped.append(
            {name: each[rows, :columns] if name in _OF_TOKENS else each[rows] for name, each in examples.items()}
        )
        first += size
    return grouped


def keep_freed_memory() -> bool:
    """Configures the C library to keep freed memory in this process; returns False if it is not glibc.

    Peak memory stays about the same; it is returned when the process ends.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
        is_in_use = _address(library.malloc) == _address(ctypes.CDLL(None).malloc)
    except (OSError, AttributeError, TypeError):
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER, _M_TOP_PAD: _GROWN_BY}
    return is_in_use and all(mallopt(name, value) == 1 for name, value in settings.items())


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
