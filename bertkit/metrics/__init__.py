"""Metrics as ``evaluate.Metric`` classes that need no network.

``evaluate.load`` fetches a script from the Hub at call time; these metrics are part of the package. ``glue/sst2`` is
configuration ``sst2`` of the ``METRIC`` in ``glue.py``; its scores have the names of the same configuration of the
evaluate library's ``glue``.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from functools import cache
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
    if name not in names():
        raise RecipeError(f"unknown metric {name!r}; expected one of {', '.join(names())}{did_you_mean(name, names())}")
    module, _, config = name.partition("/")
    return importlib.import_module(f"bertkit.metrics.{module}").METRIC(config_name=config or None, keep_in_memory=True)


def compute(name: str, predictions: Any, references: Any, **options: Any) -> dict[str, float]:
    """Computes the scores of ``load(name).compute`` for arrays and lists, without the conversion to Arrow tables.

    The conversion takes milliseconds, too long for the thousands of samples of a comparison. Scores of numbers do not
    even import the evaluate library, which takes seconds.

    Args:
        name: as for `load`.
        predictions, references: in the form of the metric, with integers and floats of 64 bits where types matter.
        options: further arguments of the metric.
    """
    if name not in _OF_LISTS and name in names():
        from bertkit.metrics.scores import scores_of

        return scores_of(name, predictions, references, **options)
    return dict(_loaded(name)._compute(predictions=predictions, references=references, **options))


@cache
def _loaded(name: str) -> Any:
    return load(name)
