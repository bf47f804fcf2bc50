"""The best spans of scores: worked by hand, against trying all spans one by one, and over windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.tasks.question_answering.decoding import Decoded, decode_spans

TEXT = "a b c d e f g h"  # token i is the character at 2 i


def windows(*parts: tuple[int, int], begin: int = 2) -> dict[str, list[Any]]:
    """Windows of one text, each of (first token, tokens); [CLS] stands first, and the text from position 2 on."""
    return {
        "example": [0] * len(parts),
        "cls": [0] * len(parts),
        "context_begin": [begin] * len(parts),
        "first_token": [first for first, _ in parts],
        "char_starts": [[2 * token for token in range(first, first + count)] for first, count in parts],
        "char_ends": [[2 * token + 1 for token in range(first, first + count)] for first, count in parts],
    }


def decode(features: dict[str, list[Any]], starts: Any, ends: Any, **options: Any) -> Decoded:
    settings = {"max_answer_length": 30, "n_best_size": 20, "may_be_unanswerable": False, **options}
    (decoded,) = decode_spans(np.array(starts, np.float32), np.array(ends, np.float32), features, [TEXT], **settings)
    return decoded


def test_the_worked_example_of_width_four():
    """Start scores of seven tokens: the largest, 0.47, is that of "park", the answer to "where is the dog?"."""
    context = "the dog is in park now ."
    starts, spans = [0.27, -0.11, -0.04, 0.18, 0.47, -0.01, -0.17], []
    for word in context.split():
        first = spans[-1][1] + 1 if spans else 0
        spans.append((first, first + len(word)))
    features = {
        "example": [0], "cls": [0], "context_begin": [0], "first_token": [0],
        "char_starts": [[first for first, _ in spans]], "char_ends": [[last for _, last in spans]],
    }  # fmt: skip
    logits = np.array([starts], np.float32)
    (decoded,) = decode_spans(
        logits, logits, features, [context], max_answer_length=1, n_best_size=7, may_be_unanswerable=False
    )
    assert [span.text for span in decoded.spans[:2]] == ["park", "the"]
    assert decoded.spans[0].score == pytest.approx(0.94)
    everything = sum(math.exp(2 * score) for score in starts)
    assert decoded.spans[0].probability == pytest.approx(math.exp(0.94) / everything)
    assert sum(span.probability for span in decoded.spans) == pytest.approx(1)


def test_answers_are_ordered_and_inside_the_text():
    """Largest are [CLS], then an end before the start, then the padding."""
    features = windows((0, 3))
    starts = [[9, 0, 1, 0, 5, 0, 8]]
    ends = [[9, 0, 7, 2, 1, 0, 8]]
    best = decode(features, starts, ends).spans[0]
    assert (best.text, best.score) == ("a", 8.0)
    assert [span.text for span in decode(features, starts, ends).spans[:3]] == ["a", "c", "a b"]
    assert (best.start, best.end, best.start_logit, best.end_logit) == (0, 1, 1.0, 7.0)


def test_ties_go_to_the_first_and_shortest():
    assert decode(windows((0, 3)), np.zeros((1, 5)), np.zeros((1, 5))).spans[0].text == "a"
    starts, ends = np.random.default_rng(0).integers(0, 2, (2, 200, 1, 10))
    for start, end in zip(starts, ends, strict=True):  # some of those that tie with the last place are left out
        spans = decode(windows((0, 8)), start, end, n_best_size=3).spans
        tried = sorted((-(start[0, 2 + i] + end[0, 2 + j]), i, j) for i in range(8) for j in range(i, 8))
        assert [(span.start // 2, (span.end - 1) // 2) for span in spans] == [(i, j) for _, i, j in tried[:3]]


def test_a_text_comes_once_with_its_best_score():
    features = windows((0, 3))
    features["char_starts"], features["char_ends"] = [[0, 0, 4]], [[1, 1, 5]]  # two tokens of one sign
    spans = decode(features, [[0, 0, 1, 2, 0]], [[0, 0, 1, 2, 0]], max_answer_length=1).spans
    assert [(span.text, span.score) for span in spans] == [("a", 4.0), ("c", 0.0)]


def test_no_answer_is_what_every_window_says():
    """The null score is the lowest of the windows: 4 of the second, which has the best span, 6."""
    features = windows((0, 2), (2, 2))
    starts = [[5, 0, 1, 0], [1, 0, 3, 0]]
    ends = [[5, 0, 1, 0], [3, 0, 3, 0]]
    decoded = decode(features, starts, ends, may_be_unanswerable=True)
    assert (decoded.null_start_logit, decoded.null_end_logit) == (1.0, 3.0)
    assert (decoded.spans[0].text, decoded.null_odds) == ("c", -2.0)
    everything = [2, 1, 0, 6, 3, 0, 4]  # three spans of each window, and no answer
    assert decoded.null_probability == pytest.approx(math.exp(4) / sum(map(math.exp, everything)))
    assert decode(features, starts, ends).null_probability == 0.0


def test_answer_at_a_window_end_is_found():
    """The released script would look for "c d" only where c has more context: the first window, which ends with c."""
    features = windows((0, 3), (2, 3))
    starts = np.full((2, 5), -9.0)
    ends = starts.copy()
    starts[1, 2], ends[1, 3] = 9, 9
    best = decode(features, starts, ends).spans[0]
    assert (best.text, best.start, best.end) == ("c d", 4, 7)


@settings(max_examples=60)
@given(st.data())
def test_the_best_spans_are_those_of_trying_all(data):
    parts = data.draw(st.sampled_from([((0, 8),), ((0, 5), (3, 5)), ((0, 4), (2, 4), (4, 4)), ((0, 4), (4, 4))]))
    longest, most = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 50))
    shape = (len(parts), 12)
    score = st.integers(-400, 400).map(lambda value: value / 100)
    starts, ends = (
        np.array(data.draw(st.lists(score, min_size=shape[0] * 12, max_size=shape[0] * 12))).reshape(shape)
        for _ in range(2)
    )
    decoded = decode(
        windows(*parts), starts, ends, max_answer_length=longest, n_best_size=most, may_be_unanswerable=True
    )
    tried: dict[tuple[int, int], float] = {}
    for window, (first, count) in enumerate(parts):
        for i in range(count):
            for j in range(i, min(i + longest, count)):
                value, key = starts[window, 2 + i] + ends[window, 2 + j], (first + i, first + j)
                tried[key] = max(tried.get(key, -math.inf), value)
    null = (starts[:, 0] + ends[:, 0]).min()
    everything = sum(map(math.exp, tried.values())) + math.exp(null)
    expected = sorted(tried.values(), reverse=True)[:most]
    assert [span.score for span in decoded.spans] == pytest.approx(expected, abs=1e-5)
    for span in decoded.spans:
        assert span.text == TEXT[span.start : span.end]
        assert tried[span.start // 2, (span.end - 1) // 2] == pytest.approx(span.score, abs=1e-5)
        assert span.probability == pytest.approx(math.exp(span.score) / everything, rel=1e-4)
    assert decoded.null_probability == pytest.approx(math.exp(null) / everything, rel=1e-4)
    assert decoded.null_odds == pytest.approx(null - expected[0], abs=1e-5)


def test_large_scores_do_not_overflow():
    decoded = decode(windows((0, 2)), np.full((1, 4), 1e4), np.full((1, 4), 1e4), may_be_unanswerable=True)
    assert sum(span.probability for span in decoded.spans) + decoded.null_probability == pytest.approx(1)
