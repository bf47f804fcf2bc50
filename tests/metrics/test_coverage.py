"""Coverage of all intervals, and rate of false alarms of all tests, in 4,000 simulated repetitions each.

An interval must hold the truth in 93 to 97 %. Without a difference a p-value must be at most 0.05 in at most 6 %, and
in at least 3 % if the numbers of runs let the test use the level. The error of 4,000 repetitions is 0.35 points.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import ndtri

from bertkit.metrics import statistics
from bertkit.metrics.intervals import mean_interval, score_interval, terms_of
from bertkit.metrics.statistics import by_example, by_run

from .conftest import accuracy, f1

pytestmark = pytest.mark.slow
REPETITIONS = 4000
CORRECT = 0.8  # probability that a run predicts the class of an example
RHO = 0.7  # correlation of a run with the difficulty of the examples
EXAMPLES = (50, 2000)


def share(outcomes):
    outcomes = list(outcomes)
    assert len(outcomes) == REPETITIONS
    return np.mean(outcomes)


def classes(draw, number, runs):
    """Draws classes of examples, (N,), and predictions of runs, (R, N), which are wrong on difficult ones."""
    gold, difficulty = draw.integers(0, 2, number), draw.normal(size=number)
    ability = RHO * difficulty + np.sqrt(1 - RHO**2) * draw.normal(size=(runs, number))
    return gold, np.where(ability < ndtri(CORRECT), gold, 1 - gold)


def numbers(draw, number, runs):
    """Draws numbers with a correlation of 0.8 with each run."""
    gold = draw.normal(size=number)
    return gold, CORRECT * gold + np.sqrt(1 - CORRECT**2) * draw.normal(size=(runs, number))


def pearson(predictions, references):
    return float(np.corrcoef(predictions, references)[0, 1])


METRICS = {"accuracy": (classes, accuracy), "f1": (classes, f1), "pearson": (numbers, pearson)}
TRUTH = {"accuracy": CORRECT, "f1": CORRECT, "pearson": CORRECT}  # F1 of balanced classes is 2 p / (2 p + 2 (1 - p))


# ---- over seeds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_intervals_over_seeds(runs):
    draw = np.random.default_rng(runs)
    held = (
        low <= 0.6 <= high for low, high in (mean_interval(draw.normal(0.6, 0.02, runs)) for _ in range(REPETITIONS))
    )
    assert 0.93 <= share(held) <= 0.97


@pytest.mark.parametrize(
    ("runs", "least", "holds"),
    [
        ((2, 2), 0.0, False),  # Welch's test of four runs rejects in 2 %
        ((3, 2), 0.03, True),
        ((3, 4), 0.03, True),
        ((5, 5), 0.03, True),
        ((2, 5), 0.0, False),  # the least p-value is 2 / 21
        ((2, 10), 0.03, False),
        ((10, 10), 0.03, True),
    ],
)
def test_settings_without_a_difference(runs, least, holds):
    """The test rejects as rarely as it promises; the interval of the difference holds 0, with enough runs."""
    draw = np.random.default_rng(runs)
    tests = [by_run(*(draw.normal(0.6, 0.02, number) for number in runs)) for _ in range(REPETITIONS)]
    assert least <= share(test.p <= 0.05 for test in tests) <= 0.06
    if holds:
        assert 0.93 <= share(test.low <= 0 <= test.high for test in tests) <= 0.97


# ---- over examples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", EXAMPLES)
@pytest.mark.parametrize("name", METRICS)
def test_intervals_of_a_score(name, number):
    sample, metric = METRICS[name]
    draw = np.random.default_rng(number)

    def held():
        gold, [run] = sample(draw, number, 1)
        low, high = score_interval(run, gold, metric, terms_of(name, run, gold))
        return low <= TRUTH[name] <= high

    assert 0.93 <= share(held() for _ in range(REPETITIONS)) <= 0.97


@pytest.mark.parametrize("number", EXAMPLES)
@pytest.mark.parametrize(("name", "runs"), [("accuracy", (1, 1)), ("f1", (1, 1)), ("f1", (3, 2)), ("pearson", (1, 1))])
def test_models_without_a_difference(monkeypatch, name, runs, number):
    """The interval of the difference holds 0, and the test rejects as rarely as it promises."""
    monkeypatch.setattr(statistics, "_RESAMPLES", 39)  # of which 0.05 is a p-value, so that the level is used
    sample, metric = METRICS[name]
    draw = np.random.default_rng((number, *runs))
    tests = []
    for _ in range(REPETITIONS):
        gold, predictions = sample(draw, number, sum(runs))
        a, b = predictions[: runs[0]], predictions[runs[0] :]
        tests.append(by_example(list(a), list(b), gold, metric, partial(terms_of, name)))
    assert 0.93 <= share(test.low <= 0 <= test.high for test in tests) <= 0.97
    assert share(test.p <= 0.05 for test in tests) <= 0.06
