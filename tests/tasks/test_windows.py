"""Windows: everything is read, neighbours overlap, a token is taken where it has most context."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.windows import Window, encode_in_windows, most_context, windows

SIZES = st.integers(1, 40).flatmap(lambda room: st.tuples(st.just(room), st.integers(0, room - 1)))


@given(length=st.integers(0, 300), sizes=SIZES)
def test_windows_cover_the_text_and_overlap_as_asked(length, sizes):
    room, overlap = sizes
    found, full = windows(length, room, overlap), windows(length, room, overlap, full=True)
    for each in (found, full):
        assert {position for start, end in each for position in range(start, end)} == set(range(length))
        # No window has only tokens that the one before has too.
        assert all(right.end > left.end for left, right in pairwise(each))
    assert all(end - start == min(room, length) for start, end in [*found[:-1], *full])
    assert 0 <= found[-1].end - found[-1].start <= room
    assert all(left.end - right.start == overlap for left, right in pairwise(found))
    assert found[:-1] == full[:-1]


@pytest.mark.parametrize(("room", "overlap"), [(4, 4), (4, -1), (0, 0), (-3, 0)])
def test_an_overlap_that_leaves_nothing_new_is_refused(room, overlap):
    with pytest.raises(RecipeError, match=rf"^data\.stride: .* room for {room} tokens cannot share {overlap}; give a"):
        windows(10, room, overlap)


@given(length=st.integers(1, 200), sizes=SIZES, full=st.booleans())
def test_nothing_is_missing_where_the_text_itself_ends(length, sizes, full):
    """The same windows are best when the text's own ends count as any amount of context."""
    found = windows(length, *sizes, full=full)

    def context(position: int, window: Window) -> int:
        if not window.start <= position < window.end:
            return -1
        before = position - window.start if window.start else length
        after = window.end - 1 - position if window.end < length else length
        return min(before, after)

    best = [max(range(len(found)), key=lambda each: context(position, found[each])) for position in range(length)]
    assert most_context(found).tolist() == best


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text("abc ", max_size=40), min_size=1, max_size=3), sizes=SIZES)
def test_windows_are_those_that_the_library_makes(tokenizer, texts, sizes):
    room, overlap = sizes
    side, tokenizer.truncation_side = tokenizer.truncation_side, "right"  # else its windows begin at the end
    theirs = tokenizer(
        texts, truncation=True, max_length=room + 2, stride=overlap, return_overflowing_tokens=True,
        return_offsets_mapping=True, return_special_tokens_mask=True, return_token_type_ids=True,
    )  # fmt: skip
    tokenizer.truncation_side = side
    found = encode_in_windows(texts, tokenizer, room + 2, overlap)
    owners = [number for number, text in enumerate(found) for _ in text.windows]
    assert owners == theirs["overflow_to_sample_mapping"]
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert [window[name] for text in found for window in text.inputs] == theirs[name]
    row = 0
    for text in found:
        before, after = text.special_tokens_before, text.special_tokens_after
        for start, end in text.windows:
            assert theirs["special_tokens_mask"][row] == [1] * before + [0] * (end - start) + [1] * after
            theirs_inside = theirs["offset_mapping"][row][before : len(theirs["offset_mapping"][row]) - after]
            assert list(map(tuple, text.offsets[start:end].tolist())) == theirs_inside
            row += 1
