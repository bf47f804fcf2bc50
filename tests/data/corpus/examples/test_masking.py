"""input_ids → masked input_ids, masked_positions, labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.examples.masking import MaskedBatch, MaskingRules, mask_tokens
from bertkit.data.corpus.examples.randomness import Stream, words
from bertkit.data.corpus.vocabulary.structure import WordMarks

PAD, CLS, SEP, MASK = 0, 2, 3, 4
ORDINARY = np.array([1, *range(5, 1000)])  # 1 stands for an ordinary id among the special ones


def batch(lengths: list[int], width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[CLS] text [SEP] [PAD] …; the text is 5000, 5001, …, ids that no replacement has."""
    ids = np.full((len(lengths), width), PAD)
    candidates = np.zeros(ids.shape, bool)
    for row, length in enumerate(lengths):
        ids[row, :length] = np.arange(4999, 4999 + length)
        ids[row, 0], ids[row, length - 1] = CLS, SEP
        candidates[row, 1 : length - 1] = True
    return ids, candidates, np.array(lengths)


def rules(
    share: float = 0.15, most: int = 20, seed: int = 42, continuation: np.ndarray | None = None, **replaced: float
) -> MaskingRules:
    words = None if continuation is None else WordMarks(continuation, None)
    return MaskingRules(seed, share, most, MASK, ORDINARY, words, **replaced)


def restored(masked: MaskedBatch) -> np.ndarray:
    ids = masked.input_ids.copy()
    rows, slots = np.nonzero(masked.labels != -100)
    ids[rows, masked.masked_positions[rows, slots]] = masked.labels[rows, slots]
    return ids


@pytest.mark.parametrize(
    ("length", "share", "most", "expected"),
    [
        (128, 0.15, 20, 19),  # 19.2
        (128, 0.15, 10, 10),
        (5, 0.15, 20, 1),  # 0.75
        (3, 0.15, 20, 1),  # 0.45: at least one
        (10, 0.15, 20, 2),  # 1.5 is rounded to even, as Python's round does
        (30, 0.15, 20, 4),  # 4.5 too
        (5, 1.0, 20, 3),  # only three tokens are no special ones
        (2, 0.15, 20, 0),  # none is
    ],
)
def test_how_many(length, share, most, expected):
    ids, candidates, lengths = batch([length], 128)
    masked = mask_tokens(ids, candidates, lengths, rules(share, most), 0, [0])
    assert masked.labels.shape == masked.masked_positions.shape == (1, most)
    assert (masked.labels[0] != -100).sum() == expected


@given(
    lengths=st.lists(st.integers(2, 40), min_size=1, max_size=6),
    share=st.floats(0.01, 1.0),
    most=st.integers(1, 50),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_properties(lengths, share, most, seed, epoch, data):
    ids, candidates, counted = batch(lengths, 40)
    index = data.draw(st.lists(st.integers(0, 2**40), min_size=len(lengths), max_size=len(lengths)))
    before = ids.copy()
    masked = mask_tokens(ids, candidates, counted, rules(share, most, seed), epoch, index)
    assert (ids == before).all()
    assert (restored(masked) == ids).all()
    for row, length in enumerate(lengths):
        used = masked.labels[row] != -100
        positions = masked.masked_positions[row, used]
        assert len(positions) == min(most, max(1, round(length * share)), length - 2)
        assert candidates[row, positions].all()
        assert (np.diff(positions) > 0).all()
        assert used.tolist() == sorted(used.tolist(), reverse=True)
        assert (masked.masked_positions[row, ~used] == 0).all()
        new = masked.input_ids[row, positions]
        assert np.isin(new[new != masked.labels[row, used]], [MASK, *ORDINARY]).all()
        # A row alone is what it is in the batch.
        alone = mask_tokens(
            ids[[row]], candidates[[row]], counted[[row]], rules(share, most, seed), [epoch], [index[row]]
        )
        assert (alone.input_ids[0] == masked.input_ids[row]).all()
        assert (alone.labels[0] == masked.labels[row]).all()


def within(count: int, n: int, p: float) -> bool:
    return abs(count - n * p) < 4.5 * math.sqrt(n * p * (1 - p))


def test_positions_and_random_replacements_are_even():
    rows = 4000
    ids, candidates, lengths = batch([100] * rows, 128)
    masked = mask_tokens(ids, candidates, lengths, rules(), 0, np.arange(rows))
    used = masked.labels != -100
    chosen = np.bincount(masked.masked_positions[used], minlength=128)
    assert all(within(int(count), rows, 15 / 98) for count in chosen[1:99])  # 15 % of 100, of 98 that are text
    new = np.take_along_axis(masked.input_ids, masked.masked_positions, axis=1)[used]
    random = new[(new != MASK) & (new != masked.labels[used])]
    counts = np.bincount(random, minlength=1000)[ORDINARY]
    expected = len(random) / len(ORDINARY)
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_squared - len(ORDINARY)) < 5 * math.sqrt(2 * len(ORDINARY))


@pytest.mark.parametrize(
    ("mask", "kept", "random"),
    [(0.8, 0.1, 0.1), (1, 0, 0), (0.8, 0, 0.2), (0.8, 0.2, 0), (0, 0.2, 0.8), (0, 0, 1), (0, 1, 0)],
)
def test_shares_of_replacements(mask, kept, random):
    """The first six are those of BERT §C.2, table 8."""
    rows = 2000
    ids, candidates, lengths = batch([100] * rows, 128)
    replaced = {"mask_replace_prob": mask, "random_replace_prob": random}
    masked = mask_tokens(ids, candidates, lengths, rules(**replaced), 0, np.arange(rows))
    used = masked.labels != -100
    new = np.take_along_axis(masked.input_ids, masked.masked_positions, axis=1)[used]
    is_mask, is_kept = new == MASK, new == masked.labels[used]
    for tokens, share in ((is_mask, mask), (is_kept, kept), (~is_mask & ~is_kept, random)):
        assert abs(tokens.mean() - share) <= 4.5 * math.sqrt(share * (1 - share) / len(new))


def test_replacement_does_not_depend_on_the_position():
    rows = 6000
    ids, candidates, lengths = batch([22] * rows, 22)
    masked = mask_tokens(ids, candidates, lengths, rules(), 0, np.arange(rows))
    first, last = masked.masked_positions[:, 0], masked.masked_positions[:, 2]
    for positions in (first, last):
        is_mask = masked.input_ids[np.arange(rows), positions] == MASK
        assert within(int(is_mask.sum()), rows, 0.8)


def test_other_epochs_and_seeds_mask_otherwise():
    ids, candidates, lengths = batch([128] * 8, 128)
    seen = {
        mask_tokens(ids, candidates, lengths, rules(seed=seed), epoch, np.arange(8) + start).labels.tobytes()
        for seed in (0, 1)
        for epoch in (0, 1)
        for start in (0, 8)
    }
    assert len(seen) == 8


CONTINUATION = np.arange(7000) >= 6000
"""Ids from 6000 on go on a word; 5000 to 5999 open one."""


def spelled(*rows: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``"Aaa B. Bb"``: a capital is a piece that opens a word, a small letter one that goes on; ``.`` is [SEP].

    [CLS] comes before, [SEP] after; each place has an id of its own.
    """
    width = max(map(len, rows)) + 2
    ids = np.full((len(rows), width), PAD)
    candidates = np.zeros(ids.shape, bool)
    for row, text in enumerate(rows):
        ids[row, 0], ids[row, len(text) + 1] = CLS, SEP
        for place, letter in enumerate(text, 1):
            ids[row, place] = SEP if letter == "." else (5000 if letter.isupper() else 6000) + place
            candidates[row, place] = letter != "."
    return ids, candidates, np.array([len(text) + 2 for text in rows])


def chosen(masked: MaskedBatch) -> list[list[int]]:
    """Places of the predictions, 0 for the first after [CLS]."""
    return [
        (row[label != -100] - 1).tolist() for row, label in zip(masked.masked_positions, masked.labels, strict=True)
    ]


def words_of(text: str) -> list[list[int]]:
    found: list[list[int]] = []
    for place, letter in enumerate(text):
        if letter == ".":
            continue
        if letter.isupper() or place == 0 or text[place - 1] == ".":
            found.append([])
        found[-1].append(place)
    return found


def as_the_script_does(text: str, wanted: int, keys: np.ndarray) -> list[int]:
    """The choice of ``create_masked_lm_predictions``, with a shuffle by bertkit's numbers; at least one piece."""
    shuffled = sorted(words_of(text), key=lambda word: keys[word[0] + 1])
    taken: list[int] = []
    for word in shuffled:
        if len(taken) >= wanted:
            break
        if len(taken) + len(word) > wanted:
            continue
        taken += word
    return sorted(taken or shuffled[0][:wanted])


class TestWholeWords:
    @pytest.mark.parametrize(
        ("text", "wanted", "possible"),
        [
            ("AaBCcc", 2, [[0, 1], [2]]),  # Aa, or B and nothing that fits beside it
            ("AaBCcc", 3, [[0, 1, 2], [3, 4, 5]]),
            ("AaBCcc", 1, [[2]]),
            ("AaBCcc", 6, [[0, 1, 2, 3, 4, 5]]),
            ("AaaBbb", 2, [[0, 1], [3, 4]]),  # no word fits: the first pieces of one
            ("Aaaaaa", 1, [[0]]),
            ("aaBb", 2, [[0, 1], [2, 3]]),  # truncation has dropped the opening of the first word
            ("Aa.bbC", 2, [[0, 1], [3, 4], [5]]),  # a word does not reach over [SEP]
        ],
    )
    def test_by_eye(self, text, wanted, possible):
        ids, candidates, lengths = spelled(*[text] * 100)
        masked = mask_tokens(ids, candidates, lengths, rules(1.0, wanted, 1, CONTINUATION), 0, np.arange(100))
        seen = chosen(masked)
        assert all(places in possible for places in seen)
        assert all(places in seen for places in possible)

    @given(
        texts=st.lists(st.text("Aaaaa.", min_size=1, max_size=30), min_size=1, max_size=6),
        share=st.floats(0.01, 1.0),
        most=st.integers(1, 40),
        seed=st.integers(0, 2**64 - 1),
        epoch=st.integers(0, 2**32 - 1),
        data=st.data(),
    )
    def test_the_choice_is_that_of_the_released_rules(self, texts, share, most, seed, epoch, data):
        ids, candidates, lengths = spelled(*texts)
        size = len(texts)
        index = data.draw(st.lists(st.integers(0, 2**40), min_size=size, max_size=size))
        whole = rules(share, most, seed, CONTINUATION)
        masked = mask_tokens(ids, candidates, lengths, whole, epoch, index)
        assert (restored(masked) == ids).all()
        drawn = words(seed, Stream.MASKED_POSITIONS, epoch, index, (ids.shape[1] + 1) // 2)
        keys = [[int(word) >> shift & 0xFFFFFFFF for word in row for shift in (0, 32)] for row in drawn]
        for row, text in enumerate(texts):
            wanted = min(most, max(1, round((len(text) + 2) * share)))
            expected = as_the_script_does(text, wanted, keys[row]) if text.strip(".") else []
            assert chosen(masked)[row] == expected
            assert 0 < len(expected) <= wanted or not candidates[row].any()
            # A row alone is what it is in the batch.
            alone = mask_tokens(ids[[row]], candidates[[row]], lengths[[row]], whole, [epoch], [index[row]])
            assert (alone.input_ids[0] == masked.input_ids[row]).all()
            assert (alone.labels[0] == masked.labels[row]).all()

    def test_without_continuations_it_is_the_choice_of_tokens(self):
        ids, candidates, lengths = batch([100, 7, 30] * 30, 100)
        none = np.zeros(6000, bool)
        whole, single = (
            mask_tokens(ids, candidates, lengths, rules(continuation=given), 3, np.arange(90)) for given in (none, None)
        )
        assert (whole.input_ids == single.input_ids).all()
        assert (whole.masked_positions == single.masked_positions).all()

    def test_each_piece_is_replaced_on_its_own(self):
        """Words of two pieces: both become [MASK] with 0.8², one of them with 2 · 0.8 · 0.2."""
        rows = 4000
        ids, candidates, lengths = spelled(*["Aa" * 10] * rows)
        masked = mask_tokens(ids, candidates, lengths, rules(continuation=CONTINUATION), 0, np.arange(rows))
        places = np.array(chosen(masked))
        assert places.shape == (rows, 2)  # round(22 × 0.15) = 3 leaves no room for a second word
        assert (places[:, 0] + 1 == places[:, 1]).all()
        hidden = np.take_along_axis(masked.input_ids, places + 1, axis=1) == MASK
        both, one = int(hidden.all(axis=1).sum()), int((hidden.sum(axis=1) == 1).sum())
        assert within(both, rows, 0.64)
        assert within(one, rows, 0.32)
        # Every word is chosen evenly.
        assert all(within(int(count), rows, 0.1) for count in np.bincount(places[:, 0] // 2, minlength=10))
