"""The text around a sentence: nothing of another document, and as much as fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.tasks.ner.neighbours import neighbours, widened
from bertkit.tasks.windows import Window


@settings(deadline=None)
@given(room=st.integers(1, 50), data=st.data())
def test_a_sentence_is_widened_to_what_fits(room, data):
    before, size, after = (data.draw(st.integers(0, limit)) for limit in (80, room, 80))
    window = widened(Window(before, before + size), room, before + size + after)
    left, right = before - window.start, window.end - before - size
    assert min(left, right) >= 0
    assert window.end - window.start == min(room, before + size + after)
    assert abs(left - right) <= 1 or left == before or right == after


def test_neighbours_stop_at_the_document():
    sentences = [["a", "b"], ["c"], ["d", "e"], ["f"]]
    before, after = neighbours(sentences, [7, 7, 7, 8], at_most=2)
    assert before == [[], ["a", "b"], ["b", "c"], []]
    assert after == [["c", "d"], ["d", "e"], [], []]
