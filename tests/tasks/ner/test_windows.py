"""Windows: everything is read, neighbours overlap, a piece is taken where it has most context."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.tasks.ner.neighbours import neighbours
from bertkit.tasks.ner.windows import Window, most_context, widened, windows

SIZES = st.integers(1, 40).flatmap(lambda room: st.tuples(st.just(room), st.integers(0, room - 1)))


@settings(deadline=None)
@given(length=st.integers(0, 300), sizes=SIZES)
def test_all_is_read_in_full_windows_that_overlap(length, sizes):
    room, overlap = sizes
    found = windows(length, room, overlap)
    assert {position for start, end in found for position in range(start, end)} == set(range(length))
    assert all(end - start == min(room, length) for start, end in found)
    assert all(left.start < right.start <= left.end - overlap for left, right in pairwise(found))


@settings(deadline=None)
@given(length=st.integers(1, 200), sizes=SIZES)
def test_a_piece_is_taken_where_it_has_most_context(length, sizes):
    room, overlap = sizes
    found = windows(length, room, overlap)
    for position in range(length):
        window = found[most_context(position, found, length)]
        assert window.start <= position < window.end
        # Half of the overlap, or all there is on that side.
        assert position - window.start >= min(position, overlap // 2)
        assert window.end - 1 - position >= min(length - 1 - position, (overlap - 1) // 2)


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
