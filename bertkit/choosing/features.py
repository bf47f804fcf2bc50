"""Vectors of the items of a task from all layers of a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.choosing.frozen import FrozenTask
from bertkit.inference.embedding import Embedder
from bertkit.inference.forward import forward_in_batches
from bertkit.tasks.batches import padded
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from torch import Tensor


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
    inputs = {name: features[name] for name in encoder.inputs}
    names = [name for name in features if name not in task.task.label_columns]

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        rows = [{name: inputs[name][number] for name in inputs} for number in numbers]
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
