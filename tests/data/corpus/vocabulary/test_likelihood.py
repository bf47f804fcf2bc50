"""Words and how often they occur → pieces, merged by likelihood."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from bertkit.data.corpus.vocabulary.likelihood import LONGEST_WORD, count_words, learn_pieces

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def test_a_worked_example():
    # h 15, p 17, b 4, ##u 36, ##g 20, ##n 16, ##s 5: ##g ##s scores 5 / (20 · 5), every other pair 1/36.
    # Of those, p ##u occurs most often. It leaves ##u at 19, so h ##u is at 15 / (15 · 19), as b ##u and ##u ##gs are;
    # h ##u leaves ##u at 4, and b ##u rises to 4 / (4 · 4). Then hu ##gs has 5 / (15 · 5), bu ##n 4 / (4 · 16).
    assert learn_pieces(HUGS, 5, min_frequency=1) == ["##gs", "pu", "hu", "bu", "hugs"]


def test_the_bound_is_halved_by_default():
    # 20: ##u ##g. 10: as above. 5: p ##ug 5 / (5 · 5), hug ##s 5 / (15 · 5). 2: b ##un. Then every word is whole.
    assert learn_pieces(HUGS, 10) == ["##ug", "##un", "hug", "pun", "pug", "hugs", "bun"]
    assert learn_pieces(HUGS, 3) == ["##ug", "##un", "hug"]


def test_too_long_words_teach_nothing():
    assert learn_pieces({"ab": 9, "xy" * LONGEST_WORD: 99}, 5) == ["ab"]
    assert learn_pieces({"x" * LONGEST_WORD: 1}, 1) == ["##xx"]
    assert learn_pieces({"x" * (LONGEST_WORD + 1): 1}, 1) == []


def slow_pieces(words: dict[str, int], num_pieces: int, min_frequency: int | None) -> list[str]:
    """The rule as it is stated: all counts anew for every merge, scores as fractions."""
    segmented = {word: [word[0], *(f"##{character}" for character in word[1:])] for word in words}
    known = {piece for pieces in segmented.values() for piece in pieces}
    found: list[str] = []
    bound = min_frequency
    while len(found) < num_pieces:
        singles, pairs = Counter(), Counter()
        for word, pieces in segmented.items():
            for piece in pieces:
                singles[piece] += words[word]
            for pair in pairwise(pieces):
                pairs[pair] += words[word]
        if bound is None:
            bound = max(pairs.values(), default=0)
        often = {pair: count for pair, count in pairs.items() if count >= bound}
        if not often:
            if min_frequency is not None or bound <= 1:
                break
            bound //= 2
            continue
        left, right = min(often, key=lambda p: (-Fraction(often[p], singles[p[0]] * singles[p[1]]), -often[p], p))
        merged = left + right.removeprefix("##")
        if merged not in known:
            known.add(merged)
            found.append(merged)
        for word, pieces in segmented.items():
            rest, segmented[word] = pieces[::-1], []
            while rest:
                piece = rest.pop()
                if rest and (piece, rest[-1]) == (left, right):
                    rest.pop()
                    piece = merged
                segmented[word].append(piece)
    return found


WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 30), max_size=12)


@given(WORDS, st.integers(0, 40), st.sampled_from([None, 1, 2, 7, 30]))
def test_it_is_the_rule(words, num_pieces, min_frequency):
    assert learn_pieces(words, num_pieces, min_frequency) == slow_pieces(words, num_pieces, min_frequency)


ODD = ["a", "É", "e\u0301", "\u0301", "ß", "İ", "Σ", "ς", "我", "ไ", ".", "[", "#", "-", "7", "�", "\0", "\ufeff"]
ODD += [" ", "  ", "\t", "\n", "\r\n", "\x1c", "\x85", "\u00a0", "\u2028", "\u200b", "\u200d", "\u3000", "\U00020000"]


@given(st.lists(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(ODD)).map("".join))), st.booleans())
def test_words_are_those_of_the_whole_text(texts, lowercase):
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    expected = Counter()
    for text in texts:
        expected.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text)))
    assert count_words(texts, lowercase) == expected


def test_words_are_counted_in_parts(monkeypatch):
    monkeypatch.setattr("bertkit.data.corpus.vocabulary.likelihood._CHUNKS_HELD", 2)
    assert count_words(["a b c a", "a b", "c d e", "a"], lowercase=True) == {"a": 4, "b": 2, "c": 2, "d": 1, "e": 1}
