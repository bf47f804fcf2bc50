"""Which examples a process trains on: the global batches of an epoch, cut into what each device takes at once.

Order and batches are functions of (seed, epoch) alone. How a batch is cut depends on the placement, but losses are
means over the global batch: so the number of processes changes no number of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import BatchRebalanceSampler, LengthGroupedSampler


class LengthGroups(LengthGroupedSampler):
    """An epoch's order in which the inputs of one *global* batch are of like length.

    transformers' own draws from the process's generator and groups what one process takes: its order changes when a
    run is resumed within an epoch, and with the number of processes. This one is a function of (seed, epoch) alone.

    Args:
        lengths: tokens of each example.
        global_batch_size: examples per optimizer step over all processes.
        seed: of the run.
    """

    def __init__(self, lengths: list[int], global_batch_size: int, seed: int):
        super().__init__(global_batch_size, lengths=lengths)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch, also one that is resumed in the middle."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        key = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1, np.uint64)[0]
        self.generator = torch.Generator().manual_seed(int(key >> 1))
        return iter(super().__iter__())


class GlobalBatches(BatchRebalanceSampler):
    """The micro-batches of one process: its share of every global batch of an epoch.

    A global batch is cut into micro-batches of ``per_device_batch_size``, which the processes take in turn. An epoch's
    last batch may be smaller; then some micro-batches are, too. Every process takes part in every step as often as the
    others, so where no example is left for one it computes on a filler, which `is_filler` tells: it must not count.
    (accelerate would repeat examples from the epoch's start, and count them.)

    It is a ``BatchRebalanceSampler`` in that transformers' Trainer passes it on as it is, a batch sampler that knows
    its process.

    Args:
        order: the examples of an epoch; ``set_epoch``, where it has that, is called before each.
        per_device_batch_size: examples that a device takes at once.
        accumulation: micro-batches of a process in a whole global batch.
        num_processes, process_index: of the run, and of this process.
        drop_last: leave out the epoch's last global batch if it is not whole.

    >>> first, second = (GlobalBatches(range(9), 2, 1, num_processes=2, process_index=rank) for rank in (0, 1))
    >>> list(first), list(second)
    ([[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [0]])
    >>> [second.is_filler(number) for number in range(3)]
    [False, False, True]
    """

    def __init__(
        self,
        order: Sampler[int] | range,
        per_device_batch_size: int,
        accumulation: int,
        *,
        num_processes: int = 1,
        process_index: int = 0,
        drop_last: bool = False,
    ):
        self.order = order
        self.num_examples = len(order)  # type: ignore[arg-type]
        self.per_device_batch_size = per_device_batch_size
        self.num_processes = num_processes
        self.process_index = process_index
        global_batch_size = per_device_batch_size * accumulation * num_processes
        if drop_last:
            self.num_examples -= self.num_examples % global_batch_size

    def __len__(self) -> int:
        return -(-self._pieces() // self.num_processes)

    def _pieces(self) -> int:
        """Micro-batches of an epoch that have examples, of all processes."""
        return -(-self.num_examples // self.per_device_batch_size)

    def is_filler(self, number: int) -> bool:
        """Whether this process's micro-batch of this number in the epoch, from 0, has no example of its own."""
        return number * self.num_processes + self.process_index >= self._pieces()

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch, also one that is resumed in the middle."""
        if hasattr(self.order, "set_epoch"):
            self.order.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        examples = islice(self.order, self.num_examples)
        at_once, start = self.per_device_batch_size, self.process_index * self.per_device_batch_size
        filler: list[int] = []
        for _ in range(len(self)):
            of_all = list(islice(examples, at_once * self.num_processes))
            filler = filler or of_all[:1]
            yield of_all[start : start + at_once] or filler


def part_of_batch(batch: Mapping[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    """The examples ``start`` to ``stop`` of a batch, as a batch; they stay as far padded as they are.

    Args:
        batch: of B examples, its first tensor of B rows; or where it has ``window_counts``, (B,), some tensors of W
            rows, the windows of all examples in their order.
        start, stop: as in a slice, not negative.
    """
    rows = batch_size(batch)
    windows = slice(start, stop)
    if "window_counts" in batch:
        counts = batch["window_counts"]
        windows = slice(int(counts[:start].sum()), int(counts[:stop].sum()))
    return {name: values[start:stop] if len(values) == rows else values[windows] for name, values in batch.items()}


def batch_size(batch: Mapping[str, Tensor]) -> int:
    """The examples of a batch: the rows of its first tensor, by which transformers' Trainer counts them, too."""
    return len(next(iter(batch.values())))
