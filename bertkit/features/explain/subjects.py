"""Subjects of an attribution to words: the input of a task, and the numbers of its output that decide the prediction.

The kinds of tasks register theirs beside this module, see `subject_of`.

B inputs, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, pieces_of
from bertkit.runtime.errors import CheckpointError, DataError, did_you_mean, quoted
from bertkit.tasks.base import Task
from bertkit.tasks.registry import by_kind_of_task

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Target:
    """A number of the output that is attributed to words.

    Attributes:
        name: such as a label.
        of: outputs of B inputs → (B,), differentiable.
        probability: of the label, in [0, 1]; None for a number.
        unit: of the number: ``logit``, ``probability``, or ``score`` for regression.
        as_probability: outputs of B inputs → (B,) in [0, 1], differentiable; None where the number has no probability,
            or one that depends on other inputs too.
    """

    name: str
    of: Callable[[Any], Tensor]
    probability: float | None = None
    unit: str = "logit"
    as_probability: Callable[[Any], Tensor] | None = None

    def in_probability(self) -> Target:
        """Returns the target with its probability as the number that is attributed; DataError if it has none."""
        if self.as_probability is None:
            raise DataError(
                f"unit probability: {self.name!r} has no probability that depends on this input alone; "
                "leave out the unit"
            )
        return replace(self, of=self.as_probability, unit="probability")


@dataclass(frozen=True)
class Curve:
    """Probabilities over the words of a passage.

    Attributes:
        words: T tokens.
        start, end: (T,) float, probability that the answer starts and ends there, of all tokens of the window.
        spans: the best answers and their probabilities.
    """

    words: list[str]
    start: np.ndarray
    end: np.ndarray
    spans: list[tuple[str, float]]


@dataclass(frozen=True)
class Subject:
    """One input of a task.

    Attributes:
        prediction: the prediction as a line.
        pieces: the input, S tokens; special tokens are not attributed to.
        targets: at least one.
        call: inputs (B, S) by name → outputs of the model.
        curve: for question answering.
        note: sentence on what the numbers are of, if it is not the prediction.
    """

    prediction: str
    pieces: Pieces
    targets: list[Target]
    call: Callable[[Mapping[str, Tensor]], Any] = field(repr=False)
    curve: Curve | None = None
    note: str = ""

    def batch(self, network: Network, ids: np.ndarray) -> dict[str, Tensor]:
        """Returns inputs of the model for other ids, (B, S), with the segments of the subject."""
        import torch

        columns = {
            "input_ids": torch.tensor(ids),
            "attention_mask": torch.ones(ids.shape, dtype=torch.long),
            "token_type_ids": torch.tensor(np.broadcast_to(self.pieces.segments, ids.shape).copy()),
        }
        return network.on_device({name: columns[name] for name in network.inputs})


@by_kind_of_task
def subject_of(task: Task, network: Network, texts: Sequence[str], label: str | None, window: int | None) -> Subject:
    """Returns what is attributed of a prediction.

    Args:
        task: the task of the network.
        network: the fine-tuned checkpoint.
        texts: one or two.
        label: the label, or for tagging the word, that is asked about; by default what is predicted.
        window: number of the window of a long text; by default the one that decides most.

    Raises:
        DataError: the texts do not fit the task, or there is no such label.
        CheckpointError: the kind of task has no attribution.
        RecipeError: there is no such window.
    """
    raise CheckpointError(f"{network.name}: predictions of {task.kind} are not attributed to words")


def pieces_like(network: Network, texts: Sequence[str], ids: Sequence[int], window: int | None = None) -> Pieces:
    """Returns the pieces of texts whose ids are those that the task reads.

    Raises:
        DataError: they are not.
        RecipeError: there is no such window.
    """
    pieces = pieces_of(network, texts, window=window)
    if pieces.ids.tolist() != list(ids):
        raise DataError("the task reads other tokens than its tokenizer gives, so none is attributed to")
    return pieces


def index_of(label: str, names: Sequence[str], what: str) -> int:
    """Returns the index of a label; DataError if there is no such label."""
    if label not in names:
        raise DataError(f"label {label!r}: expected {what} {quoted(names)}{did_you_mean(label, names)}")
    return list(names).index(label)
