"""Evaluation order: groups inputs of similar length to reduce padding, and restores the order of the outputs.

Predictions and scores do not depend on it beyond rounding, since padding is masked in attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
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
