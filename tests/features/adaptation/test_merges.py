"""The choice of merges for byte-level BPE."""

from __future__ import annotations

from bertkit.features.adaptation.merges import choose_merges


def test_the_most_frequent_pair_comes_first():
    pieces, merges = choose_merges({"abc": 3, "bcd": 4, "dd": 5}, list, "abcd", 3, 1)
    assert merges == [("b", "c"), ("d", "d"), ("bc", "d")]
    assert [(piece.text, piece.parts) for piece in pieces] == [
        ("bc", ("b", "c")),
        ("dd", ("d", "d")),
        ("bcd", ("b", "c", "d")),
    ]


def test_pieces_of_the_old_vocabulary_are_not_made():
    """The old merges do not join these two, so new texts would change without a new piece."""
    _, merges = choose_merges({"abc": 3}, list, ["a", "b", "c", "ab"], 3, 1)
    assert merges == [("b", "c"), ("a", "bc")]


def test_two_merges_can_make_one_piece():
    """In "xabc" the pieces a and b are merged before, in "abc" the pieces b and c."""
    words = {"abc": 5, "bc": 9, "xab": 8}
    split = {"abc": ["a", "b", "c"], "bc": ["b", "c"], "xab": ["x", "a", "b"]}
    pieces, merges = choose_merges(words, split.__getitem__, "abcx", 9, 1)
    assert len({piece.text for piece in pieces}) == len(pieces)
    assert {left + right for left, right in merges} == {piece.text for piece in pieces}


def test_rare_pairs_are_left_out():
    pieces, _ = choose_merges({"ab": 2, "cd": 3}, list, "abcd", 9, 3)
    assert [piece.text for piece in pieces] == ["cd"]


def test_words_with_unknown_characters_are_left_out():
    pieces, _ = choose_merges({"ab": 2}, lambda word: ["a", "<unk>"], "a", 9, 1)
    assert pieces == []
