"""Windows: what is in them, where answers are, and that answers come back from scores character by character."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from transformers import BertTokenizer

from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.tasks.question_answering.decoding import Decoded, decode_spans
from bertkit.tasks.question_answering.windows import WindowSizes, encode_windows, mask_padding, pair_form

from .conftest import perfect_logits

CONTEXT = "the dog is in the park and sings"


def answer(context: str, text: str) -> dict[str, list[Any]]:
    return {"text": [text], "answer_start": [context.index(text)]}


def encode(tokenizer: Any, question: str, context: str, given: Any, *sizes: int) -> dict[str, list[Any]]:
    answers = None if given is None else [given]
    return encode_windows([question], [context], answers, tokenizer, WindowSizes(*sizes))


def decode(features: dict[str, list[Any]], contexts: list[str], *logits: np.ndarray, **options: Any) -> list[Decoded]:
    """`decode_spans` with room for any answer."""
    settings = {"max_answer_length": 10**6, "n_best_size": 20, "may_be_unanswerable": True, **options}
    return decode_spans(*logits, features, contexts, **settings)


def test_a_worked_question(bert):
    """Eight words of the text in windows of room 5 that share 2: [CLS] where ? [SEP] and [SEP] take the other five."""
    features = encode(bert, "where?", CONTEXT, answer(CONTEXT, "park and"), 10, 2, 3)
    tokens = [bert.convert_ids_to_tokens(ids) for ids in features["input_ids"]]
    assert [" ".join(window) for window in tokens] == [
        "[CLS] where ? [SEP] the dog is in the [SEP]",
        "[CLS] where ? [SEP] in the park and sings [SEP]",
    ]
    assert features["token_type_ids"] == [[0] * 4 + [1] * 6] * 2
    assert features["start_positions"] == [0, 6]  # [CLS], since the first window has not all of it; park
    assert features["end_positions"] == [0, 7]
    assert (features["first_token"], features["context_begin"], features["cls"]) == ([0, 3], [4, 4], [0, 0])
    assert features["example"] == [0, 0]
    assert [
        CONTEXT[start:end] for start, end in zip(features["char_starts"][1], features["char_ends"][1], strict=True)
    ] == ("in the park and sings".split())


def test_unanswerable_question_points_to_cls_anywhere(tokenizer):
    features = encode(tokenizer, "who?", CONTEXT, {"text": [], "answer_start": []}, 60, 4, 9)
    for ids, cls, start, end in zip(
        *(features[name] for name in ("input_ids", "cls", "start_positions", "end_positions")), strict=True
    ):
        assert ids[cls] == tokenizer.cls_token_id
        assert (start, end) == (cls, cls)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.integers(1, 30), size=st.integers(14, 40), stride=st.integers(0, 12), question=st.integers(1, 3))
def test_windows_are_those_that_the_library_makes(tokenizer, words, size, stride, question):
    """Compares with the library where the question is not cut; its slices begin at the left."""
    asked, text = " ".join(["red"] * question), " ".join(str(word) for word in range(words))
    specials = tokenizer.num_special_tokens_to_add(pair=True)
    length = len(tokenizer(asked, add_special_tokens=False)["input_ids"])
    assume(stride < size - specials - length)
    side, tokenizer.truncation_side = tokenizer.truncation_side, "right"
    theirs = tokenizer(
        asked, text, truncation="only_second", max_length=size, stride=stride, return_overflowing_tokens=True,
        return_token_type_ids=True,
    )  # fmt: skip
    tokenizer.truncation_side = side
    ours = encode(tokenizer, asked, text, None, size, stride, length)
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert ours[name] == theirs[name]


def test_a_long_question_is_cut_and_counted_once(bert):
    features = encode(bert, "where is the red dog", CONTEXT, None, 9, 1, 2)
    assert [bert.convert_ids_to_tokens(ids[:4]) for ids in features["input_ids"]] == [
        ["[CLS]", "where", "is", "[SEP]"]
    ] * len(features["length"])
    assert len(features["length"]) == 3
    assert np.subtract(features["full_length"], features["length"]).tolist() == [3, 0, 0]


def test_earlier_tokenizer_settings_do_not_matter(bert):
    """Its backend keeps truncation and padding between calls."""
    plain = encode(bert, "who", CONTEXT, None, 20, 2, 3)
    bert(["where is the dog"] * 2, truncation=True, max_length=3, padding="max_length")
    assert encode(bert, "who", CONTEXT, None, 20, 2, 3) == plain


# ---- answers come back ----------------------------------------------------------------------------------------------

SIGNS = "abZ.1 é中😀👍🏽ßא\u05b0ب\u0301\u200b\u200d\ufe0f\u00a0\n-\U00010330ﬁǅ\u0e33"
TEXTS = st.text(st.sampled_from(SIGNS), min_size=1, max_size=40)


def tokens_of(tokenizer: Any, context: str) -> list[tuple[int, int]]:
    """The characters of every token that has some."""
    features = encode(tokenizer, "a", context, None, 4000, 0, 9)
    return [(s, e) for s, e in zip(features["char_starts"][0], features["char_ends"][0], strict=True) if s < e]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=TEXTS, data=st.data())
def test_perfect_scores_give_back_the_exact_characters(tokenizer, context, data):
    """Any answer that consists of tokens and is no part of another one, in windows that overlap enough to hold it."""
    tokens = tokens_of(tokenizer, context)
    spans = [
        (start, end)
        for (start, _), (_, end) in itertools.product(tokens, tokens)
        if start < end
        and not context[start].isspace()
        and not context[end - 1].isspace()
        and all(start <= s and e <= end for s, e in tokens if s < end and e > start)
    ]
    assume(spans)
    start, end = data.draw(st.sampled_from(spans))
    given_answer = {"text": [context[start:end]], "answer_start": [start]}
    whole = encode(tokenizer, "a", context, given_answer, 4000, 0, 9)
    count = whole["end_positions"][0] - whole["start_positions"][0] + 1
    overlap = data.draw(st.integers(count - 1, count + 5))
    room = data.draw(st.integers(overlap + 1, overlap + 9))
    size = room + tokenizer.num_special_tokens_to_add(pair=True) + 9
    features = encode(tokenizer, "a", context, given_answer, size, overlap, 9)
    (decoded,) = decode(features, [context], *perfect_logits(features))
    best = decoded.spans[0]
    assert (best.text, best.start, best.end) == (context[start:end], start, end)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=TEXTS, data=st.data())
@example(context="x e\u0301", data=None)
def test_any_answer_gives_its_smallest_token_span(tokenizer, context, data):
    start = data.draw(st.integers(0, len(context) - 1)) if data else 2
    end = data.draw(st.integers(start + 1, len(context))) if data else 4
    text = context[start:end]
    features = encode(tokenizer, "a", context, {"text": [text], "answer_start": [start]}, 4000, 0, 9)
    inner = text.strip()
    start += text.index(inner)
    end = start + len(inner)
    has = [(s, e) for s, e in tokens_of(tokenizer, context) if s < end and e > start]
    if not inner or not has:
        assert features["start_positions"] == features["end_positions"] == [IGNORE_INDEX]
        return
    best = decode(features, [context], *perfect_logits(features))[0].spans[0]
    assert (best.start, best.end) == (has[0][0], has[-1][1])


def test_text_without_tokens_has_one_window(bert):
    features = encode(bert, "a", "\u200b", {"text": ["\u200b"], "answer_start": [0]}, 9, 0, 1)
    assert features["char_starts"] == [[]]
    logits = np.zeros((1, 4), np.float32)
    (decoded,) = decode(features, ["\u200b"], logits, logits)
    assert decoded.spans == ()
    assert decoded.null_probability == 1.0


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((20, 12, 5), r"^doc_stride: 12, but windows have 12 tokens .* expected 0 to 11$"),
        ((20, -1, 5), "^doc_stride: -1"),
        ((4, 0, 1), "^max_seq_length: expected at least 5, 3 of them special tokens, got 4$"),
        ((20, 0, 17), r"^max_query_length: 17 tokens .* leave 0 of max_seq_length 20 for the text; expected 1 to 16$"),
        ((20, 0, 0), "^max_query_length: 0 tokens"),
    ],
)
def test_sizes_without_room_for_text_are_refused(sizes, expected):
    with pytest.raises(ValueError, match=expected):
        WindowSizes(*sizes).check()
    WindowSizes(20, 11, 5).check()


def test_more_special_tokens_than_berts_are_counted(tokenizer):
    """The library would panic, which is no exception of Python's."""
    count = tokenizer.num_special_tokens_to_add(pair=True)
    assert pair_form(tokenizer).count == count
    encode(tokenizer, "a b c", CONTEXT, None, 8 + count, 2, 5)
    with pytest.raises(RecipeError, match=r"^data\.doc_stride: 3, but windows have 3 tokens"):
        encode(tokenizer, "a b c", CONTEXT, None, 8 + count, 3, 5)


def test_a_tokenizer_without_cls_is_refused(bert):
    plain = BertTokenizer(vocab=bert.get_vocab())
    plain.cls_token = None
    with pytest.raises(CheckpointError, match=r"adds no \[CLS\]"):
        pair_form(plain)


@pytest.mark.numeric
def test_padding_takes_no_part(encoder):
    encoder.num_labels = 2
    try:
        head = head_class("BertForQuestionAnswering", encoder, "here")
    except CheckpointError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    model = head(encoder).eval()
    ids = torch.randint(5, 60, (2, 8))
    answers = {"start_positions": torch.tensor([3, 1]), "end_positions": torch.tensor([4, 1])}
    padded = torch.nn.functional.pad(ids, (0, 4), value=encoder.pad_token_id or 0)
    mask = torch.nn.functional.pad(torch.ones_like(ids), (0, 4))
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=torch.ones_like(ids), **answers)
        mask_padding(model)
        alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **answers)
        longer = model(input_ids=padded, attention_mask=mask, **answers)
    torch.testing.assert_close(alone.start_logits, before.start_logits)
    torch.testing.assert_close(longer.start_logits[:, :8], alone.start_logits, rtol=1e-4, atol=1e-5)
    assert longer.end_logits[:, 8:].max() < -1e30
    if model.base_model_prefix == "bert":  # other families' heads have losses of their own
        torch.testing.assert_close(longer.loss, alone.loss, rtol=1e-5, atol=1e-6)
