"""Base class of the metrics of numbers: checks inputs that the evaluate library would silently change."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.errors import DataError
from bertkit.metrics.in_memory import InMemoryMetric

Integers = NDArray[np.int64]

CLASS_IDS = "one class id per example, (N,) int64"
LABEL_SETS = "0 or 1 for each label of each example, (N, C) int64"
NUMBERS = "one number per example, (N,) float64"

_FEATURES = {
    CLASS_IDS: datasets.Value("int64"),
    LABEL_SETS: datasets.List(datasets.Value("int64")),
    NUMBERS: datasets.Value("float64"),
}


def metric_info(description: str, inputs: str, citation: str = "") -> evaluate.MetricInfo:
    """Returns the value of a metric's ``_info``.

    Args:
        description: one sentence about the metric.
        inputs: kind of predictions and references: ``CLASS_IDS``, ``LABEL_SETS`` or ``NUMBERS``.
        citation: BibTeX of the source, or empty.
    """
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
    """

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
        return self._scores(*checked(predictions, references, self.inputs_description))

    def _scores(self, predictions: Any, references: Any) -> dict[str, float]:
        """Computes the scores of inputs that `checked` has admitted."""
        raise NotImplementedError

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


def checked(predictions: ArrayLike, references: ArrayLike, expected: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns predictions and references as int64, or float64 for ``NUMBERS``, whatever precision comes in.

    Args:
        predictions, references: (N,), or (N, C) for ``LABEL_SETS``.
        expected: ``CLASS_IDS``, ``LABEL_SETS`` or ``NUMBERS``.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or the values are not what is expected.
    """
    arrays = {"predictions": np.asarray(predictions), "references": np.asarray(references)}
    shapes = [array.shape for array in arrays.values()]
    if not any(array.size for array in arrays.values()):
        raise DataError("nothing to score: there are no predictions and no references")
    if shapes[0] != shapes[1]:
        raise ValueError(f"predictions are {shapes[0]}, references {shapes[1]}; expected equal shapes: {expected}")
    dtype = np.float64 if expected == NUMBERS else np.int64
    for name, array in arrays.items():
        # An integer is a valid float, but 0.7 is not a class id.
        if array.ndim != (2 if expected == LABEL_SETS else 1) or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise ValueError(f"{name} are {array.dtype} of shape {array.shape}; expected {expected}")
        if expected == LABEL_SETS:
            wrong = np.argwhere((array != 0) & (array != 1))
            if wrong.size:
                row, column = wrong[0]
                raise ValueError(f"{name}[{row}, {column}] is {array[row, column]}; expected {expected}")
    return arrays["predictions"].astype(dtype), arrays["references"].astype(dtype)
