"""Scores of predictions against references, in numpy.

Each equals the function of scikit-learn or scipy that its docstring names, without these libraries. All count in
integers or compute in float64, whatever precision comes in, and return a Python float.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.errors import DataError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)

# ---- one class an example -------------------------------------------------------------------------------------------


def accuracy(predictions: ArrayLike, references: ArrayLike) -> float:
    """The share of examples whose predicted class is the true one, in [0, 1].

    Args:
        predictions, references: class ids, (N,) integers.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no class ids.

    >>> accuracy([0, 1, 1, 0], [0, 1, 0, 0])
    0.75
    """
    predicted, actual = _class_ids(predictions, references)
    return float(np.mean(predicted == actual))


def f1(predictions: ArrayLike, references: ArrayLike) -> float:
    """F1 of class 1: 2 · right predictions of it / (predictions of it + references of it), in [0, 1].

    The harmonic mean of precision and recall; 0 where the class is never predicted and never true (scikit-learn's
    ``f1_score`` with ``zero_division=0``).

    Args:
        predictions, references: class ids, (N,) integers.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no class ids.

    >>> f1([1, 1, 1, 0], [1, 0, 1, 1])  # 2 · 2 / (3 + 3)
    0.6666666666666666
    """
    predicted, actual = (ids == 1 for ids in _class_ids(predictions, references))
    return float(_f1((predicted & actual).sum(), predicted.sum(), actual.sum()))


def f1_macro(predictions: ArrayLike, references: ArrayLike) -> float:
    """The mean of the F1 of each class that occurs in the predictions or the references, in [0, 1].

    Each counts alike, however rare (scikit-learn's ``f1_score(average="macro", zero_division=0)``).

    Args:
        predictions, references: class ids, (N,) integers.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no class ids.

    >>> f1_macro([0, 0, 2], [0, 1, 1])  # class 0: 2/3, class 1: 0, class 2: 0
    0.2222222222222222
    """
    return float(np.mean(_f1(*_counts(*_class_ids(predictions, references)))))


def matthews_correlation(predictions: ArrayLike, references: ArrayLike) -> float:
    """How predicted and true classes go together, chance taken out: 1 always right, 0 as by chance.

    ``(c·s − Σ pₖ·tₖ) / √((s² − Σ pₖ²)·(s² − Σ tₖ²))``, where class k is predicted pₖ times and true tₖ times, and c of
    the s examples are right (Gorodkin 2004: Comparing two K-category assignments by a K-category correlation
    coefficient). In [-1, 1]; of two classes it is the φ coefficient, of more the lowest value lies above -1. It is 0
    where all predictions or all references are of one class (scikit-learn's ``matthews_corrcoef``).

    Args:
        predictions, references: class ids, (N,) integers.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no class ids.

    >>> matthews_correlation([1, 1, 1, 0], [1, 1, 0, 0])  # (3·4 − 1·2 − 3·2) / √((16 − 10)·(16 − 8))
    0.5773502691896258
    """
    right, predicted, actual = _counts(*_class_ids(predictions, references))
    examples = int(actual.sum())
    covariance = int(right.sum()) * examples - int(predicted @ actual)
    # In Python's integers: of 64 bits, some 55,000 examples are too many.
    variances = (examples**2 - int(predicted @ predicted)) * (examples**2 - int(actual @ actual))
    return _clipped(covariance / math.sqrt(variances)) if variances else 0.0


# ---- several labels an example --------------------------------------------------------------------------------------


def subset_accuracy(predictions: ArrayLike, references: ArrayLike) -> float:
    """The share of examples with all their labels right, in [0, 1] (scikit-learn's ``accuracy_score``).

    Args:
        predictions, references: (N, C) integers, 1 where the example has the label, else 0.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or something is neither 0 nor 1.

    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.5
    """
    predicted, actual = _label_sets(predictions, references)
    return float(np.mean((predicted == actual).all(axis=1)))


def multi_label_f1_micro(predictions: ArrayLike, references: ArrayLike) -> float:
    """F1 of all labels of all examples together: each occurrence counts alike; in [0, 1].

    0 where no label is predicted and none is true (scikit-learn's ``f1_score(average="micro", zero_division=0)``).

    Args:
        predictions, references: (N, C) integers, 1 where the example has the label, else 0.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or something is neither 0 nor 1.

    >>> multi_label_f1_micro([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [0, 1, 0]])  # 2 · 2 / (3 + 2)
    0.8
    """
    predicted, actual = _label_sets(predictions, references)
    return float(_f1((predicted & actual).sum(), predicted.sum(), actual.sum()))


def multi_label_f1_macro(predictions: ArrayLike, references: ArrayLike) -> float:
    """The mean over the labels of the F1 of each, in [0, 1]; 0 for a label that is never predicted and never true.

    So a label that does not occur pulls the mean down, unlike a class in `f1_macro` (scikit-learn's
    ``f1_score(average="macro", zero_division=0)``).

    Args:
        predictions, references: (N, C) integers, 1 where the example has the label, else 0.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or something is neither 0 nor 1.

    >>> multi_label_f1_macro([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [0, 1, 0]])  # (2/3 + 1 + 0) / 3
    0.5555555555555555
    """
    predicted, actual = _label_sets(predictions, references)
    return float(np.mean(_f1((predicted & actual).sum(axis=0), predicted.sum(axis=0), actual.sum(axis=0))))


# ---- a number an example --------------------------------------------------------------------------------------------


def mean_squared_error(predictions: ArrayLike, references: ArrayLike) -> float:
    """The mean of the squared differences, at least 0, in the square of the references' unit.

    Args:
        predictions, references: (N,) floats.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no numbers.

    >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    predicted, actual = _numbers(predictions, references)
    return float(np.mean(np.square(predicted - actual)))


def pearson(predictions: ArrayLike, references: ArrayLike) -> float:
    """Linear correlation: ``Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² · Σ (y − ȳ)²)``, in [-1, 1].

    NaN, without a warning, where it is not defined: predictions or references that are all the same (a single example
    among them), or anything infinite or NaN. scipy's ``pearsonr`` refuses a single example instead.

    Args:
        predictions, references: (N,) floats.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no numbers.

    >>> round(pearson([1, 2, 3], [1, 2, 2]), 6)  # 1 / √(2 · 2/3)
    0.866025
    """
    predicted, actual = _numbers(predictions, references)
    return _clipped(float(_direction(predicted) @ _direction(actual)))


def spearman(predictions: ArrayLike, references: ArrayLike) -> float:
    """Rank correlation: `pearson` of the ranks, in [-1, 1]; values that are equal share the mean of their ranks.

    NaN, without a warning, where predictions or references are all the same (a single example among them) or hold a
    NaN; infinite values have ranks like others (scipy's ``spearmanr``).

    Args:
        predictions, references: (N,) floats.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or these are no numbers.

    >>> round(spearman([1, 2, 30], [0, 5, 5]), 6)  # ranks 1 2 3 and 1 2.5 2.5
    0.866025
    """
    predicted, actual = _numbers(predictions, references)
    if np.isnan(predicted).any() or np.isnan(actual).any():
        return math.nan
    return pearson(_ranks(predicted), _ranks(actual))


# ---- what these share -----------------------------------------------------------------------------------------------


def _f1(right: ArrayLike, predicted: ArrayLike, actual: ArrayLike) -> Floats:
    # Where nothing is predicted and nothing is true, nothing is right either: 0 over 1.
    return 2 * np.asarray(right) / np.maximum(np.add(predicted, actual), 1)


def _counts(predicted: Integers, actual: Integers) -> tuple[Integers, Integers, Integers]:
    """By class that occurs, in the order of the ids: right predictions, predictions, references."""
    classes, inverse = np.unique(np.concatenate([predicted, actual]), return_inverse=True)
    predicted, actual = np.split(inverse, 2)
    right, predictions, references = (
        np.bincount(ids, minlength=len(classes)) for ids in (actual[predicted == actual], predicted, actual)
    )
    return right, predictions, references


def _direction(values: Floats) -> Floats:
    """The values less their mean, as a vector of length 1; NaN where it has no length or none that is finite."""
    if not np.isfinite(values).all() or (values == values[0]).all():
        return np.full_like(values, np.nan)
    # Scaled so that no square overflows or vanishes; a power of two, so that nothing is rounded.
    _, exponent = math.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -exponent)
    centred = scaled - scaled.mean()
    # A mean is rounded, and where the spread is tiny beside it, that is as large as the values are now.
    centred -= centred.mean()
    return centred / np.linalg.norm(centred)


def _ranks(values: Floats) -> Floats:
    """From 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def _clipped(correlation: float) -> float:
    """Within [-1, 1], which rounding may leave by the last digit; NaN stays."""
    return correlation if math.isnan(correlation) else min(1.0, max(-1.0, correlation))


def _class_ids(predictions: ArrayLike, references: ArrayLike) -> tuple[Integers, Integers]:
    return _checked(predictions, references, np.int64, "one class id an example, (N,) integers", dimensions=1)


def _label_sets(predictions: ArrayLike, references: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    expected = "0 or 1 for each label of each example, (N, C) integers"
    predicted, actual = _checked(predictions, references, np.int64, expected, dimensions=2)
    for name, values in (("predictions", predicted), ("references", actual)):
        wrong = (values != 0) & (values != 1)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(f"{name}[{row}, {column}] is {values[row, column]}; expected {expected}")
    return predicted.astype(bool), actual.astype(bool)


def _numbers(predictions: ArrayLike, references: ArrayLike) -> tuple[Floats, Floats]:
    return _checked(predictions, references, np.float64, "one number an example, (N,) floats", dimensions=1)


def _checked(
    predictions: ArrayLike, references: ArrayLike, dtype: type[Scalar], expected: str, dimensions: int
) -> tuple[NDArray[Scalar], NDArray[Scalar]]:
    predicted, actual = np.asarray(predictions), np.asarray(references)
    if not predicted.size and not actual.size:
        raise DataError("nothing to score: there are no predictions and no references")
    if predicted.shape != actual.shape:
        raise ValueError(
            f"predictions are {predicted.shape}, references {actual.shape}; expected the same of both: {expected}"
        )
    for name, given in (("predictions", predicted), ("references", actual)):
        # An integer will do for a float, but 0.7 is no class.
        if given.ndim != dimensions or not np.can_cast(given.dtype, dtype, "same_kind"):
            raise ValueError(f"{name} are {given.dtype} of shape {given.shape}; expected {expected}")
    return predicted.astype(dtype), actual.astype(dtype)
