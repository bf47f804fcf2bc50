"""Vectors of a frozen encoder that a linear head reads, for each kind of task.

What is known of a kind is in the module with its name beside this one, such as ``bertkit/features/choosing/ner.py``.

Dimension letters: L + 1 layers (0 the embeddings), S tokens of an input, H hidden size, I items that have a label
(texts, or words), D numbers of a vector, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.inference.embedding import Embedder
from bertkit.inference.forward import forward_in_batches
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import Outputs, Task, padded
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


class FrozenTask(ABC):
    """A task whose items a linear head classifies by their vectors."""

    def __init__(self, task: Task):
        self.task = task

    @property
    def classes(self) -> int:
        """C; 1 for numbers."""
        return max(1, len(self.task.settings.label_names))

    @abstractmethod
    def vectors(self, states: Tensor, row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Returns vectors of the items of an input, in one way or several: name → (L + 1, items, D).

        Args:
            states: hidden states of all layers, (L + 1, S, H).
            row: the row of `Task.encode`.
            tokenizer: the checkpoint's.
        """

    @abstractmethod
    def targets(self, features: Columns) -> np.ndarray:
        """Returns the labels of the items in the order of the rows: one of C classes, (I,) int64; several of C labels,
        (I, C) of 0 and 1; or a number, (I,) float."""

    @abstractmethod
    def examples(self, features: Columns) -> np.ndarray:
        """Returns the example of each item, (I,) int64."""

    @abstractmethod
    def outputs(self, logits: np.ndarray, features: Columns) -> Outputs:
        """Converts the logits of the items, (I, C), to outputs of the task's own head, for `Task.decode`."""

    def most_frequent(self, references: Sequence[Any]) -> tuple[str, Any] | None:
        """Returns the name and the value of the most frequent class of examples; None unless each has one."""
        return None


@by_kind_of_task
def frozen_task(task: Task) -> FrozenTask:
    """Returns how a task is predicted from the vectors of a frozen encoder.

    Raises:
        RecipeError: there is no such way for this kind of task.
    """
    raise refusal(task)


def refusal(task: Task) -> RecipeError:
    """Returns the error for a kind of task that frozen encoders are not scored on."""
    return RecipeError(
        f"choose: {task.kind} has no linear head on single vectors, so frozen encoders cannot be scored on it; compare "
        "the checkpoints without labels by --texts, or fine-tune each for a few steps"
    )


def frozen_vectors(
    task: FrozenTask, features: Columns, encoder: Embedder, on_progress: Callable[[int, int], object]
) -> dict[str, np.ndarray]:
    """Returns the vectors of all items, name → (L + 1, I, D) float32; CheckpointError if an output is NaN or infinite.

    Args:
        task: the kind of task.
        features: rows of `Task.encode`, labelled.
        encoder: the checkpoint's encoder.
        on_progress: called with the number of computed rows and of all.
    """
    names = [name for name in features if name not in task.task.label_columns]

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        rows = [{name: features[name][number] for name in encoder.inputs} for number in numbers]
        return padded(rows, encoder.tokenizer, encoder.inputs)

    def keep(numbers: list[int], outputs: Any) -> Iterator[dict[str, np.ndarray]]:
        import torch

        states = torch.stack(outputs.hidden_states).float()
        for place, number in enumerate(numbers):
            row = {name: features[name][number] for name in names}
            vectors = task.vectors(states[:, place, : len(row["input_ids"])], row, encoder.tokenizer)
            # Copies, so that the states of the whole batch are not kept with them.
            yield {name: np.array(values.cpu().numpy()) for name, values in vectors.items()}

    rows = forward_in_batches(
        encoder.model,
        list(map(len, features["input_ids"])),
        collate,
        keep,
        encoder.batch_size,
        encoder.name,
        on_progress,
        output_hidden_states=True,
    )
    return {name: np.concatenate([row[name] for row in rows], axis=1) for name in rows[0]}
