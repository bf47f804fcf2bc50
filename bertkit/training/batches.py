"""Batches: their distribution to processes, their parts, and padding and filler rows.

The order of the examples and the global batches are functions of (seed, epoch) only. The split into micro-batches
depends on the placement, but losses are means over the global batch, so results do not depend on the number of
processes.

Dimension letters: B rows of a batch, C choices, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import SeedableRandomSampler
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Sampler, SequentialSampler
from transformers import PreTrainedTokenizerBase, TrainingArguments
from transformers.trainer_pt_utils import BatchRebalanceSampler, LengthGroupedSampler

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted
from bertkit.tasks.base import paddings_of

Collate = Callable[..., Mapping[str, Tensor]]


class LengthGroups(LengthGroupedSampler):
    """Sampler that groups inputs of similar length into *global* batches.

    transformers' sampler draws from the process's generator and groups the inputs of one process: its order changes if
    a run is resumed within an epoch, and with the number of processes. The order here is a function of (seed, epoch)
    only.

    Args:
        lengths: tokens of each example.
        global_batch_size: examples per optimizer step over all processes.
        seed: seed of the run.
    """

    def __init__(self, lengths: list[int], global_batch_size: int, seed: int):
        super().__init__(global_batch_size, lengths=lengths)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, before it begins or is resumed in the middle."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        key = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1, np.uint64)[0]
        self.generator = torch.Generator().manual_seed(int(key >> 1))
        return iter(super().__iter__())


class GlobalBatches(BatchRebalanceSampler):
    """Batch sampler of one process: its micro-batches of every global batch of an epoch.

    A global batch is split into micro-batches of ``per_device_batch_size``, which are assigned to the processes in
    turn. An epoch's last global batch may be smaller, and so may its micro-batches. All processes compute the same
    number of micro-batches, so a process without examples left computes a filler, marked by `is_filler`, which must not
    be counted. (accelerate would repeat examples from the start of the epoch, and count them.)

    The base class is ``BatchRebalanceSampler`` because transformers' Trainer uses such a sampler unchanged, as a batch
    sampler of its process.

    Args:
        order: the order of examples in an epoch; its ``set_epoch``, if it exists, is called before each epoch.
        per_device_batch_size: examples in a micro-batch.
        accumulation: micro-batches per process in a full global batch.
        num_processes, process_index: number of processes of the run, and index of this process.
        drop_last: leave out the last global batch of an epoch if it is incomplete.

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
        """Returns the number of micro-batches with examples in an epoch, over all processes."""
        return -(-self.num_examples // self.per_device_batch_size)

    def is_filler(self, number: int) -> bool:
        """Returns whether micro-batch ``number`` of this process in the epoch, from 0, is a filler."""
        return number * self.num_processes + self.process_index >= self._pieces()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, before it begins or is resumed in the middle."""
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


def training_order(dataset: Any, arguments: TrainingArguments) -> Sampler[int]:
    """Returns the sampler of the order of examples, a function of (seed, epoch) only.

    If the data set has the texts of its examples, ``text_ids``, no batch of a random order holds one twice, but for
    texts of too many examples, see `bertkit.training.distinct`.
    """
    if arguments.train_sampling_strategy == "sequential":
        return SequentialSampler(dataset)
    seed = arguments.seed if arguments.data_seed is None else arguments.data_seed
    global_batch = arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
    order: Sampler[int]
    if arguments.train_sampling_strategy == "group_by_length":
        order = LengthGroups(dataset["length"][:], global_batch, seed)
    else:
        order = SeedableRandomSampler(dataset, data_seed=seed)
    if "text_ids" in (getattr(dataset, "column_names", None) or ()):
        from bertkit.training.distinct import DistinctBatches

        return DistinctBatches(order, dataset["text_ids"][:], global_batch)
    return order


def check_drop_last(recipe: Recipe, inputs: int) -> None:
    """Checks that ``train.dataloader_drop_last`` leaves a batch of this number of inputs; else raises RecipeError."""
    size = recipe.train["global_train_batch_size"]
    if recipe.train.get("dataloader_drop_last") and inputs < size:
        raise RecipeError(
            f"recipe {recipe.name}: train.dataloader_drop_last: leaves out a batch of fewer than {size}, so nothing of "
            f"{counted(inputs, 'input')} is left to train on; remove it, or give a smaller "
            "train.global_train_batch_size"
        )


def part_of_batch(batch: Mapping[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    """Returns examples ``start`` to ``stop`` of a batch, with unchanged padding.

    Args:
        batch: a batch of B examples, whose first tensor has B rows. With ``window_counts``, (B,), other tensors may
            have W rows, the windows of all examples in order.
        start, stop: slice bounds, not negative.
    """
    rows = batch_size(batch)
    windows = slice(start, stop)
    if "window_counts" in batch:
        counts = batch["window_counts"]
        windows = slice(int(counts[:start].sum()), int(counts[:stop].sum()))
    return {name: values[start:stop] if len(values) == rows else values[windows] for name, values in batch.items()}


def batch_size(batch: Mapping[str, Tensor]) -> int:
    """Returns the number of examples of a batch: the rows of its first tensor, as in transformers' Trainer."""
    return len(next(iter(batch.values())))


def num_tokens(attention_mask: Tensor) -> Tensor:
    """Counts the tokens of a batch without those of filler rows, 0-d int64.

    >>> num_tokens(torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]))
    tensor(5)
    """
    tokens = attention_mask.sum(dim=-1)
    return tokens.where(tokens > 1, 0).sum()


def multiple_of_8(max_seq_length: int, length: int) -> int:
    """Rounds up a length to a multiple of 8, for matrix units of GPUs, but not beyond ``max_seq_length``.

    >>> multiple_of_8(128, 17), multiple_of_8(30, 27)
    (24, 30)
    """
    return max(length, min(-(-length // 8) * 8, max_seq_length))


def compiled_length(max_seq_length: int, length: int) -> int:
    """Rounds up a length to a multiple of 16 up to 128, then of 64, but not beyond ``max_seq_length``.

    A compiler makes kernels for each of these lengths.

    >>> [compiled_length(500, length) for length in (5, 16, 100, 129, 449)]
    [16, 16, 112, 192, 500]
    """
    step = 16 if length <= 128 else 64
    return max(length, min(-(-length // step) * step, max_seq_length))


def padded_to(
    length_of: Callable[[int], int],
    collate: Collate,
    tokenizer: PreTrainedTokenizerBase,
    label_columns: Sequence[str],
) -> Collate:
    """Returns ``collate`` with the inputs of every batch padded to a chosen length by `lengthened`.

    Args:
        length_of: returns the length for a batch whose longest input has S tokens, at least S.
        collate: makes a batch of examples; its ``input_ids`` are (B, S) or (B, C, S).
        tokenizer, label_columns: as for `lengthened`.
    """
    return partial(_collate_padded, length_of, collate, tokenizer, label_columns)


def _collate_padded(
    length_of: Callable[[int], int],
    collate: Collate,
    tokenizer: PreTrainedTokenizerBase,
    label_columns: Sequence[str],
    examples: Any,
) -> dict[str, Tensor]:
    batch = collate(examples)
    return lengthened(batch, length_of(batch["input_ids"].shape[-1]), tokenizer, label_columns)


def lengthened(
    batch: Mapping[str, Tensor],
    length: int,
    tokenizer: PreTrainedTokenizerBase,
    label_columns: Sequence[str],
) -> dict[str, Tensor]:
    """Pads the inputs of a batch, (B, S) or (B, C, S), on the right to ``length`` tokens.

    Args:
        batch: a batch with ``input_ids``. Integer tensors of the same shape are padded too: labels with -100, masks
            with 0.
        length: target length, at least S.
        tokenizer: tokenizer with the padding ids.
        label_columns: the tensors that hold labels.
    """
    shape = batch["input_ids"].shape
    padding = paddings_of(tokenizer) | dict.fromkeys(label_columns, IGNORE_INDEX)
    return {
        name: F.pad(values, (0, length - shape[-1]), value=padding.get(name, 0))
        if values.shape == shape and not values.is_floating_point()
        else values
        for name, values in batch.items()
    }


def unlabelled(batch: Mapping[str, Tensor], label_columns: Sequence[str]) -> dict[str, Tensor]:
    """Returns a batch of the same shapes without labels, whose rows have one unmasked token each.

    Integer labels become -100, floating-point labels NaN. [CLS] stays unmasked, since a softmax over no positions is
    NaN; `num_tokens` recognises such rows by it, since every input has a [SEP] too.
    """
    # A list has the lengths of joined sequences, which change with the mask.
    changed = {name: values for name, values in batch.items() if isinstance(values, Tensor)}
    for name in batch.keys() & set(label_columns):
        labels = batch[name]
        changed[name] = torch.full_like(labels, float("nan") if labels.is_floating_point() else IGNORE_INDEX)
    if "attention_mask" in batch:
        changed["attention_mask"] = torch.zeros_like(batch["attention_mask"])
        changed["attention_mask"][..., 0] = 1
    return changed
