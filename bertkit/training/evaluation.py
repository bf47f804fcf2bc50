"""Evaluation: the order of the examples, and the mean loss over all items, independent of batches and processes.

Inputs of similar length are evaluated together to reduce padding. Predictions and scores do not depend on the order
beyond rounding, since padding is masked in attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler, SequentialSampler


def evaluation_order(dataset: Any) -> np.ndarray | None:
    """Returns the indices of the examples from the longest to the shortest, (N,) int64.

    The longest come first so that a lack of memory shows in the first batch. Returns None, for the original order, if
    the data set has no column ``length``.
    """
    if "length" not in (getattr(dataset, "column_names", None) or ()):
        return None
    return np.argsort(-np.asarray(dataset["length"][:]), kind="stable")


def evaluation_sampler(dataset: Any) -> Sampler[int]:
    """Returns a sampler in the order of `evaluation_order`."""
    order = evaluation_order(dataset)
    return SequentialSampler(dataset) if order is None else _Order(order.tolist())


class _Order(Sampler[int]):
    def __init__(self, order: list[int]):
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


def in_dataset_order(outputs: Any, dataset: Any) -> Any:
    """Restores the order of the data set in the outputs of an evaluation.

    Args:
        outputs: an array of N rows in the order of the evaluation; None; or tuples, lists and mappings of such values.
        dataset: the evaluated data set.
    """
    order = evaluation_order(dataset)
    return outputs if order is None else _restored(outputs, np.argsort(order))


def _restored(outputs: Any, places: np.ndarray) -> Any:
    if isinstance(outputs, Mapping):
        return {name: _restored(each, places) for name, each in outputs.items()}
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(_restored(each, places) for each in outputs)
    return None if outputs is None else outputs[places]


def has_nan(outputs: Any) -> bool:
    """Returns whether an array is, or tuples, lists and mappings have, an output that is no number.

    >>> has_nan({"logits": [np.array([1.0, np.nan])], "labels": np.array([1])}), has_nan((None, np.zeros(2)))
    (True, False)
    """
    if isinstance(outputs, Mapping):
        return any(map(has_nan, outputs.values()))
    if isinstance(outputs, (tuple, list)):
        return any(map(has_nan, outputs))
    return outputs is not None and outputs.dtype.kind == "f" and bool(np.isnan(outputs).any())


class EvaluationLoss:
    """Accumulates the losses of an evaluation's batches in one process.

    accelerate assigns batches of ``at_once`` examples to the processes in turn, and fills up the last batches with
    examples from the start of the data set, so that all processes have the same number. These must not be counted
    twice.

    Args:
        num_examples: number of examples in the data set.
        at_once: examples in a batch of one process.
        num_processes, process_index: number of processes of the run, and index of this process.

    Attributes:
        sums: sums of losses and of items of this process, (2,) float64; ``None`` before the first batch.

    >>> evaluation = EvaluationLoss(5, 2, num_processes=2, process_index=1)  # 0 1 | 2 3 and 4 0 | 1 2
    >>> evaluation.next_batch(), evaluation.next_batch()
    ((2, False), (0, True))
    """

    def __init__(self, num_examples: int, at_once: int, *, num_processes: int, process_index: int):
        self.num_examples = num_examples
        self.at_once = at_once
        self.num_processes = num_processes
        self.process_index = process_index
        self._batch = -1
        self.sums: torch.Tensor | None = None

    def next_batch(self) -> tuple[int, bool]:
        """Returns the number of examples of the next batch that are not repeated, and whether any process's batch is
        filled up."""
        self._batch += 1
        first_of_all = self._batch * self.num_processes * self.at_once
        first = first_of_all + self.process_index * self.at_once
        own = min(max(self.num_examples - first, 0), self.at_once)
        is_filled_up = self.num_processes > 1 and self.num_examples < first_of_all + self.num_processes * self.at_once
        return own, is_filled_up

    def add(self, loss: torch.Tensor, items: torch.Tensor) -> None:
        """Adds the sum of a batch's losses, and the number of its items that have a label."""
        values = torch.stack([loss.double(), items.to(loss.device).double()])
        self.sums = values if self.sums is None else self.sums + values
