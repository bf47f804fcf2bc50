"""Words of raw text: the rule by examples, and what holds for any text."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.tasks.ner.words import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n\u00a0", []),
        ("It costs $3,000.50, he said.", ["It", "costs", "$", "3,000.50", ",", "he", "said", "."]),
        ("Paris,London", ["Paris", ",", "London"]),
        ("at 10:30: go", ["at", "10:30", ":", "go"]),
        ("U.S. 'quoted' well-known -- dash", ["U.S", ".", "'", "quoted", "'", "well-known", "-", "-", "dash"]),
        ("AT&T's B2B_x", ["AT&T's", "B2B_x"]),
        ("我爱北京 Beijing", ["我", "爱", "北", "京", "Beijing"]),
        ("東京タワー", ["東", "京", "タワー"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),  # vowel signs belong to their letters
        ("e\u0301te\u0301 naïve", ["e\u0301te\u0301", "naïve"]),
        ("السلام عليكم", ["السلام", "عليكم"]),
        ("a\u200bb \u200b c\u200b", ["a\u200bb", "c\u200b"]),  # alone it is in no word
        ("\u200fشكرا\u200e \u2067جدا\u2069", ["شكرا\u200e", "جدا\u2069"]),  # marks of direction likewise
        ("ok 👩\u200d👧!", ["ok", "👩\u200d", "👧", "!"]),
        ("\x07bell", ["bell"]),
    ],
)
def test_the_rule(text, words):
    assert [word.text for word in split_words(text)] == words


@settings(deadline=None)
@given(text=st.text())
def test_every_visible_character_is_in_exactly_one_word(text):
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text and word.text for word in words)
    inside = [position for word in words for position in range(word.start, word.end)]
    assert inside == sorted(set(inside))
    assert all(regex.match(r"[\s\p{Cf}\p{Cc}]", text[position]) for position in set(range(len(text))) - set(inside))
    assert not any(regex.search(r"\s", word.text) for word in words)
