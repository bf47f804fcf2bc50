"""The choice of new pieces, and what a vocabulary with them does to any text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
from bertkit.features.adaptation.pieces import (
    UnigramSplitter,
    WordPieceSplitter,
    WordSearch,
    choose_merges,
    choose_pieces,
)
from bertkit.features.adaptation.usage import count_words
from bertkit.features.adaptation.vocabulary import grow, splitter_of
from bertkit.runtime.progress import unreported
from tests.stock_models import TEXTS, stock_tokenizer

KINDS = {"bert": "##", "roberta": "", "xlm-roberta": ""}
NEW = ["Transformers transform transformations, unbelievably; a lovelier film"] * 3
ANY_TEXT = st.lists(
    st.sampled_from([*" ".join(TEXTS + tuple(NEW)).split(), "transf", "transformer", "lovelierly", "é", "☃"])
    | st.text("aefilmnorstv", max_size=8),
    max_size=8,
).map(" ".join)


@pytest.fixture(scope="module", params=KINDS)
def tokenizers(request) -> tuple[Tokenizer, Tokenizer, int]:
    """An old and an extended vocabulary of each kind, and the first new id."""
    old = stock_tokenizer(request.param)
    words, _ = count_words(NEW, old.backend_tokenizer)
    growth = grow(old, words, 20, 2, "old", unreported)
    assert len(growth.pieces) >= 3
    return old.backend_tokenizer, Tokenizer.from_str(json.dumps(growth.content)), growth.first_id


@settings(max_examples=300)
@given(ANY_TEXT)
def test_texts_without_new_pieces_keep_their_ids(tokenizers, text):
    old, new, first_id = tokenizers
    before, after = old.encode(text).ids, new.encode(text).ids
    if max(after, default=0) < first_id:
        assert after == before
    assert after.count(old.token_to_id("[UNK]")) <= before.count(old.token_to_id("[UNK]"))


def test_new_texts_are_shorter(tokenizers):
    old, new, first_id = tokenizers
    before, after = old.encode(NEW[0]).ids, new.encode(NEW[0]).ids
    assert max(after) >= first_id
    assert len(after) <= 0.8 * len(before)


# ---- WordPiece ---------------------------------------------------------------------------------------------------

VOCABULARY = ["[UNK]", *"abc", "##a", "##b", "##c", "ab", "##bc"]


def word_piece() -> WordPieceSplitter:
    return WordPieceSplitter(VOCABULARY, "[UNK]", "##", longest_word=6)


@given(st.text("abcd", min_size=1, max_size=8))
def test_words_are_split_as_the_library_does(word):
    content = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    content |= {"max_input_chars_per_word": 6, "vocab": {piece: n for n, piece in enumerate([*VOCABULARY, "abca"])}}
    library = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": content}))
    splitter = word_piece()
    splitter.added.add("abca")
    assert list(splitter.split(word)) == splitter_of(library)(word)


def test_the_first_piece_saves_the_most():
    """Compared with the saving of every string of the words, by counting the pieces of all words again."""
    words = {"abca": 5, "abcab": 3, "cabca": 4, "bbbb": 2, "abd": 1}

    def pieces(added: str) -> int:
        splitter = word_piece()
        splitter.added.add(added)
        return sum(count * splitter.cost(word, splitter.split(word)) for word, count in words.items())

    strings = {word[start:end] for word in words for end in range(1, len(word) + 1) for start in range(end)}
    fewest = min(pieces(mark + string) for string in strings for mark in ("", "##"))
    [chosen] = choose_pieces(words, word_piece(), 1, 1)
    assert pieces(chosen.text) == fewest


def test_words_that_only_begin_with_a_piece_count():
    """The piece "abca" saves one piece in twelve words, but costs one in ten others."""
    vocabulary = [*VOCABULARY, "##abb"]
    words = {"abca": 12, "abcabb": 10}

    def chosen(**more: int) -> list[str]:
        splitter = WordPieceSplitter([*vocabulary, "abc"], "[UNK]", "##", longest_word=6)
        return [piece.text for piece in choose_pieces(words | more, splitter, 1, 1)]

    assert chosen() == ["abcabb"]
    assert chosen(abca=30) == ["abca"]


def test_unknown_words_become_pieces():
    splitter = word_piece()
    [piece] = choose_pieces({"dd": 3, "a": 9}, splitter, 5, 2)
    assert (piece.text, piece.parts) == ("dd", ("[UNK]",))


def test_no_new_piece_leaves_the_rest_of_a_word_unknown():
    """The old vocabulary has "##bc" but no "##c", which a word that begins with a new "ab" needs."""
    old = PreTrainedTokenizerFast(tokenizer_object=train_tokenizer(["abc bc aab"], 40).backend_tokenizer)
    content = json.loads(old.backend_tokenizer.to_str())
    content["model"]["vocab"] = {p: n for n, p in enumerate(["[UNK]", "a", "b", "c", "##a", "##b", "##bc"])}
    content["added_tokens"] = content["added_tokens"][:0]
    content["post_processor"] = None
    old = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)), unk_token="[UNK]")
    growth = grow(old, {"ab": 9}, 2, 2, "old", unreported)
    assert [(piece.text, piece.parts) for piece in growth.pieces] == [("##c", ("c",)), ("ab", ("a", "##b"))]
    new = Tokenizer.from_str(json.dumps(growth.content))
    assert new.encode("abc").tokens == ["ab", "##c"]


# ---- byte-level BPE -----------------------------------------------------------------------------------------------


def test_pieces_of_bytes_keep_their_number_signs():
    """In a vocabulary with "##", such as that of RoBERTa, "##" marks nothing."""
    words = {"=##": 9, "=##a": 9}
    pieces, merges = choose_merges(words, lambda word: ["=", "##", *word[3:]], ["=", "##", "a"], 2, 1)
    assert [piece.text for piece in pieces] == ["=##", "=##a"]
    assert merges == [("=", "##"), ("=##", "a")]


# ---- Unigram ------------------------------------------------------------------------------------------------------


def test_unigram_joins_old_pieces_to_few():
    splitter = UnigramSplitter("abc", None, list)
    splitter.added |= {"ab", "bca", "abc"}
    assert len(splitter.split("abcabca")) == 3
    assert splitter.split("cabc") == ["c", "abc"]
    assert splitter.split("cba") == ["c", "b", "a"]


def test_unigram_joins_no_punctuation_to_words():
    words = {"▁film,": 9, "▁...": 9}
    splitter = UnigramSplitter("▁film,.", None, list)
    assert {piece.text for piece in choose_pieces(words, splitter, 9, 1)} == {"▁film", "▁..."}


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, unique=True), st.text("ab", min_size=1, max_size=2))
def test_search_finds_the_words(words, string):
    search = WordSearch(words)
    assert list(search.containing(string)) == sorted(word for word in words if string in word)
    assert list(search.beginning_with(string)) == sorted(word for word in words if word.startswith(string))
