"""What a score is of: queries, entities, questions or pairs, and intervals over as many."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bertkit
from bertkit.inference.comparison import System, compare_systems
from bertkit.inference.outcome import Outcome, task_inference
from bertkit.inference.predictor import load_task
from bertkit.metrics.intervals import score_interval
from bertkit.metrics.ranking import mean_scores, ranking_terms


def rankings(values, pairs=6):
    """Rows as of `RerankingTask`: each query has some pairs, of which the first has the weight."""
    rows = np.repeat([[0.0, value, value, value, value] for value in values], pairs, axis=0)
    rows[::pairs, 0] = 1
    return rows


def interval(rows, name="ndcg_at_10"):
    return score_interval(
        list(rows), [0.0] * len(rows), lambda own, _: mean_scores(np.asarray(own))[name], ranking_terms(name, rows)
    )


def test_intervals_of_rankings_are_over_queries():
    """They do not become narrower by more pairs of the same queries, and are none of a single query."""
    values = [0.2, 0.9, 0.4, 0.75]
    assert interval(rankings(values, 60)) == pytest.approx(interval(rankings(values, 1)))
    assert interval(rankings([0.5], 60)) is None
    of_hits = interval(rankings([1.0, 1.0, 0.0]), "accuracy_at_1")  # Wilson's, of 2 in 3
    assert of_hits == pytest.approx((0.2077, 0.9385), abs=1e-4)


def reranking_rows(queries=4, passages=3):
    return [
        {"query": f"the film {query}", "passage": f"a plot {query} {passage}", "label": int(passage == 0)}
        for query in range(queries)
        for passage in range(passages)
    ]


ROWS = {
    "reranker": reranking_rows(),
    "similar": [{"one": f"a film {n}", "two": f"the film {n}"} for n in range(5)],
    "entities": [{"tokens": ["a", "film", "the", "plot"], "tags": ["B-FILM", "I-FILM", "O", "B-FILM"]}] * 3,
    "tags": [{"tokens": ["a", "film"], "tags": ["NOUN", "VERB"]}] * 3,
    "answers": [
        {
            "id": str(n),
            "question": "what film",
            "context": "a good film",
            "answers": {"text": ["film"], "answer_start": [7]},
        }
        for n in range(3)
    ],
    "film": [{"text": "a film", "label": "good"}, {"text": "a plot", "label": "bad"}],
}
COUNTS = {
    "reranker": "12 pairs of {}; ndcg_at_10, mrr_at_10, recall_at_10, accuracy_at_1: 4 queries",
    "similar": "5 pairs of {}; ndcg_at_10, mrr_at_10, recall_at_10, accuracy_at_1: 5 queries",
    "entities": "3 sentences of {}; overall_precision, overall_recall, overall_f1: 6 entities; "
    "overall_accuracy: 12 words",
    "tags": "3 sentences of {}; accuracy: 6 words",
    "answers": "3 questions of {}",
    "film": "2 examples of {}",
}


@pytest.mark.parametrize("kind", ROWS)
def test_an_evaluation_says_what_each_score_is_of(fine_tuned, tmp_path, kind):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind]))
    found = bertkit.evaluate(fine_tuned(kind), validation_file=path)
    assert found.counts == COUNTS[kind].format(path)
    assert found.counts in str(found)
    assert found.units.get("eval_entity/FILM/f1") == ("6 entities" if kind == "entities" else None)


def test_a_comparison_of_rankings_is_of_queries(fine_tuned):
    task, _ = load_task(str(fine_tuned("reranker")), {})
    how = task_inference(task)
    sides = [rankings([0.2, 0.9, 0.4, 0.75]), rankings([0.3, 0.9, 0.6, 0.8])]
    systems = [
        System(
            name,
            [list(rows)],
            [0.0] * len(rows),
            task.compute_metrics,
            how.terms,
            task.main_metric,
            task.to_labels,
            units=how.count_units,
            example=how.example,
        )
        for name, rows in zip("AB", sides, strict=True)
    ]
    found = compare_systems(systems)
    assert found.heading == "ndcg_at_10 on 4 queries"
    assert found.comparisons[0].by_example.units == (4,)
    assert "4 queries" in found.comparisons[0].models


@pytest.mark.parametrize("number", [6, 40, 300])
@pytest.mark.parametrize("name", ["spearmanr", "pearson"])
def test_correlations_have_an_interval_however_few_the_examples(fine_tuned, name, number):
    task, _ = load_task(str(fine_tuned("pairs")), {})
    true = np.random.default_rng(0).normal(size=number)
    own = true + np.random.default_rng(1).normal(size=number)
    score = task.compute_metrics(own, true)[name]
    texts = {column: [f"text {row}" for row in range(number)] for column in task.settings.text_columns}
    low, high = Outcome(task, own[:, None], {"labels": true}, texts, "rows.csv").interval(name, is_main=False)
    assert -1 < low < score < high < 1
    assert number == 6 or high - low < 0.7
