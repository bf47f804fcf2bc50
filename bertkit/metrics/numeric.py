"""Base class of the metrics of numbers: checks inputs that the evaluate library would silently change."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

from bertkit.metrics.in_memory import InMemoryMetric
from bertkit.metrics.scores import CLASS_IDS, INPUTS, LABEL_SETS, NUMBERS, scores_of

_FEATURES = {
    CLASS_IDS: datasets.Value("int64"),
    LABEL_SETS: datasets.List(datasets.Value("int64")),
    NUMBERS: datasets.Value("float64"),
}


def metric_info(key: str, description: str, citation: str = "") -> evaluate.MetricInfo:
    """Returns the value of a metric's ``_info``.

    Args:
        key: the metric's `NumericMetric.key`.
        description: one sentence about the metric.
        citation: BibTeX of the source, or empty.
    """
    inputs = INPUTS[key]
    feature = _FEATURES[inputs]
    return evaluate.MetricInfo(
        description=description,
        citation=citation,
        inputs_description=inputs,
        features=datasets.Features({"predictions": feature, "references": feature}),
    )


class NumericMetric(InMemoryMetric):
    """A metric of class ids, label sets or numbers; accepts arrays, tensors and lists of any precision.

    A fraction in place of an integer is refused: the evaluate library would turn a probability of 0.7 into class 0.

    ``compute``, ``add_batch`` and ``add`` raise ``ValueError`` if predictions and references differ in number or do not
    match ``features``; ``compute`` raises ``DataError`` if there are none.

    Attributes:
        key: name of the scores in `bertkit.metrics.scores`.
    """

    key: str

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Adds examples.

        Args:
            predictions: one per example.
            references: the true values, one per example.

        Raises:
            ValueError: the values do not match the features.
        """
        given = {"predictions": predictions, "references": references}
        arrays = {name: self._array(name, values) for name, values in given.items()}
        super().add_batch(**arrays, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Adds one example.

        Args:
            prediction: the predicted value.
            reference: the true value.

        Raises:
            ValueError: the values do not match the features.
        """
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return scores_of(self.key, predictions, references)

    def _array(self, name: str, values: Any) -> np.ndarray:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ValueError(f"{name} have rows of different lengths; expected {self.inputs_description}") from error
        if array.ndim == 0:
            raise ValueError(f"{name} are {values!r}; expected {self.inputs_description}")
        if array.dtype.kind == "f" and self.features[name] != _FEATURES[NUMBERS]:
            # Floats with integer values are accepted: binary cross-entropy has such labels.
            fractions = array[~(np.isfinite(array) & (array == np.floor(array)))]
            if fractions.size:
                raise ValueError(
                    f"{name} contain {fractions[0]}; expected {self.inputs_description}, not probabilities"
                )
        return array
