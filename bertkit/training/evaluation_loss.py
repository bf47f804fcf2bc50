"""The loss of an evaluation: a mean over the items of the whole set, however batches and processes cut it."""

from __future__ import annotations

import torch


class EvaluationLoss:
    """Adds up the losses of an evaluation's batches in one process.

    accelerate deals batches of ``at_once`` examples to the processes in turn, and fills the last ones up with examples
    from the beginning, so that all processes have as many. Those are not to count twice.

    Args:
        num_examples: of the set.
        at_once: examples in a batch of one process.
        num_processes, process_index: of the run, and of this process.

    Attributes:
        sums: loss and items of this process, (2,) float64; ``None`` where nothing was added.

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
        """How many examples at the head of the next batch are its own, and whether any process's was filled up."""
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
