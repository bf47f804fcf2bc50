"""Words of raw text, their pieces, and inputs in which every word with a piece is tagged exactly once."""

from __future__ import annotations

from itertools import chain

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from bertkit.tasks.ner.inputs import InputForm, split_words, widened, word_pieces
from bertkit.tasks.windows import Window

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@pytest.fixture(scope="module")
def byte_level():
    """A tokenizer of RoBERTa's kind: the space before a word is a part of its first piece."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet)
    backend.train_from_iterator(["they live in new york now"] * 5, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    roles = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


def test_pieces_of_words(bert):
    found = word_pieces([["Go", "", "\u200b", "in", "\x07", "Dog"], []], bert)
    tokens = [[bert.convert_ids_to_tokens(ids) for ids in sentence] for sentence in found]
    assert tokens == [[["g", "##o"], [], [], ["in"], [], ["dog"]], []]


def test_words_have_the_pieces_of_running_text(byte_level):
    (found,) = word_pieces([["new", "york", "now"]], byte_level)
    assert list(chain(*found)) == byte_level(" new york now", add_special_tokens=False)["input_ids"]
    assert byte_level.convert_ids_to_tokens(found[1]) == ["Ġyork"]
    # The tokenizer itself stays as it was.
    assert byte_level("york", add_special_tokens=False).tokens() != ["Ġyork"]


class Counting:
    """A tokenizer, with its backend, that counts how often it is serialized."""

    def __init__(self, tokenizer):
        self.tokenizer, self.backend_tokenizer, self.serialized = tokenizer, self, 0

    def __len__(self):
        return len(self.tokenizer)

    def __getattr__(self, name):
        return getattr(self.tokenizer.backend_tokenizer, name)

    def to_str(self):
        self.serialized += 1
        return self.tokenizer.backend_tokenizer.to_str()


@pytest.mark.parametrize(("kind", "times"), [("bert", 0), ("byte_level", 1)])
def test_tokenizers_are_serialized_once_at_most(kind, times, request):
    """A server encodes each request by itself; with 250,000 pieces a serialization takes 0.2 s."""
    tokenizer = Counting(request.getfixturevalue(kind))
    expected = word_pieces([["new", "york"]], tokenizer.tokenizer)
    assert [word_pieces([["new", "york"]], tokenizer) for _ in range(3)] == [expected] * 3
    assert tokenizer.serialized == times


def test_a_worked_example_of_windows():
    # Six words of two pieces each, read eight at a time with four in common: words 0 to 3, and 2 to 5.
    form = InputForm(10, 4, cls=101, sep=102)
    rows = form.inputs([[word * 2, word * 2 + 1] for word in range(6)], labels=[10, 11, 12, 13, 14, 15])
    input_ids, word_ids, labels = zip(*rows, strict=True)
    assert input_ids == ([101, 0, 1, 2, 3, 4, 5, 6, 7, 102], [101, 4, 5, 6, 7, 8, 9, 10, 11, 102])
    # Word 2 has three pieces after it in the first window and none before it in the second; word 3 has one and two.
    assert labels[0] == [-100, 10, -100, 11, -100, 12, -100, -100, -100, -100]
    assert labels[1] == [-100, -100, -100, 13, -100, 14, -100, 15, -100, -100]
    assert word_ids[1] == [-1, -1, -1, 3, -1, 4, -1, 5, -1, -1]


def test_word_longer_than_a_window_is_truncated():
    rows = InputForm(6, 1, cls=1, sep=2, inside=[0, 2, 2]).inputs([[5] * 9, [6]], labels=[1, 0])
    assert [labels for _, _, labels in rows] == [
        [-100, 1, 2, 2, 2, -100], [-100] * 6, [-100, -100, -100, -100, 0, -100]
    ]  # fmt: skip


def test_neighbours_fill_the_window_and_are_not_tagged():
    form = InputForm(8, 2, cls=1, sep=2)
    [row] = form.inputs([[10], [11, 12]], before=[[20, 21], [22]], after=[[30], [31]], labels=[5, 6])
    assert row == (
        [1, 22, 10, 11, 12, 30, 31, 2],
        [-1, -1, 0, 1, -1, -1, -1, -1],
        [-100, -100, 5, 6, -100, -100, -100, -100],
    )


@given(room=st.integers(1, 50), data=st.data())
def test_a_sentence_is_widened_to_what_fits(room, data):
    before, size, after = (data.draw(st.integers(0, limit)) for limit in (80, room, 80))
    window = widened(Window(before, before + size), room, before + size + after)
    left, right = before - window.start, window.end - before - size
    assert min(left, right) >= 0
    assert window.end - window.start == min(room, before + size + after)
    assert abs(left - right) <= 1 or left == before or right == after


# ---- words of raw text -----------------------------------------------------------------------------------------------


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
def test_words_of_raw_text(text, words):
    assert [word.text for word in split_words(text)] == words


@given(text=st.text())
def test_every_visible_character_is_in_exactly_one_word(text):
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text and word.text for word in words)
    inside = [position for word in words for position in range(word.start, word.end)]
    assert inside == sorted(set(inside))
    assert all(regex.match(r"[\s\p{Cf}\p{Cc}]", text[position]) for position in set(range(len(text))) - set(inside))
    assert not any(regex.search(r"\s", word.text) for word in words)
