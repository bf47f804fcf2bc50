"""Hooks of a task that concern single examples: predictions beside references, and the report."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from bertkit.errors import DataError, shown
from bertkit.json_text import dumps
from bertkit.metrics.terms import Terms
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.report_parts import Mistake, Section, surest
from bertkit.tasks.splits import Columns


class PerExample:
    """Base class of `bertkit.tasks.base.Task` with the hooks of `bertkit.compare` and `bertkit.report`."""

    name: Any
    decode: Callable[..., list[dict[str, Any]]]
    texts_of: Callable[..., dict[str, list[str]]]

    def judged(self, outputs: Outputs, features: Columns, examples: Columns) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, one of each per example.

        Args:
            outputs, features, examples: as for `bertkit.tasks.base.Task.decode`.

        Raises:
            DataError: the task does not define this method.
        """
        raise self._not_defined()

    def measured(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes the task's metrics of predictions and references as `judged` returns them, for any selection."""
        raise self._not_defined()

    def _not_defined(self) -> DataError:
        return DataError(f"{self.name}: the task does not define judged and measured, which single examples need")

    def named(self, values: Sequence[Any]) -> list[Any]:
        """Returns predictions or references of `judged` as plain data for files, with the names of classes."""
        return [value.item() if hasattr(value, "item") else value for value in values]

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Describes the predictions of a collapsed model, which predicts the same for all examples: see `collapse_of`.

        Args:
            outputs, features, examples: as for `bertkit.tasks.base.Task.decode`, of a labelled split.
        """
        try:
            predictions, references = (self.named(values) for values in self.judged(outputs, features, examples))
        except DataError:
            return collapse_of(map(decision, self.decode(outputs, features, examples)))
        return collapse_of(map(decision, predictions), map(decision, references))

    # ---- the report of a run ----------------------------------------------------------------------------------------

    def score_terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> Terms | None:
        """Returns a metric as a function of means over the examples, so that its interval takes little time.

        Args:
            name: the metric, a key of `measured`.
            predictions, references: as for `measured`.

        Returns:
            The terms; None if there is no such form: then the metric is computed again for each sample of examples.
        """
        return None

    def report_sections(
        self, outputs: Outputs, features: Columns, examples: Columns, training: Columns | None
    ) -> list[Section]:
        """Returns the task's own sections of the report of a run; by default none.

        Args:
            outputs, features, examples: as for `bertkit.tasks.base.Task.decode`, of a labelled split.
            training: the training examples, None if they are not at hand.
        """
        return []

    def mistakes(self, outputs: Outputs, features: Columns, examples: Columns) -> list[Mistake]:
        """Returns the surest wrong predictions; by default those whose `judged` value is not the reference.

        They are ranked by the ``probability`` of `bertkit.tasks.base.Task.decode`. A task without `judged` has none.

        Args:
            outputs, features, examples: as for `bertkit.tasks.base.Task.decode`, of a labelled split.
        """
        try:
            judged = self.judged(outputs, features, examples)
        except DataError:
            return []
        predicted, true = (self.named(values) for values in judged)
        decoded = self.decode(outputs, features, examples)
        texts = self.texts_of(examples)
        return surest(
            [
                Mistake(
                    row,
                    float(decoded[row].get("probability", 0.0)),
                    str(true[row]),
                    str(predicted[row]),
                    [(column, values[row], ()) for column, values in texts.items()],
                )
                for row in range(len(true))
                if predicted[row] != true[row]
            ]
        )


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
