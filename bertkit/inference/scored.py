"""Predictions beside references: whether a model has collapsed, and metrics as functions of means over the examples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertkit.errors import DataError, shown
from bertkit.json_text import dumps
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns


@dataclass(frozen=True)
class Scored:
    """Scores of a kind of task, for comparisons and reports; the defaults suit any task.

    Attributes:
        task: the task.
    """

    task: Any

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        """Returns a metric as a function of means over the examples, so that its interval takes little time.

        Args:
            name: the metric, a key of `Task.compute_metrics`.
            predictions, references: as for `Task.compute_metrics`.

        Returns:
            The terms; None, the default, if there is no such form: then the metric is computed again for each sample of
            examples.
        """
        return None

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Describes the predictions of a collapsed model, which predicts the same for all examples: see `collapse_of`.

        Args:
            outputs, features, examples: as for `Task.decode`, of a labelled split.
        """
        try:
            predictions, references = map(
                self.task.to_labels, self.task.predictions_and_references(outputs, features, examples)
            )
        except DataError:
            return collapse_of(map(decision, self.task.decode(outputs, features, examples)))
        return collapse_of(map(decision, predictions), map(decision, references))


@by_kind_of_task
def scored(task: Task) -> Scored:
    """Returns what comparisons and reports know of the scores of a task."""
    return Scored(task)


def collapse_of(predicted: Iterable[Hashable], true: Iterable[Hashable] | None = None) -> str | None:
    """Describes predictions that are all the same although the references differ; None for others, and for one alone.

    Args:
        predicted, true: predictions and references, such as `decision` returns them; ``true`` is None if unknown.

    >>> collapse_of([("good",), ("good",)], [("good",), ("bad",)])
    "all predictions are 'good'"
    >>> collapse_of([("good",), ("good",)], [("good",), ("good",)]), collapse_of([("good",), ("bad",)])
    (None, None)
    """
    predictions = list(predicted)
    if len(predictions) < 2 or len(set(predictions)) > 1 or (true is not None and len(set(true)) < 2):
        return None
    values = predictions[0] if isinstance(predictions[0], tuple) else (predictions[0],)
    if not values:
        return "no label is predicted"
    return f"all predictions are {shown(', '.join(map(str, values)))}"


def decision(value: Any) -> tuple[Hashable, ...]:
    """Returns the values of a prediction or a reference without ids, probabilities and positions.

    >>> decision({"label": "good", "probability": 0.9, "probabilities": {"bad": 0.1, "good": 0.9}})
    ('good',)
    >>> decision(["plot", "cast"]), decision("good")
    (('plot', 'cast'), ('good',))
    """
    if isinstance(value, Mapping):
        names = [name for name in value if "probabilit" not in name and name not in ("id", "start", "end")]
        return tuple(each for name in names for each in decision(value[name]))
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(each if isinstance(each, Hashable) else dumps(each) for each in values)
