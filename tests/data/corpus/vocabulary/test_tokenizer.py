"""Text → a vocabulary, WordPiece or byte-level BPE."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.data.corpus.vocabulary.tokenizer import SPECIAL_TOKENS, train_byte_level, train_tokenizer, train_vocabulary
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.runtime.errors import DataError, RecipeError

TEXT = [
    "The lower the tower, the lowest tower slows the flow.",
    "Piña colada, señor! 我是学生。 A slow flower grows.",
] * 3

TRAIN_IN_A_PROCESS = """
import json, random
from bertkit.data.corpus.vocabulary.tokenizer import train_byte_level, train_tokenizer
letters = random.Random(0)
# Few letters, many words, all counted once: merges are decided by ties over and over.
texts = [" ".join("".join(letters.choices("abcdefghij", k=6)) for _ in range(200)) for _ in range(10)]
trained = [train_tokenizer(texts, 400, merge_score=score) for score in ("frequency", "likelihood")]
print(json.dumps([each.get_vocab() for each in (*trained, train_byte_level(texts, 400))]))
"""

SCORES = ["frequency", "likelihood"]


@pytest.fixture(scope="module", params=SCORES)
def uncased(request):
    return train_tokenizer(TEXT, 200, merge_score=request.param)


@pytest.fixture(scope="module", params=SCORES)
def cased(request):
    return train_tokenizer(TEXT, 200, lowercase=False, model_max_length=64, merge_score=request.param)


def test_special_tokens_come_first(uncased):
    assert uncased.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert uncased.pad_token_id == 0
    assert sorted(uncased.get_vocab().values()) == list(range(len(uncased)))


def test_characters_follow_in_code_point_order(uncased):
    pieces = sorted(uncased.get_vocab(), key=uncased.get_vocab().get)[5:]
    letters = [piece for piece in pieces if len(piece) == 1]
    continuations = [piece for piece in pieces if len(piece) == 3 and piece.startswith("##")]
    assert pieces[: len(letters)] == sorted(letters)
    assert pieces[len(letters) : len(letters) + len(continuations)] == sorted(continuations)


def test_uncased_drops_case_and_accents(uncased):
    assert uncased.tokenize("Piña") == uncased.tokenize("pina") == ["pina"]
    assert uncased.do_lower_case


def test_cased_keeps_case_and_accents(cased):
    assert cased.tokenize("Piña") == ["Piña"]
    assert "".join(cased.tokenize("señor")).replace("##", "") == "señor"
    assert not cased.do_lower_case


def test_cjk_characters_are_words(uncased):
    assert uncased.tokenize("我是the学生。") == ["我", "是", "the", "学", "生", "。"]


def test_pairs_take_two_token_types(uncased):
    pair = uncased("the", "the tower")
    the, tower = uncased.convert_tokens_to_ids(["the", "tower"])
    assert pair["input_ids"] == [2, the, 3, the, tower, 3]
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_a_saved_tokenizer_is_the_same(lowercase, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = train_tokenizer(TEXT, 200, lowercase, model_max_length=64)
    tokenizer.save_pretrained(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    for again in (AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path, for_pretraining=True)):
        assert again.get_vocab() == tokenizer.get_vocab()
        assert again.model_max_length == tokenizer.model_max_length
        text = "Piña 我是 Slowest [MASK] flower?"
        assert again(text, "The tower").data == tokenizer(text, "The tower").data


def test_same_texts_same_vocabulary_in_every_process():
    root = str(Path(__file__).parents[4])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN_IN_A_PROCESS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root, "RAYON_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
        )
        for seed, threads in (("1", "1"), ("2", "3"))
    ]
    one, other = (json.loads(process.communicate(timeout=120)[0]) for process in processes)
    assert [len(vocabulary) for vocabulary in one] == [400, 400, 400]
    assert one == other


@given(st.lists(st.text("ab É我.\t", max_size=9), min_size=1).map(lambda texts: [*texts, "x"]), st.booleans())
def test_both_scores_begin_with_the_same_characters(texts, lowercase):
    by_frequency, by_likelihood = (
        train_tokenizer(texts, 1000, lowercase, merge_score=score).get_vocab() for score in SCORES
    )
    fixed = [piece for piece in by_frequency if len(piece.removeprefix("##")) == 1 or piece in SPECIAL_TOKENS]
    assert [by_likelihood[piece] for piece in fixed] == [by_frequency[piece] for piece in fixed]
    assert sorted(by_frequency[piece] for piece in fixed) == list(range(len(fixed)))


def test_the_score_decides_what_is_merged():
    texts = ["hug " * 10 + "pug " * 5 + "pun " * 12 + "bun " * 4 + "hugs " * 5]
    size = len(SPECIAL_TOKENS) + len("bghnpsu") + len("gnsu")
    first = train_tokenizer(texts, size + 1).convert_ids_to_tokens(size)
    rare = train_tokenizer(texts, size + 1, merge_score="likelihood", min_frequency=1).convert_ids_to_tokens(size)
    assert (first, rare) == (
        "##ug",
        "##gs",
    )  # ##u ##g occurs 20 times, more than any other; ##g ##s scores 5 / (20 · 5)


@pytest.mark.parametrize("score", SCORES)
def test_a_least_frequency_can_leave_the_vocabulary_smaller(score, caplog):
    with caplog.at_level(logging.WARNING, "bertkit"):
        tokenizer = train_tokenizer(["ab ab ab cd"], 1000, merge_score=score, min_frequency=2)
    assert "ab" in tokenizer.get_vocab()
    assert "cd" not in tokenizer.get_vocab()
    [warning] = caplog.messages
    assert f"{len(tokenizer)} of 1000 pieces: no other pair of pieces occurs 2 times" in warning


@pytest.mark.parametrize("score", SCORES)
def test_a_small_text_has_fewer_pieces(score, caplog):
    tokenizer = train_tokenizer(["ab ab"], 1000, merge_score=score)
    assert len(tokenizer) == len(SPECIAL_TOKENS) + len(["a", "b", "##b", "ab"])
    assert not caplog.messages


@pytest.mark.parametrize(("kind", "score"), [("wordpiece", score) for score in SCORES] + [("byte_level_bpe", None)])
def test_a_vocabulary_has_room_for_all_characters(kind, score):
    options = {"merge_score": score} if score else {}
    least = 261 if kind == "byte_level_bpe" else len(SPECIAL_TOKENS) + len("abcd") + len("bcd")
    with pytest.raises(RecipeError, match=rf"vocab_size: {least - 1} is too small: .* need {least}"):
        train_vocabulary(kind, ["abc abd"], least - 1, **options)
    assert len(train_vocabulary(kind, ["abc abd"], least, **options)) == least


@pytest.mark.parametrize(
    ("kind", "texts", "size", "options", "fault"),
    [
        *[
            ("wordpiece", texts, 100, {"merge_score": score}, "no text")
            for texts in ([], ["", " \n"])
            for score in SCORES
        ],
        ("byte_level_bpe", [" ", ""], 300, {}, "no text"),
        (
            "wordpiece",
            TEXT,
            200,
            {"merge_score": "likely"},
            "merge_score: 'likely' is not one of frequency, likelihood",
        ),
        ("wordpiece", TEXT, 200, {"merge_score": "likely", "min_frequency": 0}, "min_pair_frequency: 0 is not"),
        ("byte_level_bpe", TEXT, 300, {"min_frequency": 0}, "min_pair_frequency: 0 is not"),
        ("byte_level_bpe", TEXT, 300, {"merge_score": "likelihood"}, "merges by frequency"),
        ("wordpiece", TEXT, 10**9, {}, "vocab_size: 1000000000 is too large"),
    ],
)
def test_what_is_impossible_is_refused(kind, texts, size, options, fault):
    with pytest.raises(DataError if fault == "no text" else RecipeError, match=fault):
        train_vocabulary(kind, texts, size, **options)


BYTE_LEVEL_TEXTS = ["The cat sees the dog near the old river.", "A small red house; 42 trees, Zoë's café 日本語"] * 5


@pytest.fixture(scope="module")
def byte_level():
    return train_byte_level(BYTE_LEVEL_TEXTS, 300, model_max_length=64)


@given(st.text(max_size=40))
@settings(max_examples=50)
def test_any_text_comes_back(byte_level, text):
    ids = byte_level(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert byte_level.unk_token_id not in ids
    assert byte_level.decode(ids, clean_up_tokenization_spaces=False) == text


def test_special_tokens_are_those_of_roberta(byte_level):
    assert byte_level.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 4]
    assert byte_level("a", "b")["input_ids"][0] == 0
    assert byte_level("the <mask>")["input_ids"] == byte_level("the<mask>")["input_ids"]  # it takes the place of " dog"
    assert len(byte_level) == 300
    assert byte_level.model_max_length == 64


def test_a_byte_level_vocabulary_that_stays_smaller_is_warned_of(caplog):
    assert len(train_byte_level(BYTE_LEVEL_TEXTS, 300, min_frequency=100)) == 261
    assert "the vocabulary has 261 of 300 pieces" in caplog.text
