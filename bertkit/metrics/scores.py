"""Scores of class ids, label sets and numbers; scikit-learn and SciPy are imported by the scores that need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.errors import DataError
from bertkit.metrics import GLUE_SCORES
from bertkit.metrics.correlation import Floats, pearson, spearman

Integers = NDArray[np.int64]

CLASS_IDS = "one class id per example, (N,) int64"
LABEL_SETS = "0 or 1 for each label of each example, (N, C) int64"
NUMBERS = "one number per example, (N,) float64"


def scores_of(name: str, predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
    """Computes the scores of a metric.

    Args:
        name: a key of ``INPUTS``.
        predictions, references: arrays or lists in the form that ``INPUTS`` states, of any precision.

    Raises:
        DataError: there are no examples.
        ValueError: the shapes differ, or the values are not what is expected.
    """
    arrays = checked(predictions, references, INPUTS[name])
    family, _, task = name.partition("/")
    return glue(task, *arrays) if family == "glue" else _SCORES[name](*arrays)


def accuracy(predictions: Integers, references: Integers) -> float:
    """Computes the fraction of examples whose prediction equals the reference; (N,), or whole rows of (N, C)."""
    equal = predictions == references
    return float(np.mean(equal if equal.ndim == 1 else equal.all(axis=1)))


def classification(predictions: Integers, references: Integers) -> dict[str, float]:
    """Computes ``accuracy``, and ``f1_macro``, the mean over the classes that occur in either."""
    from sklearn.metrics import f1_score

    f1_macro = float(f1_score(references, predictions, average="macro", zero_division=0))
    return {"accuracy": accuracy(predictions, references), "f1_macro": f1_macro}


def multi_label(predictions: Integers, references: Integers) -> dict[str, float]:
    """Computes ``f1_micro``, ``f1_macro`` and ``accuracy``, all in [0, 1].

    ``f1_micro`` is F1 over all labels of all examples; ``f1_macro`` the mean F1 of the labels, 0 for a label that is
    never predicted and never true; ``accuracy`` the fraction of examples with all labels right.
    """
    from sklearn.metrics import f1_score

    # scikit-learn reads a single column as two classes, 0 and 1, whose mean would count the absence of the label.
    average = "macro" if references.shape[1] > 1 else "binary"
    return {
        # All labels together are the binary labels of N · C cells.
        "f1_micro": float(f1_score(references.ravel(), predictions.ravel(), zero_division=0)),
        "f1_macro": float(f1_score(references, predictions, average=average, zero_division=0)),
        "accuracy": accuracy(predictions, references),
    }


def regression(predictions: Floats, references: Floats) -> dict[str, float]:
    """Computes ``mse``, at least 0, and the correlations ``pearson`` and ``spearmanr``, in [-1, 1] or NaN."""
    return {
        # Not scikit-learn's, which refuses the NaN of a model that has diverged.
        "mse": float(np.mean(np.square(predictions - references))),
        "pearson": pearson(predictions, references),
        "spearmanr": spearman(predictions, references),
    }


def glue(task: str, predictions: Any, references: Any) -> dict[str, float]:
    """Computes the scores of a GLUE task, named as in the evaluate library's ``glue``.

    If there are two, ``combined_score`` is their mean, as in transformers' ``run_glue.py`` and in GLUE's average over
    its tasks.
    """
    scores = {name: _OF_GLUE[name](predictions, references) for name in GLUE_SCORES[task]}
    return scores if len(scores) == 1 else {**scores, "combined_score": sum(scores.values()) / len(scores)}


def _f1(predictions: Integers, references: Integers) -> float:
    """Computes F1 of class 1, in [0, 1]; 0 where it is neither predicted nor true."""
    from sklearn.metrics import f1_score

    return float(f1_score(references == 1, predictions == 1, zero_division=0))


def _matthews_correlation(predictions: Integers, references: Integers) -> float:
    """Computes the correlation of classes (Gorodkin 2004), in [-1, 1]; 0 where either side has one class only."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(references) == 0:  # scikit-learn warns if both sides have the same single class
        return 0.0
    return float(matthews_corrcoef(references, predictions))


_OF_GLUE: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy,
    "f1": _f1,
    "matthews_correlation": _matthews_correlation,
    "pearson": pearson,
    "spearmanr": spearman,
}
_SCORES: dict[str, Callable[[Any, Any], dict[str, float]]] = {
    "accuracy": lambda predictions, references: {"accuracy": accuracy(predictions, references)},
    "classification": classification,
    "multi_label": multi_label,
    "regression": regression,
}

INPUTS = {
    "accuracy": CLASS_IDS,
    "classification": CLASS_IDS,
    "multi_label": LABEL_SETS,
    "regression": NUMBERS,
    **{f"glue/{task}": NUMBERS if "pearson" in scores else CLASS_IDS for task, scores in GLUE_SCORES.items()},
}
"""Name of each metric of numbers → form of its predictions and references."""


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
