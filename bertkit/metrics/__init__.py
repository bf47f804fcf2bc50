"""Metrics as plain functions, which need no network: `compute`; and as ``evaluate.Metric``: `load`.

``evaluate.load`` fetches a script from the Hub at call time; these metrics are part of the package. ``glue/sst2`` has
the scores of the configuration ``sst2`` of the evaluate library's ``glue``.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from bertkit.errors import RecipeError, did_you_mean

if TYPE_CHECKING:
    import evaluate

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

_WITHOUT_LIMIT = ("loss", "mse", "perplexity")
_CORRELATIONS = ("pearson", "spearmanr", "matthews_correlation")
_LIMITED = {
    "accuracy",
    "balanced_accuracy",
    "average_precision",
    "exact",
    "exact_match",
    "precision",
    "recall",
    "roc_auc",
}
_LIMITED |= {"f1", "f1_macro", "f1_micro", *(f"overall_{name}" for name in ("accuracy", "f1", "precision", "recall"))}
_LIMITED |= set(_CORRELATIONS)
_OF_LISTS = ("seqeval", "squad", "squad_v2")  # the other metrics score numbers, see `bertkit.metrics.scores`


def score_range(name: str, scores: Collection[str] = ()) -> tuple[float, float | None]:
    """Returns the lowest and the highest value that a score can have; None for no highest one.

    Args:
        name: name of the score in the results of a run, without ``eval_``.
        scores: names of all scores of the run; those of SQuAD are percentages, and have names of other scores.

    >>> score_range("accuracy"), score_range("pearson"), score_range("mse"), score_range("f1", ("exact_match", "f1"))
    ((0.0, 1.0), (-1.0, 1.0), (0.0, None), (0.0, 100.0))
    """
    if name.endswith(_WITHOUT_LIMIT):
        return 0.0, None
    if not {"exact", "exact_match"}.isdisjoint(scores):
        return 0.0, 100.0
    return (-1.0, 1.0) if name.startswith(_CORRELATIONS) else (0.0, 1.0)


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


def names() -> list[str]:
    """Returns the names that `load` accepts.

    >>> names()  # doctest: +NORMALIZE_WHITESPACE
    ['accuracy', 'classification', 'glue/ax', 'glue/cola', 'glue/mnli', 'glue/mnli_matched', 'glue/mnli_mismatched',
     'glue/mrpc', 'glue/qnli', 'glue/qqp', 'glue/rte', 'glue/sst2', 'glue/stsb', 'glue/wnli', 'multi_label',
     'regression', 'seqeval', 'squad', 'squad_v2']
    """
    own = ["accuracy", "classification", "multi_label", "regression"]
    return sorted([*own, *_OF_LISTS, *(f"glue/{task}" for task in GLUE_SCORES)])


def load(name: str) -> evaluate.Metric:
    """Returns the metric of that name, which keeps its inputs in memory, so that several can be in use at once.

    Raises:
        RecipeError: the name is unknown.
    """
    _check(name)
    from bertkit.metrics.adapter import Metric

    return Metric(name)


def compute(name: str, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
    """Computes the scores of ``load(name).compute``, without importing the evaluate library, which takes seconds.

    Args:
        name: as for `load`.
        predictions, references: in the form of the metric, with integers and floats of 64 bits where types matter.
        options: further arguments of the metric.

    Raises:
        RecipeError: the name is unknown.
    """
    _check(name)
    if name == "seqeval":
        from bertkit.metrics.entities import seqeval

        return seqeval(predictions, references, **options)
    if name in _OF_LISTS:
        from bertkit.metrics import squad

        return dict(getattr(squad, name)(predictions, references, **options))
    from bertkit.metrics.scores import scores_of

    return scores_of(name, predictions, references, **options)


def _check(name: str) -> None:
    if name not in names():
        raise RecipeError(f"unknown metric {name!r}; expected one of {', '.join(names())}{did_you_mean(name, names())}")
