"""The metric of entities: the inputs and results of the evaluate library's, and what it refuses."""

from __future__ import annotations

import pytest

from bertkit import metrics
from bertkit.errors import DataError

REFERENCES = [["O", "B-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
PREDICTIONS = [["O", "O", "B-MISC", "I-MISC"], ["B-PER", "I-PER", "O"]]


def score(predictions, references, **options):
    return metrics.load("seqeval").compute(predictions=predictions, references=references, **options)


def test_a_worked_example():
    # One of the two entities of each side is right; of the seven tags four are.
    assert score(PREDICTIONS, REFERENCES) == {
        "MISC": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1},
        "PER": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1},
        "overall_precision": 0.5,
        "overall_recall": 0.5,
        "overall_f1": 0.5,
        "overall_accuracy": pytest.approx(4 / 7),
    }


def test_strict_entities_do_not_begin_with_i():
    references, predictions = [["B-A", "I-A", "O"]], [["I-A", "I-A", "O"]]
    assert score(predictions, references)["overall_f1"] == 1
    strict = score(predictions, references, mode="strict", scheme="IOB2")
    assert (strict["overall_precision"], strict["overall_recall"], strict["A"]["number"]) == (0, 0, 1)


def test_without_any_entity_scores_are_0():
    found = score([["O", "O"], []], [["O", "O"], []])
    assert found == {"overall_precision": 0, "overall_recall": 0, "overall_f1": 0, "overall_accuracy": 1}


def test_batches_add_up():
    metric = metrics.load("seqeval")
    for predictions, references in zip(PREDICTIONS, REFERENCES, strict=True):
        metric.add_batch(predictions=[predictions], references=[references])
    assert metric.compute() == score(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize(
    ("predictions", "references", "options", "error", "expected"),
    [
        ([["O"]], [["O", "O"]], {}, ValueError, "sentence 0: 1 tags are predicted for 2 words"),
        ([["NN"]], [["O"]], {}, DataError, "tag 'NN'; expected O, or one of B,"),
        ([[]], [[]], {}, DataError, "nothing to score: there is no word"),
        ([["O"]], [["O"]], {"mode": "strict"}, ValueError, "mode 'strict' with scheme None; expected neither"),
        ([["O"]], [["O"]], {"scheme": "IOBES", "mode": "strict"}, ValueError, "with scheme 'IOBES'"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, options, error, expected):
    with pytest.raises(error, match=expected):
        score(predictions, references, **options)


def test_nothing_at_all_is_refused():
    with pytest.raises(DataError, match="nothing to score: there are no predictions"):
        metrics.load("seqeval").compute()
