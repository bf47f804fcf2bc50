"""Entities of tags and their metric: the rules of conlleval by hand, then against the package seqeval."""

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


def shown(tags: str, strict: bool = False) -> str:
    """Entities as ``type:first-last`` with words from 0."""
    return " ".join(f"{kind}:{start}-{end - 1}" for kind, start, end in find_entities(tags.split(), strict))


# One case for each rule of conlleval's startOfChunk and endOfChunk, and of the types between them.
@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("", ""),
        ("O O", ""),
        ("B-A", "A:0-0"),
        ("I-A", "A:0-0"),  # a sentence may begin with I
        ("B-A I-A I-A", "A:0-2"),
        ("I-A I-A O", "A:0-1"),
        ("B-A B-A", "A:0-0 A:1-1"),  # B after B
        ("I-A B-A I-A", "A:0-0 A:1-2"),  # B after I, as in IOB1
        ("O B-A O", "A:1-1"),  # B after O, O after B
        ("O I-A O", "A:1-1"),  # I after O, O after I
        ("B-A I-B", "A:0-0 B:1-1"),  # I of another type
        ("I-A I-B I-B", "A:0-0 B:1-2"),
        ("B-A I-A I-B I-A", "A:0-1 B:2-2 A:3-3"),
        ("B-A I-A E-A", "A:0-2"),
        ("B-A E-A I-A", "A:0-1 A:2-2"),  # E ends, so I after it begins
        ("B-A E-A E-A", "A:0-1 A:2-2"),  # E after E
        ("B-A E-B", "A:0-0 B:1-1"),
        ("O E-A O", "A:1-1"),  # E after O
        ("S-A S-A", "A:0-0 A:1-1"),
        ("S-A I-A E-A", "A:0-0 A:1-2"),  # I after S
        ("S-A E-A", "A:0-0 A:1-1"),  # E after S
        ("B-A S-A I-A", "A:0-0 A:1-1 A:2-2"),
        ("B-A L-A U-A U-A L-A", "A:0-1 A:2-2 A:3-3 A:4-4"),  # BILOU, read as B E S S E
        ("B-geo-loc I-geo-loc I-geo", "geo-loc:0-1 geo:2-2"),  # a type may hold hyphens
        ("B I O B", ":0-1 :3-3"),  # prefixes alone
    ],
)
def test_where_entities_begin_and_end(tags, entities):
    assert shown(tags) == entities


@pytest.mark.parametrize("tag", ["PER", "b-PER", "X-PER", "", "NN", "0", "O-PER"])
def test_what_is_no_tag_of_entities_is_refused(tag):
    with pytest.raises(DataError, match=f"tag '{tag}'; expected O, or one of B, I, E, S, L, U"):
        find_entities(["O", tag])


REFERENCES = [["O", "B-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
PREDICTIONS = [["O", "O", "B-MISC", "I-MISC"], ["B-PER", "I-PER", "O"]]


def score(predictions, references, **options):
    return metrics.load("seqeval").compute(predictions=predictions, references=references, **options)


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


def test_batches_add_up():
    metric = metrics.load("seqeval")
    for predictions, references in zip(PREDICTIONS, REFERENCES, strict=True):
        metric.add_batch(predictions=[predictions], references=[references])
    assert metric.compute() == score(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize(
    ("predictions", "references", "options", "error", "expected"),
    [
        ([["O"]], [["O", "O"]], {}, ValueError, "sentence 0: 1 tags are predicted for 2 words"),
        ([["O"]], [], {}, ValueError, "1 sentences are predicted for 0"),
        ([["O", 1]], [["O", "O"]], {}, ValueError, "sentence 0: a tag is 1; expected text, such as 'B-PER'"),
        ([["NN"]], [["O"]], {}, DataError, "tag 'NN'; expected O, or one of B,"),
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
    found = metrics.load("seqeval").compute(predictions=predictions, references=references)
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
