"""What the metrics of numbers share, where the evaluate library would change its inputs or leave a trace."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

from bertkit.metrics.in_memory import InMemoryMetric

CLASS_IDS = "one class id an example, (N,) int64"
LABEL_SETS = "0 or 1 for each label of each example, (N, C) int64"
NUMBERS = "one number an example, (N,) float64"

_FEATURES = {
    CLASS_IDS: datasets.Value("int64"),
    LABEL_SETS: datasets.List(datasets.Value("int64")),
    NUMBERS: datasets.Value("float64"),
}


def metric_info(description: str, inputs: str, citation: str = "") -> evaluate.MetricInfo:
    """What ``_info`` of a metric returns.

    Args:
        description: of the metric.
        inputs: what predictions and references are: ``CLASS_IDS``, ``LABEL_SETS`` or ``NUMBERS``.
        citation: BibTeX of the source, where there is one.
    """
    feature = _FEATURES[inputs]
    return evaluate.MetricInfo(
        description=description,
        citation=citation,
        inputs_description=inputs,
        features=datasets.Features({"predictions": feature, "references": feature}),
    )


class NumericMetric(InMemoryMetric):
    """A metric of class ids, of label sets or of numbers; arrays, tensors and lists of any precision are accepted.

    A fraction where an integer belongs is refused: the library makes class 0 of a probability of 0.7.

    ``compute``, ``add_batch`` and ``add`` raise ``ValueError`` where predictions and references differ in number or are
    not what ``features`` declare; ``compute`` raises ``DataError`` where there are none.
    """

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Adds examples.

        Args:
            predictions: one an example.
            references: likewise, the truth.

        Raises:
            ValueError: these are not what the features declare.
        """
        given = {"predictions": predictions, "references": references}
        arrays = {name: self._array(name, values) for name, values in given.items()}
        super().add_batch(**arrays, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Adds an example.

        Args:
            prediction: for it.
            reference: likewise, the truth.

        Raises:
            ValueError: these are not what the features declare.
        """
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _array(self, name: str, values: Any) -> np.ndarray:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ValueError(f"{name} are of unequal lengths; expected {self.inputs_description}") from error
        if array.ndim == 0:
            raise ValueError(f"{name} are {values!r}; expected {self.inputs_description}")
        if array.dtype.kind == "f" and self.features[name] != _FEATURES[NUMBERS]:
            # Whole floats will do: the labels of a binary cross-entropy are such.
            fractions = array[~(np.isfinite(array) & (array == np.floor(array)))]
            if fractions.size:
                raise ValueError(f"{name} hold {fractions[0]}; expected {self.inputs_description}, no probabilities")
        return array
