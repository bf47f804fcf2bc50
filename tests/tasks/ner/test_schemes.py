"""Schemes of tags: told apart, checked, converted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.metrics.entities import Entity, find_entities
from bertkit.tasks.ner.schemes import detect_scheme, find_impossible, in_usual_form, iob2_labels, to_iob2


def place(sentence, word):
    return f"{sentence}.{word}"


def detect(*sentences):
    return detect_scheme([sentence.split() for sentence in sentences], place)


# Peter Smith from Berlin Germany (two entities of one type side by side), in every scheme.
WRITTEN = {
    "IOB1": "I-PER I-PER O I-LOC B-LOC",
    "IOB2": "B-PER I-PER O B-LOC B-LOC",
    "IOBES": "B-PER E-PER O S-LOC S-LOC",
    "BILOU": "B-PER L-PER O U-LOC U-LOC",
}


@pytest.mark.parametrize("scheme", WRITTEN)
def test_every_scheme_is_detected_and_becomes_iob2(scheme):
    tags = WRITTEN[scheme]
    assert detect(tags) == scheme
    assert find_impossible(tags.split(), scheme) == []
    assert " ".join(to_iob2(tags.split())) == WRITTEN["IOB2"]


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["B-A O", "B-A I-A", "I-A O"], "IOB2"),  # most entities begin with B: the I is a fault
        (["I-A O", "I-A I-A", "B-A O"], "IOB1"),
        (["B-A", "I-A"], "IOB2"),  # as many of each
        (["O O"], "plain"),
        (["DT NN", "NN ,"], "plain"),
        (["-LRB- : HYPH"], "plain"),
        (["B I O B"], "IOB2"),  # prefixes alone
        (["I I O", "I B O"], "IOB1"),
        (["I-geo-loc I-geo-loc"], "IOB1"),
    ],
)
def test_schemes_by_what_there_is(sentences, scheme):
    assert detect(*sentences) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "words"),
    [
        ("I-A O", "IOB2", [0]),
        ("B-A I-B I-A I-A", "IOB2", [1, 2]),
        ("B-A O", "IOB1", [0]),
        ("I-A B-A I-B B-A", "IOB1", [3]),
        ("B-A I-A O", "IOBES", [2]),  # the entity was not ended
        ("B-A", "IOBES", [0]),
        ("S-A I-A E-A E-A", "IOBES", [1, 3]),
        ("S-A", "IOB2", [0]),
        ("U-A L-A", "BILOU", [1]),
        ("NN NN", "plain", []),
    ],
)
def test_impossible_sequences_are_found_where_they_are(tags, scheme, words):
    assert [word for word, _ in find_impossible(tags.split(), scheme)] == words


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("o b-per i-per", "O B-per I-per"),
        ("O b-geo-loc", "O B-geo-loc"),
        ("B_PER I_PER O", "B-PER I-PER O"),
        ("PER-B PER-I O", "B-PER I-PER O"),
        ("geo-loc-b O", "B-geo-loc O"),
        ("b i o", "B I O"),
        ("o s_A u:B", "O S-A U-B"),
        ("o", "O"),
    ],
)
def test_entity_tags_of_other_forms_are_recognised(written, usual):
    assert in_usual_form(written.split()) == dict(zip(written.split(), usual.split(), strict=True))


@pytest.mark.parametrize(
    "tags", ["B-PER I-PER O", "B I O", "DT NN O", "NN-S VB-S", "b-per i-per", "O b-per NN", "O B-PER b-per", "O e-mail"]
)
def test_other_tags_are_left_as_they_are(tags):
    assert in_usual_form(tags.split()) == {}


ENTITIES = st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 3), st.integers(0, 2)), max_size=5)


@given(entities=ENTITIES, scheme=st.sampled_from(list(WRITTEN)))
def test_entities_survive_every_scheme(entities, scheme):
    """Entities (type, words, words outside before it), written by the definition of the scheme, are read back."""
    tags: list[str] = []
    expected = []
    for kind, length, gap in entities:
        follows = not gap and bool(tags) and tags[-1].endswith(f"-{kind}")
        tags += ["O"] * gap
        expected.append(Entity(kind, len(tags), len(tags) + length))
        prefixes = {
            "IOB1": ("B" if follows else "I") + "I" * (length - 1),
            "IOB2": "B" + "I" * (length - 1),
            "IOBES": "S" if length == 1 else "B" + "I" * (length - 2) + "E",
            "BILOU": "U" if length == 1 else "B" + "I" * (length - 2) + "L",
        }[scheme]
        tags += [f"{prefix}-{kind}" for prefix in prefixes]
    assert find_entities(tags) == expected
    assert find_impossible(tags, scheme) == []
    converted = to_iob2(tags)
    assert len(converted) == len(tags)
    assert find_entities(converted, strict=True) == expected


@given(tags=st.lists(st.sampled_from([f"{p}-{k}" for p in "BIESLU" for k in "AB"] + ["O"])))
def test_any_tags_become_iob2_of_equal_entities(tags):
    converted = to_iob2(tags)
    assert find_impossible(converted, "IOB2") == []
    assert find_entities(converted) == find_entities(tags)
    assert set(converted) <= set(iob2_labels(tags))
