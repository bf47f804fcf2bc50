"""Entities of tags and their metric, by hand and against the package seqeval, which has the rules of conlleval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, Entities

from bertkit import metrics
from bertkit.metrics.entities import find_entities
from bertkit.runtime.errors import DataError


# What seqeval does not read, or reads in another way; `test_entities_are_those_of_seqeval` compares the rest.
@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("", ""),
        ("B-A L-A U-A U-A L-A", "A:0-1 A:2-2 A:3-3 A:4-4"),  # BILOU, read as B E S S E
        ("B-geo-loc I-geo-loc I-geo", "geo-loc:0-1 geo:2-2"),  # a type may hold hyphens
        ("B I O B", ":0-1 :3-3"),  # prefixes alone
    ],
)
def test_other_tags_than_those_of_seqeval(tags, entities):
    found = find_entities(tags.split())
    assert " ".join(f"{kind}:{start}-{end - 1}" for kind, start, end in found) == entities


@pytest.mark.parametrize("tag", ["PER", "b-PER", "X-PER", "", "NN", "0", "O-PER"])
def test_what_is_no_tag_of_entities_is_refused(tag):
    with pytest.raises(DataError, match=f"tag '{tag}'; expected O, or one of B, I, E, S, L, U"):
        find_entities(["O", tag])


REFERENCES = [["O", "B-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
PREDICTIONS = [["O", "O", "B-MISC", "I-MISC"], ["B-PER", "I-PER", "O"]]


def score(predictions, references, **options):
    return metrics.compute("seqeval", predictions, references, **options)


def test_worked_scores():
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


@pytest.mark.parametrize(
    ("predictions", "references", "options", "error", "expected"),
    [
        ([["O"]], [["O", "O"]], {}, ValueError, "sentence 0: 1 tags are predicted for 2 words"),
        ([["O"]], [], {}, ValueError, "1 sentences are predicted for 0"),
        ([["O", 1]], [["O", "O"]], {}, ValueError, "sentence 0: a tag is 1; expected text, such as 'B-PER'"),
        ([[]], [[]], {}, DataError, "nothing to score: there is no word"),
        ([["O"]], [["O"]], {"mode": "strict"}, ValueError, "mode 'strict' with scheme None; expected neither"),
        ([["O"]], [["O"]], {"scheme": "IOBES", "mode": "strict"}, ValueError, "with scheme 'IOBES'"),
    ],
)
def test_invalid_tags_are_refused(predictions, references, options, error, expected):
    with pytest.raises(error, match=expected):
        metrics.compute("seqeval", predictions, references, **options)


TAGS = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("A", "B"))])
SENTENCES = st.lists(st.lists(st.tuples(TAGS, TAGS), max_size=9), min_size=1, max_size=5)


@given(sentences=SENTENCES)
def test_entities_are_those_of_seqeval(sentences):
    for sentence in sentences:
        tags = [tag for tag, _ in sentence]
        expected = [(kind, start, end + 1) for kind, start, end in get_entities(tags)]
        assert sorted(map(tuple, find_entities(tags))) == sorted(expected)


@given(sentences=SENTENCES.filter(lambda sentences: any(sentences)))
def test_scores_are_those_of_seqeval(sentences):
    references = [[tag for tag, _ in sentence] for sentence in sentences]
    predictions = [[tag for _, tag in sentence] for sentence in sentences]
    found = score(predictions, references)
    if not any(tag != "O" for sentence in sentences for pair in sentence for tag in pair):
        expected = {"micro avg": {"precision": 0, "recall": 0, "f1-score": 0}}  # seqeval fails where there is nothing
    else:
        expected = classification_report(references, predictions, output_dict=True, zero_division=0)
    assert found.pop("overall_accuracy") == pytest.approx(accuracy_score(references, predictions))
    overall = expected["micro avg"]
    for name in ("precision", "recall", "f1"):
        assert found.pop(f"overall_{name}") == pytest.approx(overall["f1-score" if name == "f1" else name])
    kinds = {kind for kind in expected if not kind.endswith(" avg")}
    assert set(found) == kinds
    for kind in kinds:
        names = {"precision": "precision", "recall": "recall", "f1": "f1-score", "number": "support"}
        assert found[kind] == pytest.approx({name: expected[kind][other] for name, other in names.items()})


@given(sentences=st.lists(st.lists(st.sampled_from("O B-A I-A B-B I-B".split()), max_size=9), min_size=1, max_size=5))
def test_strict_entities_are_those_of_seqeval(sentences):
    expected = Entities(sentences, IOB2).entities
    for tags, entities in zip(sentences, expected, strict=True):
        assert list(map(tuple, find_entities(tags, strict=True))) == [
            (entity.tag, entity.start, entity.end) for entity in entities
        ]
