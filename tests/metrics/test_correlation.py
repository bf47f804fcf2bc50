"""Correlations: equal to exact fractions, NaN without a warning where they are undefined."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.metrics import pearson, spearman


def pairs(elements: st.SearchStrategy, min_size: int = 1) -> st.SearchStrategy:
    """Predictions and references of a few examples; constants are among them."""
    rows = st.lists(st.tuples(elements, elements), min_size=min_size, max_size=12)
    return rows.map(lambda rows: tuple(np.array(values, np.float64) for values in zip(*rows, strict=True)))


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)


def exact_pearson(x: np.ndarray, y: np.ndarray) -> float:
    """In rational numbers, up to one root; NaN for constants."""
    centred = [[Fraction(value) - sum(map(Fraction, values)) / len(values) for value in values] for values in (x, y)]
    xy, xx, yy = (sum(a * b for a, b in zip(centred[i], centred[j], strict=True)) for i, j in ((0, 1), (0, 0), (1, 1)))
    if not xx * yy:
        return math.nan
    size = math.sqrt(xy**2 / (xx * yy))
    return size if xy > 0 else -size


def ranks(values: np.ndarray) -> np.ndarray:
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


# Beyond these sizes scipy's sums overflow, or its quotients underflow.
@given(pairs(st.floats(-1e150, 1e150).filter(lambda value: value == 0 or abs(value) > 1e-150)))
def test_correlation_is_exact_for_floats(pair):
    assert pearson(*pair) == near(exact_pearson(*pair))


@given(pairs(st.floats(allow_nan=False)))
def test_rank_correlation_is_correlation_of_ranks(pair):
    assert spearman(*pair) == near(exact_pearson(*map(ranks, pair)))


def test_a_million_examples_overflow_nothing():
    generator = np.random.default_rng(0)
    references = generator.integers(0, 3, 1_000_000).astype(np.float64)
    predictions = np.where(generator.random(1_000_000) < 0.5, references, 0)
    # Equal values have equal ranks: those of three values.
    by_rank = [np.unique(values, return_inverse=True, return_counts=True)[1:] for values in (predictions, references)]
    x, y = (((np.cumsum(counts) - (counts - 1) / 2)[inverse]) for inverse, counts in by_rank)
    assert spearman(predictions, references) == near(float(np.corrcoef(x, y)[0, 1]))


@given(pairs(st.integers(0, 6)), st.integers(30, 48), st.integers(-300, 300))
def test_spread_may_be_tiny_beside_the_mean(pair, shift, scale):
    """Adding 5 · 2^shift and then multiplying by 2^scale is exact here, and changes no correlation."""
    predictions, references = pair
    moved = np.ldexp(5 * 2.0**shift + predictions, scale)
    assert pearson(moved, references) == near(pearson(predictions, references))
    assert pearson(references, moved) == near(pearson(predictions, references))


@given(pairs(st.floats(-1e3, 1e3), min_size=2))
def test_a_correlation_never_leaves_its_range(pair):
    for x, y in (pair, (pair[0], pair[0]), (pair[0], -pair[0])):
        for correlation in (pearson, spearman):
            score = correlation(x, y)
            assert math.isnan(score) or -1 <= score <= 1


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize(
    ("predictions", "references"),
    [([0.1] * 3, [1, 2, 3]), ([1, 2, 3], [0.1] * 3), ([2.5], [2.5]), ([1, math.nan, 2], [1, 2, 3])],
    ids=["constant predictions", "constant references", "one example", "NaN"],
)
def test_undefined_correlation_is_nan_without_warning(correlation, predictions, references):
    assert math.isnan(correlation(np.array(predictions, np.float64), np.array(references, np.float64)))


def test_infinite_values_have_only_ranks():
    predictions, references = np.array([1, math.inf, 2]), np.array([1.0, 3, 2])
    assert math.isnan(pearson(predictions, references))
    assert spearman(predictions, references) == near(1)
