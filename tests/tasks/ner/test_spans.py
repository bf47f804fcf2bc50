"""Spans of characters and words: offsets, cut words, overlaps, and that nothing is lost on the way there and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.metrics.entities import find_entities
from bertkit.tasks.ner.inputs import split_words
from bertkit.tasks.ner.spans import Span, align, from_utf16, to_utf16, trimmed

FIREFIGHTER = "👨🏻\u200d🚒"


def aligned(text, *spans, snap=False):
    return align(text, split_words(text), [Span(*span) for span in spans], snap)


def covered(text, found):
    words = split_words(text)
    return [(text[words[first].start : words[end - 1].end], kind) for kind, first, end in find_entities(found.tags)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Ann Lee left", "Ann Lee"),
        (f"a {FIREFIGHTER} in 🇩🇪 Köln", "🇩🇪 Köln"),
        (f"a {FIREFIGHTER} in Köln", FIREFIGHTER),
        ("le cafe\u0301 Ame\u0301lie ferme", "Ame\u0301lie"),
        ("قال محمد بن سلمان اليوم", "محمد بن سلمان"),
        ("היא גרה ליד תל אביב", "תל אביב"),
        ("他去了北京大学", "北京大学"),
        ("\u200fمحمد\u200f هنا", "محمد"),  # a mark of direction before and after the word
        ("Ann\u200b left", "Ann"),
        ("Ann \u200f Lee", "Ann \u200f Lee"),
    ],
)
def test_spans_round_trip_in_any_script(text, part):
    start = text.index(part)
    found = aligned(text, (start, start + len(part), "X"))
    assert (found.faults, found.snapped, found.trimmed) == ([], 0, 0)
    [(there, kind)] = covered(text, found)
    assert (trimmed(there, 0, len(there)), kind) == ((0, len(part)), "X")


def test_cut_words_are_snapped_only_on_request():
    found = aligned("Ann Oslo-based", (1, 8, "X"), snap=True)
    assert (found.tags, found.faults, found.snapped) == (["B-X", "I-X"], [], 1)
    both = aligned("Ann Oslo-based", (4, 8, "LOC"), (9, 14, "X"), snap=True)  # now both are the whole word
    assert both.faults == ["span 4:8 (LOC, 'Oslo') and span 9:14 (X, 'based') overlap; keep one of them"]


def test_faults_name_the_offsets_as_they_are_given():
    text = "😀 😀 Anna left Oslo"
    found = align(text, split_words(text), [Span(6, 9, "X"), Span(15, 20, "LOC"), Span(16, 20, "LOC")], False, "utf16")
    assert found.faults == [
        "span 6:9 (X, 'Ann') cuts the word 'Anna'; correct it, or give --snap to extend such spans to whole words",
        "span 15:20 (LOC, ' Oslo') and span 16:20 (LOC, 'Oslo') overlap; keep one of them",
    ]


def test_nested_spans_are_faults():
    assert len(aligned("Ann Lee left", (0, 12, "X"), (0, 3, "X"), (4, 7, "X")).faults) == 2


def test_white_space_at_ends_is_trimmed_and_counted():
    found = aligned("Ann Lee left", (3, 8, "X"))
    assert (found.tags, found.trimmed, found.snapped) == (["O", "B-X", "O"], 1, 0)


@given(text=st.text(max_size=20))
def test_utf16_offsets_are_those_of_the_encoded_text(text):
    units = text.encode("utf-16-le")
    for position in range(len(text) + 1):
        at = to_utf16(text, position)
        assert units[: 2 * at].decode("utf-16-le") == text[:position]
        assert from_utf16(text, at) == position
    assert from_utf16(text, len(units) // 2 + 1) is None
    assert from_utf16(text, -1) is None


@settings(max_examples=200)
@given(text=st.text(max_size=40), data=st.data())
def test_random_spans_round_trip_or_are_faults(text, data):
    ends = st.integers(-2, len(text) + 2)
    spans = data.draw(st.lists(st.tuples(ends, ends, st.sampled_from(["X", "a-b"])), max_size=4))
    found = aligned(text, *spans)
    assert len(found.tags) == len(split_words(text))
    if not found.faults:
        assert found.snapped == 0
        words = split_words(text)
        back = [
            (*trimmed(text, words[first].start, words[end - 1].end), kind)
            for kind, first, end in find_entities(found.tags)
        ]
        assert back == sorted((*trimmed(text, start, end), kind) for start, end, kind in spans)
