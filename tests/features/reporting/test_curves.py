"""Curves of a training: where their axes begin, what is not drawn, and what is said of it."""

from __future__ import annotations

import math
import re

import pytest

from bertkit.features.reporting.charts import curve_section, not_finite, overlay_curves, throughput
from tests.features.reporting.conftest import drawn


def charts(history, main=None):
    return {part.name: part for part in curve_section(history, main, {}, []).parts}


def entries(key, *values):
    return [{"step": 10 * number, key: value} for number, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("key", "values", "limits"),
    [
        ("eval_accuracy", (0.97, 0.98), (0, 1)),
        ("eval_pearson", (0.7, 0.8), (0, 1)),
        ("eval_pearson", (-0.7, 0.8), (-1, 1)),
        ("masked_lm_accuracy", (0.1, 0.2), (0, 1)),
    ],
)
def test_axes_of_scores_are_their_ranges(key, values, limits):
    [chart] = charts(entries(key, *values)).values()
    assert drawn(chart).get_ylim() == limits
    assert chart.note == ""
    [both] = overlay_curves({"_a": entries(key, *values), "b": entries(key, *values)}, [key]).parts
    assert drawn(both).get_ylim() == limits
    assert [text.get_text() for text in drawn(both).get_legend().get_texts()] == ["_a", "b"]


def test_percentages_of_questions_end_at_100():
    history = [{"step": step, "eval_exact": 0.0, "eval_HasAns_exact": 0.0, "eval_f1": 0.5} for step in (1, 2)]
    [chart] = charts(history, "f1").values()
    assert drawn(chart).get_ylim() == (0, 100)
    assert [line.get_label() for line in drawn(chart).get_lines()] == ["f1", "exact", "HasAns exact"]


def test_ticks_have_no_factor_above_the_axis():
    rates = [{"step": 1_000_000 * step, "learning_rate": 1e-4 / step} for step in range(1, 9)]
    axes = drawn(charts(rates)["learning-rate"])
    axes.figure.draw_without_rendering()
    assert axes.yaxis.get_offset_text().get_text() == axes.xaxis.get_offset_text().get_text() == ""
    assert "1e-4" in [tick.get_text() for tick in axes.get_yticklabels()]
    assert "8e+6" in [tick.get_text() for tick in axes.get_xticklabels()]


@pytest.mark.parametrize("key", ["learning_rate", "grad_norm", "loss", "eval_mse", "eval_acme/Points@10"])
def test_other_axes_begin_at_0(key):
    [chart] = charts(entries(key, 30.0, 10.0)).values()
    low, high = drawn(chart).get_ylim()
    assert low == 0
    assert high > 30
    assert re.fullmatch("[a-z0-9-]+", chart.name)
    assert chart.note == ""


@pytest.mark.parametrize("key", ["loss", "eval_loss", "eval_perplexity"])
def test_an_axis_not_from_0_is_noted(key):
    [chart] = charts(entries(key, 1.39, 1.38)).values()
    assert drawn(chart).get_ylim()[0] > 1
    assert chart.note == "The vertical axis does not begin at 0."
    [whole] = charts(entries("grad_norm", 1.39, 1.38)).values()
    assert drawn(whole).get_ylim()[0] == 0


def test_a_baseline_far_above_a_curve_does_not_flatten_it():
    baselines = {"perplexity": {"uniform": 30_522.0, "unigram": 800.0}, "accuracy": {"chance": 0.5}}
    history = entries("eval_perplexity", 900.0, 40.0) + entries("eval_accuracy", 0.1, 0.2)
    parts = {part.name: part for part in curve_section(history, None, baselines, []).parts}
    axes = drawn(parts["perplexity"])
    assert axes.get_ylim()[1] < 1_000
    assert len(axes.get_lines()) == 2
    assert parts["perplexity"].note == "Above the chart: uniform, 30,522."
    assert "uniform 30,522; unigram 800" in parts["perplexity"].alt
    assert len(drawn(parts["scores"]).get_lines()) == 2


def test_values_that_are_not_finite_are_left_out_and_said():
    history = entries("grad_norm", 1.0, math.inf, 2.0, math.nan) + entries("eval_loss", 1.0, math.nan, 0.5)
    assert drawn(charts(history)["grad-norm"]).get_lines()[0].get_ydata().tolist() == [1.0, 2.0]
    assert "nan" not in charts(history)["loss"].alt
    assert not_finite(history) == [
        "The gradient norm was not finite in 2 of 4 logs, first at step 20; its curve leaves this out.",
        "The validation loss was not finite in 1 of 3 logs, first at step 20; its curve leaves this out.",
    ]
    assert not_finite(history[:1]) == []


def test_throughput_does_not_reach_across_a_resumption():
    """A run that was resumed at step 3 of 10: its time and tokens begin again."""
    history = [
        {"step": step, "train_runtime": seconds, "num_input_tokens_seen": 100 * step, "train_tokens_per_second": rate}
        for step, seconds, rate in (
            (1, 1.0, 100.0),
            (2, 2.0, 100.0),
            (5, 8.0, 25.0),
            (6, 10.0, 30.0),
            (7, 12.0, 400 / 12),
        )
    ]
    steps, values = throughput(history)
    assert steps == [2, 6, 7]
    assert values == pytest.approx([100.0, 50.0, 50.0])


def test_curves_have_baselines_and_phases():
    history = [
        {"step": step, "loss": 8 - step, "masked_lm_loss": 7.5 - step, "learning_rate": 1e-3, "grad_norm": 1.0}
        for step in (1, 2)
    ]
    history += [
        {"step": step, "eval_loss": 8 - step, "eval_masked_lm_loss": 7.7 - step, "eval_perplexity": 30_522.5}
        for step in (1, 2)
    ]
    baselines = {"masked_lm_loss": {"uniform": 7.6, "unigram": 6.5}}
    phases = [{"first_step": 0, "max_seq_length": 64}, {"first_step": 1, "max_seq_length": 128}]
    charts = {part.name: part for part in curve_section(history, None, baselines, phases).parts}
    assert set(charts) == {"loss", "masked-lm-loss", "perplexity", "learning-rate", "grad-norm"}
    assert charts["masked-lm-loss"].title == "Masked LM loss"
    for part in ("training 5.5000 at step 2", "validation 5.7000 at step 2", "uniform 7.6000", "unigram 6.5000"):
        assert part in charts["masked-lm-loss"].alt
    assert "30,522.5 at step 2" in charts["perplexity"].alt
    once = [entry for entry in history if "eval_perplexity" not in entry or entry["step"] == 2]
    assert "perplexity" not in {part.name for part in curve_section(once, None, baselines, phases).parts}
    assert curve_section([], None, {}, []) is None
