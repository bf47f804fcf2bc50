"""Reports by kind of task: sections of its own and wrong predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertkit.errors import DataError
from bertkit.inference.predicted import Outcome
from bertkit.reporting.parts import DataTable, Mistake, Section, most_confident, short
from bertkit.tasks.base import Task
from bertkit.tasks.registry import by_kind_of_task

_MOST_PREDICTIONS = 20
_LONGEST = 200  # characters of a cell


@dataclass(frozen=True)
class Reported:
    """Sections of a task in a report; the defaults suit any task.

    Attributes:
        task: the task.
    """

    task: Any

    def sections(self, outcome: Outcome) -> list[Section]:
        """Returns the sections of the task; by default a table of its first predictions."""
        texts = self.task.texts_of(outcome.examples)
        decoded = outcome.decoded()[:_MOST_PREDICTIONS]
        if not decoded:
            return []
        names = [name for name in decoded[0] if not isinstance(decoded[0][name], dict)]
        rows = [
            (
                row + 1,
                *(short(values[row], _LONGEST) for values in texts.values()),
                *(_cell(prediction.get(name)) for name in names),
            )
            for row, prediction in enumerate(decoded)
        ]
        table = DataTable("First predictions", ("row", *texts, *names), rows, has_texts=True)
        return [Section("Predictions", [table])]

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        """Returns the most confident wrong predictions; by default those that are not the reference.

        They are ranked by the ``probability`` of `bertkit.tasks.base.Task.decode`. A task that does not set predictions
        beside references has none.
        """
        sides = sides_of(outcome)
        if sides is None:
            return []
        predicted, true = map(self.task.to_labels, sides)
        decoded = outcome.decoded()
        rows = (
            (row, decoded[row].get("probability", 0.0), str(true[row]), str(predicted[row]))
            for row in range(len(true))
            if predicted[row] != true[row]
        )
        return self.mistakes_of(outcome, rows)

    def mistakes_of(
        self,
        outcome: Outcome,
        rows: Iterable[tuple[int, float, str, str]],
        suspects: np.ndarray | None = None,
        measure: Literal["confidence", "error"] = "confidence",
    ) -> list[Mistake]:
        """Returns mistakes with the texts of their examples.

        Args:
            outcome: the outputs.
            rows: ``row``, ``confidence``, ``true`` and ``predicted`` of each `Mistake`.
            suspects: whether the reference of each example is probably wrong.
            measure: as in `Mistake`.
        """
        texts = self.task.texts_of(outcome.examples)
        mistakes = []
        for row, confidence, true, predicted in rows:
            of_row = [(name, values[row], ()) for name, values in texts.items()]
            is_suspect = suspects is not None and bool(suspects[row])
            mistakes.append(Mistake(int(row), float(confidence), true, predicted, of_row, is_suspect, measure))
        return most_confident(mistakes)


@by_kind_of_task
def reported(task: Task) -> Reported:
    """Returns what the report of a run shows of a task."""
    return Reported(task)


def sides_of(outcome: Outcome) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Returns predictions and references in the form of the metric; None if the task does not define them."""
    try:
        return outcome.predictions_and_references()
    except DataError:
        return None


def _cell(value: Any) -> str | int | float | None:
    return value if value is None or isinstance(value, (int, float)) else short(str(value), _LONGEST)
