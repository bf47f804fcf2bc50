"""The order of an evaluation: inputs of like length together, so that little is padded; what comes out is put in order.

Predictions and scores do not depend on it, beyond rounding: padding is never attended to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Sampler, SequentialSampler


def evaluation_order(dataset: Any) -> np.ndarray | None:
    """(N,) int64, the examples from the longest to the shortest, so that a lack of memory shows at once.

    None where a set does not tell the ``length`` of its examples: then they come in their own order.
    """
    if "length" not in (getattr(dataset, "column_names", None) or ()):
        return None
    return np.argsort(-np.asarray(dataset["length"][:]), kind="stable")


def evaluation_sampler(dataset: Any) -> Sampler[int]:
    """Draws in that order."""
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
    """What an evaluation of the data set gave, as its examples stand there.

    Args:
        outputs: an array of N rows in the order of the evaluation; None, or tuples, lists and mappings of such.
        dataset: that was evaluated.
    """
    order = evaluation_order(dataset)
    return outputs if order is None else _restored(outputs, np.argsort(order))


def _restored(outputs: Any, places: np.ndarray) -> Any:
    if isinstance(outputs, Mapping):
        return {name: _restored(each, places) for name, each in outputs.items()}
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(_restored(each, places) for each in outputs)
    return None if outputs is None else outputs[places]
