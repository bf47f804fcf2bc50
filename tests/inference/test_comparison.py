"""Comparison of systems: which test answers which question, corrections, and the sentences that readers see."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import f1_score

from bertkit.inference.comparison import System, collapse_notes, compare_systems, system_of
from bertkit.inference.outcome import Outcome, task_inference
from bertkit.metrics import pearson
from bertkit.metrics.intervals import terms_of
from bertkit.runtime.errors import DataError
from bertkit.tasks.registry import load_recipe, task_of_recipe

DRAW = np.random.default_rng(1)
GOLD = DRAW.integers(0, 2, 200)


def runs(share, number, draw=DRAW):
    return [np.where(draw.random(len(GOLD)) < share, GOLD, 1 - GOLD) for _ in range(number)]


def scores(predictions, references):
    return {
        "accuracy": float(np.mean(predictions == references)),
        "f1": float(f1_score(references, predictions, zero_division=0)),
    }


def system(name, predictions, **options):
    to_labels = options.pop("to_labels", lambda values: [["no", "yes"][value] for value in values])
    return System(name, predictions, GOLD, scores, terms_of, "accuracy", to_labels, **options)


def numbers(name, predictions):
    gold = np.linspace(0, 1, 50)
    return System(
        name, [predictions], gold, lambda p, r: {"pearson": pearson(p, r)}, terms_of, "pearson", lambda v: v.tolist()
    )


def test_answers_are_right_as_they_are_scored():
    """Articles do not count, and no answer is right where there is none."""
    task = task_of_recipe(load_recipe("finetune/squad/v2"))
    inference = task_inference(task)
    gold = [{"id": str(n), "answers": {"text": text}} for n, text in enumerate((["cat"], [], ["plot"]))]

    def answers(*texts_and_odds):
        rows = enumerate(texts_and_odds)
        return [{"id": str(n), "prediction_text": text, "no_answer_probability": odds} for n, (text, odds) in rows]

    a, b = answers(("The cat", -1.0), ("cat", 1.0), ("plot", -1.0)), answers(("cat", -1.0), ("cat", -1.0), ("it", -1.0))
    systems = [
        System(name, [own], gold, task.compute_metrics, inference.terms, task.main_metric, inference.to_labels)
        for name, own in (("a", a), ("b", b))
    ]
    [found] = compare_systems(systems, "exact").comparisons
    assert (found.scores_a[0], round(found.scores_b[0], 2)) == (100.0, 33.33)
    assert (found.agreement.both, found.agreement.only_a, found.agreement.only_b) == (1, 2, 0)
    assert [row["a"]["prediction_text"] for row in found.only_a] == ["", "plot"]


def test_single_runs_answer_one_question():
    [comparison] = compare_systems([system("one", runs(0.7, 1)), system("two", runs(0.9, 1))]).comparisons
    assert comparison.by_example.method == "McNemar's exact test"
    assert comparison.by_example.p == pytest.approx(comparison.agreement.mcnemar_p)
    assert comparison.models.startswith("Do these models differ on this data? Yes, two is higher: accuracy B − A +0.")
    assert comparison.settings == (
        "Do these settings differ? Not tested: 1 run of A and 1 run of B; it needs two or more runs of each (--seeds)."
    )


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_unequal_numbers_of_runs(metric):
    """The difference is that of the means of the scores shown, and the winner has the higher one."""
    a, b = system("a", runs(0.8, 3)), system("b", [*runs(0.95, 1), *runs(0.7, 1)])
    [comparison] = compare_systems([a, b], metric).comparisons
    difference = np.mean(comparison.scores_b) - np.mean(comparison.scores_a)
    assert comparison.by_example.difference == comparison.by_run.difference == pytest.approx(difference)
    assert comparison.by_example.low < difference < comparison.by_example.high
    assert comparison.by_run.units == (3, 2)
    assert "Welch's t-test of runs, 3 and 2 runs" in comparison.settings
    assert "paired permutation test" in comparison.models


def test_separated_settings_differ():
    """Five runs against five, all of B above all of A: 2 of 252 orders, and no pairs by the number of the seed."""
    a, b = system("a", runs(0.7, 5, np.random.default_rng(2))), system("b", runs(0.9, 5, np.random.default_rng(3)))
    [comparison] = compare_systems([a, b]).comparisons
    assert comparison.by_run.p == pytest.approx(2 / 252)
    assert "Do these settings differ? Yes, b is higher: accuracy B − A" in comparison.settings
    assert "p = 0.00794 (exact permutation test of runs, 5 and 5 runs)" in comparison.settings


def test_folds_that_both_share_are_pairs():
    folds = (50, 50, 50, 50)
    a, b = (system(name, runs(share, 1), folds=folds) for name, share in (("a", 0.75), ("b", 0.8)))
    [comparison] = compare_systems([a, b]).comparisons
    assert comparison.by_run.units == (4,)
    assert "paired t-test of folds, corrected for their overlap, 4 folds" in comparison.settings
    other = system("b", runs(0.9, 1), folds=(100, 100))
    [unpaired] = compare_systems([a, other]).comparisons
    assert unpaired.by_run.p is None


def test_several_systems_have_holms_correction():
    systems = [system(f"s{number}", runs(0.8 + number / 50, 3)) for number in range(4)]
    results = compare_systems(systems)
    raw = sorted(each.by_example.p for each in results.comparisons)
    corrected = sorted(each.by_example.adjusted_p for each in results.comparisons)
    assert corrected[0] == pytest.approx(min(3 * raw[0], 1))
    for comparison in results.comparisons:
        assert "with Holm's correction for 3 comparisons" in comparison.models
        assert "with Holm's correction for 3 comparisons" in comparison.settings
    assert "3 comparisons: p-values have Holm's correction, intervals have none" in results.notes


def test_a_correction_is_noted_where_p_values_have_one():
    one_text = np.zeros(len(GOLD), np.int64)
    results = compare_systems([system(name, runs(0.8, 1), same_texts=one_text) for name in "abc"])
    assert all("Not tested: all examples have one text" in each.models for each in results.comparisons)
    assert not [note for note in results.notes if "Holm" in note]


def test_a_main_metric_that_predictions_do_not_have_is_replaced():
    """It may be the recall of a class, which needs no probabilities."""
    systems = [replace(system(name, runs(0.8, 1)), main_metric="class/yes/recall") for name in "ab"]
    results = compare_systems(systems)
    assert results.metric == "accuracy"
    assert "class/yes/recall cannot be compared; the predictions are compared by accuracy" in results.notes


def test_sampled_p_values_have_a_bound():
    [comparison] = compare_systems([system("a", runs(0.55, 2)), system("b", runs(0.95, 2))]).comparisons
    assert "p ≤ 0.0002 (paired permutation test with 9,999 permutations, 200 examples)" in comparison.models
    assert "no p-value below" not in comparison.models


def test_few_differing_examples_cannot_differ():
    [one] = runs(0.8, 1)
    wrong, two = np.flatnonzero(one != GOLD)[:4], one.copy()
    two[wrong] = GOLD[wrong]
    [comparison] = compare_systems([system("a", [one]), system("b", [two])]).comparisons
    assert "p = 0.125 (McNemar's exact test, 200 examples; no p-value below 0.12 is possible)" in comparison.models
    [same] = compare_systems([system("a", [one]), system("b", [one])]).comparisons
    assert same.models == (
        "Do these models differ on this data? No difference: both have the same score in every example."
    )


def test_a_difference_is_at_most_the_range_of_the_metric():
    def of_ranks(predictions, references):
        return {"spearmanr": float(spearmanr(predictions, references).statistic)}

    gold = np.arange(6.0)
    a, b = (
        System(name, [predictions], gold, of_ranks, lambda *_: None, "spearmanr", np.ndarray.tolist)
        for name, predictions in (("a", gold[[5, 4, 2, 3, 1, 0]]), ("b", gold))
    )
    [comparison] = compare_systems([a, b]).comparisons
    assert 1.5 < comparison.by_example.difference < comparison.by_example.high == 2


def test_undefined_scores_are_not_zero():
    gold = np.linspace(0, 1, 50)
    [comparison] = compare_systems(
        [numbers("a", gold + 0.1 * DRAW.normal(size=50)), numbers("b", np.ones(50))]
    ).comparisons
    assert comparison.scores_b == (None,)
    assert comparison.by_example.difference is None
    assert "Not tested: the score of B is undefined" in comparison.models


def test_numbers_have_no_counts_of_right_answers():
    gold = np.linspace(0, 1, 50)
    a, b = (numbers(name, gold + width * DRAW.normal(size=50)) for name, width in (("a", 0.1), ("b", 0.5)))
    results = compare_systems([a, b])
    [comparison] = results.comparisons
    assert comparison.agreement is None
    assert comparison.only_a == comparison.only_b == ()
    assert "Yes, a is higher: pearson B − A" in comparison.models
    assert results.notes == ()


def test_collapsed_runs_are_named():
    no = "all predictions are 'no'"
    assert collapse_notes("two", [None, no, None, no]) == (f"two: 2 of 4 runs have collapsed: {no}",)
    one = system("one", runs(0.6, 1), notes=collapse_notes("one", [no]))
    notes = compare_systems([one, system("two", runs(0.8, 1), notes=collapse_notes("two", [None]))]).notes
    assert notes == (f"one has collapsed: {no}",)


def test_examples_without_numbers_are_the_rows_of_their_source():
    """As in reports: GLUE's data sets have no numbers of lines."""
    task = task_of_recipe(load_recipe("finetune/glue/sst2"))
    columns = {"sentence": ["a", "b"], "labels": [0, 1]}
    outcomes = [Outcome(task, np.array(own), columns, columns, "glue/sst2") for own in ([[1, 0]] * 2, [[1, 0], [0, 1]])]
    [found] = compare_systems([system_of(name, [each]) for name, each in zip("ab", outcomes, strict=True)]).comparisons
    assert [(row["index"], row["place"]) for row in found.only_b] == [(1, "sst2, row 2")]


def test_other_examples_are_refused():
    a, b = system("a", runs(0.8, 1), digests=["x"] * 200), system("b", runs(0.8, 1), digests=["x"] * 199 + ["y"])
    with pytest.raises(DataError, match=re.escape("differ in 1 place, first in example 199 (from 0)")):
        compare_systems([a, b])
    renamed = system("c", runs(0.8, 1), digests=["x"] * 200, to_labels=lambda values: ["ny"[value] for value in values])
    with pytest.raises(DataError, match="the names or order of labels, differ in 200 places"):
        compare_systems([a, renamed])
