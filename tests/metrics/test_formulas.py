"""Formulas of scores: equal to scikit-learn's, scipy's and exact fractions, on degenerate inputs too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from bertkit.errors import DataError
from bertkit.metrics import formulas

OF_CLASSES = (formulas.accuracy, formulas.f1, formulas.f1_macro, formulas.matthews_correlation)
OF_LABEL_SETS = (formulas.subset_accuracy, formulas.multi_label_f1_micro, formulas.multi_label_f1_macro)
OF_NUMBERS = (formulas.mean_squared_error, formulas.pearson, formulas.spearman)


def pairs(elements: st.SearchStrategy, min_size: int = 1) -> st.SearchStrategy:
    """Predictions and references, of a few examples: one class only, and constants, are among them."""
    rows = st.lists(st.tuples(elements, elements), min_size=min_size, max_size=12)
    return rows.map(lambda rows: tuple(zip(*rows, strict=True)))


def label_sets() -> st.SearchStrategy:
    """(2, N, C), with C at least 2: of a single column scikit-learn makes two classes, not one label."""
    shapes = array_shapes(min_dims=2, max_dims=2, max_side=6).filter(lambda shape: shape[1] > 1)
    return shapes.flatmap(lambda shape: arrays(np.int64, (2, *shape), elements=st.integers(0, 1)))


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(deadline=None)
@given(pairs(st.integers(-1, 2)))
def test_scores_of_classes_are_those_of_scikit_learn(pair):
    predictions, references = pair
    assert formulas.accuracy(*pair) == near(sklearn.metrics.accuracy_score(references, predictions))
    of_class_1 = sklearn.metrics.f1_score(references, predictions, labels=[1], average="macro", zero_division=0)
    assert formulas.f1(*pair) == near(of_class_1)
    macro = sklearn.metrics.f1_score(references, predictions, average="macro", zero_division=0)
    assert formulas.f1_macro(*pair) == near(macro)
    assert formulas.matthews_correlation(*pair) == near(sklearn.metrics.matthews_corrcoef(references, predictions))


@settings(deadline=None)
@given(label_sets())
def test_scores_of_label_sets_are_those_of_scikit_learn(pair):
    predictions, references = pair
    assert formulas.subset_accuracy(*pair) == near(sklearn.metrics.accuracy_score(references, predictions))
    for average, formula in (("micro", formulas.multi_label_f1_micro), ("macro", formulas.multi_label_f1_macro)):
        expected = sklearn.metrics.f1_score(references, predictions, average=average, zero_division=0)
        assert formula(*pair) == near(expected)


# Quarters are exact, many are equal, and few differ so little that scipy's own rounding would show.
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
@settings(deadline=None)
@given(pairs(st.integers(-20, 20).map(lambda number: number / 4), min_size=2))
def test_scores_of_numbers_are_those_of_scipy_and_scikit_learn(pair):
    predictions, references = pair
    mse = sklearn.metrics.mean_squared_error(references, predictions)
    assert formulas.mean_squared_error(*pair) == near(mse)
    assert formulas.pearson(*pair) == near(stats.pearsonr(predictions, references).statistic)
    assert formulas.spearman(*pair) == near(stats.spearmanr(predictions, references).statistic)


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
@settings(deadline=None)
@given(pairs(st.floats(), min_size=2))
def test_ranks_are_those_of_scipy_for_infinite_tiny_and_missing_values(pair):
    assert formulas.spearman(*pair) == near(stats.spearmanr(*pair).statistic)


def test_a_million_examples_overflow_nothing():
    generator = np.random.default_rng(0)
    references = generator.integers(0, 3, 1_000_000)
    predictions = np.where(generator.random(1_000_000) < 0.5, references, 0)
    expected = sklearn.metrics.matthews_corrcoef(references, predictions)
    assert formulas.matthews_correlation(predictions, references) == near(expected)
    expected = stats.spearmanr(predictions, references).statistic
    assert formulas.spearman(predictions, references) == near(expected)


def exact_pearson(x: tuple[float, ...], y: tuple[float, ...]) -> float:
    """In rational numbers, up to one root; NaN for constants."""
    centred = [[Fraction(value) - sum(map(Fraction, values)) / len(values) for value in values] for values in (x, y)]
    xy, xx, yy = (sum(a * b for a, b in zip(centred[i], centred[j], strict=True)) for i, j in ((0, 1), (0, 0), (1, 1)))
    if not xx * yy:
        return math.nan
    size = math.sqrt(xy**2 / (xx * yy))
    return size if xy > 0 else -size


@settings(deadline=None)
@given(pairs(st.floats(allow_nan=False, allow_infinity=False)))
def test_correlation_is_exact_for_floats_of_any_size(pair):
    assert formulas.pearson(*pair) == near(exact_pearson(*pair))


@settings(deadline=None)
@given(pairs(st.integers(0, 6)), st.integers(30, 48), st.integers(-300, 300))
def test_a_spread_that_is_tiny_beside_the_mean_is_enough(pair, shift, scale):
    """Adding 5 · 2^shift and then multiplying by 2^scale is exact here, and changes no correlation."""
    predictions, references = pair
    moved = [math.ldexp(5 * 2**shift + value, scale) for value in predictions]
    assert formulas.pearson(moved, references) == near(formulas.pearson(predictions, references))
    assert formulas.pearson(references, moved) == near(formulas.pearson(predictions, references))


@settings(deadline=None)
@given(pairs(st.floats(-1e3, 1e3), min_size=2))
def test_a_correlation_never_leaves_its_range(pair):
    for x, y in (pair, (pair[0], pair[0]), (pair[0], [-value for value in pair[0]])):
        for formula in (formulas.pearson, formulas.spearman):
            score = formula(x, y)
            assert math.isnan(score) or -1 <= score <= 1


@pytest.mark.parametrize("formula", [formulas.pearson, formulas.spearman])
@pytest.mark.parametrize(
    ("predictions", "references"),
    [([0.1] * 3, [1, 2, 3]), ([1, 2, 3], [0.1] * 3), ([2.5], [2.5]), ([1, math.nan, 2], [1, 2, 3])],
    ids=["constant predictions", "constant references", "one example", "NaN"],
)
def test_a_correlation_that_is_not_defined_is_nan_without_a_warning(formula, predictions, references):
    assert math.isnan(formula(predictions, references))


def test_an_infinite_value_has_a_rank_but_no_linear_correlation():
    assert math.isnan(formulas.pearson([1, math.inf, 2], [1, 3, 2]))
    assert formulas.spearman([1, math.inf, 2], [1, 3, 2]) == near(1)


def test_a_score_of_half_precision_inputs_is_not_rounded_to_it():
    """4096 differences of 1 and one of 0.5: the nearest float16 is 1."""
    predictions = np.ones(4097, np.float16)
    predictions[0] = 0.5
    assert formulas.mean_squared_error(predictions, np.zeros_like(predictions)) == near(4096.25 / 4097)


@pytest.mark.parametrize("formula", OF_CLASSES + OF_LABEL_SETS + OF_NUMBERS)
def test_no_examples_have_no_score(formula):
    with pytest.raises(DataError, match="nothing to score"):
        formula([], [])


@pytest.mark.parametrize("formula", OF_CLASSES + OF_NUMBERS)
def test_predictions_and_references_have_to_agree_in_number(formula):
    with pytest.raises(ValueError, match=r"predictions are \(1,\), references \(2,\); expected .*\(N,\)"):
        formula([1], [1, 0])
    with pytest.raises(ValueError, match=r"predictions are int64 of shape \(2, 1\); expected .*\(N,\)"):
        formula([[1], [0]], [[1], [0]])


@pytest.mark.parametrize("formula", OF_CLASSES)
def test_logits_are_no_class_ids(formula):
    with pytest.raises(ValueError, match=r"predictions are float64 of shape .* expected one class id an example"):
        formula([0.7, 1.0], [1, 1])
    with pytest.raises(ValueError, match="references are object of shape"):
        formula([1, 1], [1, None])


@pytest.mark.parametrize("formula", OF_LABEL_SETS)
def test_label_sets_hold_nothing_but_0_and_1(formula):
    with pytest.raises(ValueError, match=r"references\[1, 0\] is 2; expected 0 or 1"):
        formula([[0, 1], [1, 1]], [[0, 1], [2, 1]])
    with pytest.raises(ValueError, match=r"predictions are \(1, 2\), references \(1, 3\)"):
        formula([[0, 1]], [[0, 1, 1]])
