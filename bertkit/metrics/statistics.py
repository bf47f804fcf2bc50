"""Statistics of scores: intervals and tests of scipy, applied to runs and to examples.

Dimension letters: N examples, R runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.metrics.terms import Terms

CONFIDENCE = 0.95
_RESAMPLES = 9999
_RESAMPLES_OF_SETS = 999  # if a metric is computed again for every sample of examples
_RESAMPLES_OF_MANY, _MANY = 1999, 10_000  # for more examples than that, where an interval needs fewer samples
_SEED = 0  # so that the same scores give the same interval

Measure = Callable[[Sequence[Any], Sequence[Any]], float]
"""Function that computes a metric of predictions and references for any selection of examples."""


def mean_interval(scores: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the bootstrap interval of the mean (percentile method, 95 %); None for fewer than two scores."""
    if len(scores) < 2:
        return None, None
    from scipy.stats import bootstrap

    found = bootstrap(
        (np.asarray(scores, dtype=np.float64),),
        np.mean,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def score_interval(
    predictions: Sequence[Any], references: Sequence[Any], measure: Measure, terms: Terms | None = None
) -> tuple[float | None, float | None]:
    """Returns the bootstrap interval of a score over examples (percentile method, 95 %); None for fewer than two.

    Args:
        predictions, references: (N,) each.
        measure: the metric.
        terms: the metric as a function of means; if it is None or gives another score, the metric is computed again
            for each sample, unless it is the mean of its values for single examples.
    """
    return _interval([predictions], references, measure, [terms], lambda scores: scores[0])


def paired_interval(
    a: Sequence[Any],
    b: Sequence[Any],
    references: Sequence[Any],
    measure: Measure,
    terms: tuple[Terms | None, Terms | None] = (None, None),
) -> tuple[float | None, float | None]:
    """Returns the interval of the score of ``b`` minus that of ``a`` for the same samples of examples.

    Args:
        a, b: predictions of two systems, (N,) each.
        references, measure: as for `score_interval`.
        terms: of both systems, as for `score_interval`.
    """
    return _interval([a, b], references, measure, terms, lambda scores: scores[1] - scores[0])


def _interval(
    runs: Sequence[Sequence[Any]],
    references: Sequence[Any],
    measure: Measure,
    terms: Sequence[Terms | None],
    combine: Callable[[Sequence[Any]], Any],
) -> tuple[float | None, float | None]:
    """Returns the interval of a function of the scores of systems on the same examples."""
    from scipy.stats import bootstrap

    number = len(references)
    if number < 2:
        return None, None
    known = [_checked(each, run, references, measure) for run, each in zip(runs, terms, strict=True)]
    options: dict[str, Any] = {"n_resamples": _RESAMPLES_OF_SETS, "vectorized": False}
    statistic: Callable[..., Any]
    if None not in known:
        columns = [column for values, _ in filter(None, known) for column in values.T]
        samples = _RESAMPLES if number <= _MANY else _RESAMPLES_OF_MANY
        options = {"n_resamples": samples, "vectorized": True, "paired": len(columns) > 1}

        def statistic(*samples: Any, axis: int = -1) -> Any:
            means = [sample.mean(axis=axis) for sample in samples]
            scores = []
            for values, function in filter(None, known):
                scores.append(function(*means[: values.shape[1]]))
                del means[: values.shape[1]]
            return combine(scores)
    else:
        columns = [np.arange(number)]

        def statistic(sample: Any) -> Any:
            rows = np.asarray(sample, dtype=np.int64)
            chosen = [references[row] for row in rows]
            return combine([measure([run[row] for row in rows], chosen) for run in runs])

    found = bootstrap(
        tuple(columns),
        statistic,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
        batch=50,
        **options,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _checked(
    terms: Terms | None, predictions: Sequence[Any], references: Sequence[Any], measure: Measure
) -> Terms | None:
    """Returns the terms if they give the score of all examples; else the values of single examples, if the score is
    their mean."""
    if terms is not None:
        values, function = terms
        if np.isclose(function(*values.mean(axis=0)), measure(predictions, references), rtol=1e-6, atol=1e-9):
            return terms
    of_examples = _values_of_examples([predictions], references, measure)
    return None if of_examples is None else (of_examples[:, None], lambda value: value)


@dataclass(frozen=True)
class Test:
    """Result of a comparison by examples or by runs.

    Attributes:
        difference: B − A.
        low, high: ends of the 95 % bootstrap interval of the difference; None if there are too few units.
        p: p-value of the two-sided permutation test; None if there are too few units.
        smallest_p: the smallest p-value that the test can give with this number of units.
        units: number of examples or of pairs of runs; for unpaired runs the numbers of both.
    """

    __test__ = False  # not a test for pytest

    difference: float
    low: float | None
    high: float | None
    p: float | None
    smallest_p: float | None
    units: tuple[int, ...]


def by_run(a: Sequence[float], b: Sequence[float], paired: bool) -> Test:
    """Compares the mean scores of runs with a permutation test; exact for up to about 8 runs of each.

    Args:
        a, b: scores of the runs, (R,) each.
        paired: runs at the same position have the same seed and fold.
    """
    from math import comb

    from scipy.stats import bootstrap, permutation_test

    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    difference = float(second.mean() - first.mean())
    units = (len(first),) if paired else (len(first), len(second))
    if min(units) < 2:
        return Test(difference, None, None, None, None, units)
    smallest = 2 ** (1 - len(first)) if paired else 2 / comb(sum(units), len(first))
    if not paired and len(first) != len(second):
        smallest = smallest / 2
    found = bootstrap(
        (first, second),
        _difference,
        paired=paired,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    test = permutation_test(
        (first, second),
        _difference,
        permutation_type="samples" if paired else "independent",
        vectorized=True,
        n_resamples=_RESAMPLES,
        rng=np.random.default_rng(_SEED),
    )
    interval = found.confidence_interval
    return Test(difference, float(interval.low), float(interval.high), float(test.pvalue), min(smallest, 1.0), units)


def by_example(
    a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]], references: Sequence[Any], measure: Measure
) -> Test:
    """Compares two systems on the same examples: paired bootstrap of the examples, and permutation of the pairs.

    The score of a system is the mean over its runs. A metric that is a mean over examples, such as accuracy, is
    resampled by the values of the examples; any other, such as F1, is computed again for each sample.

    Args:
        a, b: predictions of the runs of both systems, each (N,).
        references: (N,).
        measure: metric of a selection of predictions and references.
    """
    from scipy.stats import bootstrap, permutation_test

    number = len(references)
    score_a, score_b = (float(np.mean([measure(run, references) for run in runs])) for runs in (a, b))
    if number < 2:
        return Test(score_b - score_a, None, None, None, None, (number,))
    values = [_values_of_examples(runs, references, measure) for runs in (a, b)]
    options: dict[str, Any]
    statistic: Callable[..., Any]
    if values[0] is not None and values[1] is not None:
        data, statistic = (values[0], values[1]), _difference
        samples, options = _RESAMPLES, {"vectorized": True}
    else:
        # The samples are indices: those from 0 are predictions of A, those from N of B. A permutation exchanges both.
        runs_of = [_take(a, b, run) for run in range(max(len(a), len(b)))]
        data, samples = (np.arange(number), np.arange(number, 2 * number)), _RESAMPLES_OF_SETS

        def of_sets(first: Any, second: Any) -> float:
            chosen = (np.asarray(side, dtype=np.int64) for side in (first, second))
            score = [
                np.mean([measure([p[i] for i in side], [references[i % number] for i in side]) for p in runs_of])
                for side in chosen
            ]
            return float(score[1] - score[0])

        statistic, options = of_sets, {"vectorized": False}
    found = bootstrap(
        data,
        statistic,
        paired=True,
        n_resamples=samples,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
        batch=100,
        **options,
    )
    test = permutation_test(
        data,
        statistic,
        permutation_type="samples",
        n_resamples=samples,
        rng=np.random.default_rng(_SEED),
        batch=100,
        **options,
    )
    interval = found.confidence_interval
    smallest = max(2.0 ** (1 - number), 1 / (samples + 1))
    return Test(score_b - score_a, float(interval.low), float(interval.high), float(test.pvalue), smallest, (number,))


def _difference(first: Any, second: Any, axis: int = -1) -> Any:
    return np.mean(second, axis=axis) - np.mean(first, axis=axis)


def _take(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]], run: int) -> list[Any]:
    """Returns the predictions of a run of A followed by those of a run of B; the shorter system begins again."""
    return [*a[run % len(a)], *b[run % len(b)]]


def _values_of_examples(
    runs: Sequence[Sequence[Any]], references: Sequence[Any], measure: Measure
) -> np.ndarray | None:
    """Returns the metric of each example, averaged over the runs, (N,); None if the metric is not their mean."""
    totals = np.zeros(len(references))
    for run in runs:
        try:
            values = np.array([measure([p], [r]) for p, r in zip(run, references, strict=True)], dtype=np.float64)
        except Exception:  # metrics differ in what they raise for a single example
            return None
        if not np.isclose(values.mean(), measure(run, references), rtol=1e-9, atol=1e-12):
            return None
        totals += values
    return totals / len(runs)


@dataclass(frozen=True)
class Agreement:
    """Counts of examples that two systems get right.

    Attributes:
        both, only_a, only_b, neither: numbers of examples that both, one or none of them gets right.
        same: number of examples with the same prediction.
        mcnemar_p: exact p-value of McNemar's test of the same share right; 1 without discordant examples.
    """

    both: int
    only_a: int
    only_b: int
    neither: int
    same: int
    mcnemar_p: float


def agreement(a: Sequence[Any], b: Sequence[Any], references: Sequence[Any]) -> Agreement:
    """Compares predictions of two systems with the references, and with each other; an example is right as a whole."""
    from scipy.stats import binomtest

    right_a, right_b = ([p == r for p, r in zip(side, references, strict=True)] for side in (a, b))
    counts = dict.fromkeys(((True, True), (True, False), (False, True), (False, False)), 0)
    for pair in zip(right_a, right_b, strict=True):
        counts[pair] += 1
    only_a, only_b = counts[True, False], counts[False, True]
    p = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    same = sum(first == second for first, second in zip(a, b, strict=True))
    return Agreement(counts[True, True], only_a, only_b, counts[False, False], same, p)
