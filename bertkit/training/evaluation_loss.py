"""Evaluation loss: the mean over all items of a data set, independent of batches and processes."""

from __future__ import annotations

import torch


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
