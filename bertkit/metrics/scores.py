"""Scores of class ids, label sets and numbers. They import scikit-learn and SciPy where they need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.runtime.errors import DataError, RecipeError, did_you_mean, quoted, shown
from bertkit.runtime.options import option

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

GLUE_SCORES = {
    "ax": ("matthews_correlation",),
    "cola": ("matthews_correlation",),
    "mnli": ("accuracy",),
    "mnli_matched": ("accuracy",),
    "mnli_mismatched": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "qnli": ("accuracy",),
    "qqp": ("accuracy", "f1"),
    "rte": ("accuracy",),
    "sst2": ("accuracy",),
    "stsb": ("pearson", "spearmanr"),
    "wnli": ("accuracy",),
}
"""Scores of each GLUE task (Wang et al. 2018, table 1) and of ``ax``, the diagnostic set."""

CALIBRATION_BINS = 15
"""Number of bins of the expected calibration error, as in Guo et al. (2017)."""

CLASS_IDS = "one class id per example, (N,) int64"
LABEL_SETS = "0 or 1 for each label of each example, (N, C) int64"
NUMBERS = "one number per example, (N,) float64"
INPUTS = {
    "accuracy": CLASS_IDS,
    "classification": CLASS_IDS,
    "multi_label": LABEL_SETS,
    "regression": NUMBERS,
    **{f"glue/{task}": NUMBERS if "pearson" in scores else CLASS_IDS for task, scores in GLUE_SCORES.items()},
}
"""Name of each metric of numbers → form of its predictions and references."""
_OF_LISTS = ("seqeval", "squad", "squad_v2")  # the other metrics

_CORRELATIONS = ("pearson", "spearmanr", "matthews_correlation")
_RATES = {"accuracy", "balanced_accuracy", "average_precision", "exact", "exact_match", "precision", "recall"}
_RATES |= {"roc_auc", "f1", "f1_macro", "f1_micro", "combined_score"}
_LIMITED = {*_RATES, *_CORRELATIONS, *(f"overall_{name}" for name in ("accuracy", "f1", "precision", "recall"))}


@dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """The part of a recipe's ``task`` block that all fine-tuning tasks share; `bertkit.metrics.adapter` computes it."""

    metrics: list[str] = option(
        "Metric of the evaluate library that is added to the scores: a name, or the folder of one of your own. "
        "Checkpoints do not store it.",
        factory=list,
        flag="--metric",
        metavar="NAME",
        rare=True,
    )


# ---- by name --------------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Returns the names that `load` and `compute` accept.

    >>> names()  # doctest: +NORMALIZE_WHITESPACE
    ['accuracy', 'classification', 'glue/ax', 'glue/cola', 'glue/mnli', 'glue/mnli_matched', 'glue/mnli_mismatched',
     'glue/mrpc', 'glue/qnli', 'glue/qqp', 'glue/rte', 'glue/sst2', 'glue/stsb', 'glue/wnli', 'multi_label',
     'regression', 'seqeval', 'squad', 'squad_v2']
    """
    return sorted([*INPUTS, *_OF_LISTS])


def compute(name: str, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
    """Computes the scores of ``load(name).compute``, without importing the evaluate library, which takes seconds.

    Args:
        name: as for `load`.
        predictions, references: in the form of the metric: arrays or lists of any precision, or dictionaries of SQuAD;
            class ids and labels are integers or bools, where `load` takes floats without a fraction too.
        options: further arguments of ``seqeval`` and ``squad_v2``.

    Raises:
        RecipeError: the name is unknown.
        DataError: there are no examples.
        ValueError: the shapes differ, or the values are not what the metric expects.
        TypeError: the metric has no such argument.
    """
    check_name(name)
    if name == "seqeval":
        from bertkit.metrics.entities import seqeval

        return seqeval(predictions, references, **options)
    if name in _OF_LISTS:
        from bertkit.metrics import squad

        others = [each for each in (*predictions, *references) if not isinstance(each, Mapping)]
        if others:
            raise ValueError(f"{name}: an example is {shown(others[0])}; expected a dictionary with its id")
        try:
            for text in (each["prediction_text"] for each in predictions):
                if not isinstance(text, str):
                    raise ValueError(f"{name}: a prediction_text is {shown(text)}; expected a text")
            for answers in (each["answers"] for each in references):
                texts: Any = answers["text"] if isinstance(answers, Mapping) else None
                is_list = np.iterable(texts) and not isinstance(texts, str)
                if not is_list or not all(isinstance(text, str) for text in texts):
                    raise ValueError(f"{name}: answers are {shown(answers)}; expected {{'text': [a text, ...]}}")
            return dict(getattr(squad, name)(predictions, references, **options))
        except KeyError as error:
            raise ValueError(f"{name}: an example has no {error}") from error
    if options:
        raise TypeError(f"{name} has no argument {quoted(options)}")
    arrays = checked(predictions, references, INPUTS[name])
    family, _, task = name.partition("/")
    return glue(task, *arrays) if family == "glue" else _SCORES[name](*arrays)


def check_name(name: str) -> None:
    """Raises RecipeError if there is no metric of that name."""
    if name not in names():
        raise RecipeError(f"unknown metric {name!r}; expected one of {', '.join(names())}{did_you_mean(name, names())}")


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
    return arrays["predictions"].astype(dtype, copy=False), arrays["references"].astype(dtype, copy=False)


# ---- scores of class ids, label sets and numbers --------------------------------------------------------------------


def accuracy(predictions: Integers, references: Integers) -> float:
    """Computes the fraction of examples whose prediction equals the reference; (N,), or whole rows of (N, C)."""
    equal = predictions == references
    return float(np.mean(equal if equal.ndim == 1 else equal.all(axis=1)))


def classification(predictions: Integers, references: Integers) -> dict[str, float]:
    """Computes ``accuracy``, and ``f1_macro``, the mean over the classes that occur in either."""
    from sklearn.metrics import f1_score

    *cells, counts = counted_pairs(references, predictions)
    f1_macro = float(f1_score(*cells, sample_weight=counts, average="macro", zero_division=0))
    return {"accuracy": accuracy(predictions, references), "f1_macro": f1_macro}


def counted_pairs(references: Integers, predictions: Integers) -> tuple[Integers, Integers, Integers]:
    """Returns the different pairs of a reference and a prediction, and how often each occurs.

    Scores of these, weighted by the counts, are those of all examples, and scikit-learn needs no memory for each.

    Args:
        references, predictions: (N,), class ids.

    >>> [values.tolist() for values in counted_pairs(np.array([0, 1, 1, 0]), np.array([0, 2**40, 2**40, 0]))]
    [[0, 1], [0, 1099511627776], [2, 2]]
    """
    lowest = int(min(references.min(), predictions.min()))
    classes = int(max(references.max(), predictions.max())) - lowest + 1
    if classes**2 > np.iinfo(np.int64).max:  # a pair would have no number of its own
        ids, places = np.unique([references, predictions], return_inverse=True)
        rows, columns, counts = counted_pairs(*places.reshape(2, -1))
        return ids[rows], ids[columns], counts
    pairs, counts = np.unique((references - lowest) * classes + (predictions - lowest), return_counts=True)
    return pairs // classes + lowest, pairs % classes + lowest, counts


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
    """Computes the correlations ``pearson`` and ``spearmanr``, in [-1, 1] or NaN, and ``mse``, at least 0."""
    return {
        # The first one takes the place of a main metric that predictions alone do not give: larger has to be better.
        "pearson": pearson(predictions, references),
        "spearmanr": spearman(predictions, references),
        # Not scikit-learn's, which refuses the NaN of a model that has diverged.
        "mse": float(np.mean(np.square(predictions - references))),
    }


def glue(task: str, predictions: Any, references: Any) -> dict[str, float]:
    """Computes the scores of a task of `GLUE_SCORES`.

    If there are two, ``combined_score`` is their mean, as in transformers' ``run_glue.py`` and in GLUE's average over
    its tasks.

    Args:
        task: its name there.
        predictions, references: (N,) int64, or float64 for ``stsb``, N ≥ 1, as `checked` returns them; `compute` takes
            other forms and checks them.
    """
    scores = {name: _OF_GLUE[name](predictions, references) for name in GLUE_SCORES[task]}
    return scores if len(scores) == 1 else {**scores, "combined_score": sum(scores.values()) / len(scores)}


def pearson(predictions: Floats, references: Floats) -> float:
    """Computes the linear correlation (`scipy.stats.pearsonr`), in [-1, 1].

    Args:
        predictions, references: (N,) floats.

    Returns:
        NaN, without a warning, where the correlation is undefined: predictions or references are all equal (a single
        example included), or a value is NaN or infinite.

    >>> round(pearson(np.array([1.0, 2, 3]), np.array([1.0, 2, 2])), 6)  # 1 / √(2 · 2/3)
    0.866025
    """
    from scipy import stats

    if _is_constant(predictions) or _is_constant(references) or not np.isfinite([predictions, references]).all():
        return math.nan
    # scipy centres the values once; where their spread is tiny beside the mean, the rounding of that mean is as large
    # as the spread, and scipy warns. Values that are centred beforehand are centred twice.
    return float(stats.pearsonr(predictions - predictions.mean(), references - references.mean()).statistic)


def spearman(predictions: Floats, references: Floats) -> float:
    """Computes the rank correlation (`scipy.stats.spearmanr`), in [-1, 1]; equal values share their mean rank.

    Args:
        predictions, references: (N,) floats; infinite values have ranks like others.

    Returns:
        NaN, without a warning, where the correlation is undefined: predictions or references are all equal (a single
        example included), or a value is NaN.

    >>> round(spearman(np.array([1.0, 2, 30]), np.array([0.0, 5, 5])), 6)  # ranks 1 2 3 and 1 2.5 2.5
    0.866025
    """
    from scipy import stats

    if _is_constant(predictions) or _is_constant(references) or np.isnan([predictions, references]).any():
        return math.nan
    return float(stats.spearmanr(predictions, references).statistic)


def expected_calibration_error(probabilities: Floats, labels: Integers) -> float:
    """Computes the expected calibration error with 15 bins of equal width (Guo et al. 2017), in [0, 1].

    Args:
        probabilities: (N, C). With class ids, the probability of the most probable class is compared with the accuracy;
            otherwise the probability of each label of each example with its frequency.
        labels: class ids, (N,), or 0 and 1, (N, C).
    """
    if labels.ndim == 1:
        stated, is_right = probabilities.max(axis=-1), probabilities.argmax(axis=-1) == labels
    else:
        stated, is_right = probabilities.ravel(), labels.ravel() == 1
    bins = np.minimum((stated * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=stated - is_right, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(stated))


def _is_constant(values: Floats) -> bool:
    return bool((values == values[0]).all())


def f1_of_ones(predictions: Integers, references: Integers) -> float:
    """Computes F1 of class 1, in [0, 1]; 0 where it is neither predicted nor true."""
    from sklearn.metrics import f1_score

    return float(f1_score(references == 1, predictions == 1, zero_division=0))


def matthews_correlation(predictions: Integers, references: Integers) -> float:
    """Computes the correlation of classes (Gorodkin 2004), in [-1, 1]; 0 where either side has one class only."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(references) == 0:  # scikit-learn warns if both sides have the same single class
        return 0.0
    return float(matthews_corrcoef(references, predictions))


_OF_GLUE: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy,
    "f1": f1_of_ones,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearmanr": spearman,
}
_SCORES: dict[str, Callable[[Any, Any], dict[str, float]]] = {
    "accuracy": lambda predictions, references: {"accuracy": accuracy(predictions, references)},
    "classification": classification,
    "multi_label": multi_label,
    "regression": regression,
}


# ---- ranges ---------------------------------------------------------------------------------------------------------


def score_range(name: str, scores: Collection[str] = ()) -> tuple[float, float | None]:
    """Returns the lowest and the highest value that a score can have; None for no highest one.

    Args:
        name: name of the score in the results of a run, without ``eval_``.
        scores: names of all scores of the run; those of SQuAD are percentages, and have names of other scores.

    >>> score_range("accuracy"), score_range("pearson"), score_range("mse"), score_range("f1", ("exact_match", "f1"))
    ((0.0, 1.0), (-1.0, 1.0), (0.0, None), (0.0, 100.0))
    >>> score_range("combined_score", ("pearson", "spearmanr")), score_range("combined_score", ("accuracy", "f1"))
    ((-1.0, 1.0), (0.0, 1.0))
    """
    if name.endswith(("loss", "mse", "perplexity")):
        return 0.0, None
    if not {"exact", "exact_match"}.isdisjoint(scores):
        return 0.0, 100.0
    is_correlation = name.startswith(_CORRELATIONS) or (name == "combined_score" and "pearson" in scores)
    return (-1.0, 1.0) if is_correlation else (0.0, 1.0)


def score_limits(name: str, scores: Collection[str] = ()) -> tuple[float, float]:
    """Returns the ends of `score_range` for scores of one known range; infinite ones for others, such as those of a
    third party.

    >>> score_limits("class/spam/f1"), score_limits("level_error")
    ((0.0, 1.0), (-inf, inf))
    """
    name = name.rpartition("/")[2]
    if name not in _LIMITED:
        return -math.inf, math.inf
    low, high = score_range(name, scores)
    return low, math.inf if high is None else high
