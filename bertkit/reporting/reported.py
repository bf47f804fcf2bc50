"""What the report of a run shows of a kind of task: sections of its own and wrong predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertkit.errors import DataError
from bertkit.inference.outcomes import Outcome
from bertkit.reporting.parts import DataTable, Mistake, Section, most_confident, short
from bertkit.tasks.base import Task
from bertkit.tasks.rooms import by_kind_of_task

_MOST_PREDICTIONS = 20
_LONGEST = 200  # characters of a cell


@dataclass(frozen=True)
class Reported:
    """What a report shows of a task; the defaults suit any task.

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
        judged = judged_of(outcome)
        if judged is None:
            return []
        predicted, true = map(self.task.named, judged)
        decoded = outcome.decoded()
        wrong = [row for row in range(len(true)) if predicted[row] != true[row]]
        confidence = [float(each.get("probability", 0.0)) for each in decoded]
        return self.mistakes_of(outcome, wrong, confidence, list(map(str, true)), list(map(str, predicted)))

    def mistakes_of(
        self,
        outcome: Outcome,
        rows: Sequence[int],
        confidence: Sequence[float] | np.ndarray,
        true: Sequence[str],
        predicted: Sequence[str],
        suspects: np.ndarray | None = None,
        measure: Literal["confidence", "error"] = "confidence",
    ) -> list[Mistake]:
        """Returns the mistakes in some rows, each with its texts.

        Args:
            outcome: the outputs.
            rows: the rows.
            confidence, true, predicted, suspects, measure: as in `Mistake`, of all N examples.
        """
        texts = self.task.texts_of(outcome.examples)
        return most_confident(
            [
                Mistake(
                    *(int(row), float(confidence[row]), true[row], predicted[row]),
                    [(name, values[row], ()) for name, values in texts.items()],
                    suspect=suspects is not None and bool(suspects[row]),
                    measure=measure,
                )
                for row in rows
            ]
        )


@by_kind_of_task
def reported(task: Task) -> Reported:
    """Returns what the report of a run shows of a task."""
    return Reported(task)


def judged_of(outcome: Outcome) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Returns predictions and references in the form of the metric; None if the task does not define them."""
    try:
        return outcome.judged()
    except DataError:
        return None


def _cell(value: Any) -> str | int | float | None:
    return value if value is None or isinstance(value, (int, float)) else short(str(value), _LONGEST)
