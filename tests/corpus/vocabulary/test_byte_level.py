"""Byte-level BPE: lossless on any text, the same in every process, RoBERTa's special tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertkit.corpus.vocabulary.tokenizer import train_byte_level, train_vocabulary
from bertkit.errors import DataError, RecipeError

TEXTS = ["The cat sees the dog near the old river.", "A small red house; 42 trees, Zoë's café 日本語"] * 5


@pytest.fixture(scope="module")
def tokenizer():
    return train_byte_level(TEXTS, 300, model_max_length=64)


@given(st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_special_tokens_are_those_of_roberta(tokenizer):
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 4]
    assert tokenizer("a", "b")["input_ids"][0] == 0
    assert tokenizer("the <mask>")["input_ids"] == tokenizer("the<mask>")["input_ids"]  # it takes the place of " dog"
    assert len(tokenizer) == 300
    assert tokenizer.model_max_length == 64


def test_it_loads_with_auto_classes(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS[:2]:
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded("the <mask>")["input_ids"] == tokenizer("the <mask>")["input_ids"]


@pytest.mark.slow
def test_every_process_trains_the_same(tokenizer):
    program = (
        "import json, sys; from bertkit.corpus.vocabulary.tokenizer import train_byte_level as train;"
        "print(json.dumps(train(json.loads(sys.argv[1]), 300).get_vocab()))"
    )
    command = [sys.executable, "-c", program, json.dumps(TEXTS)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == tokenizer.get_vocab()


def test_what_is_impossible_is_refused():
    with pytest.raises(RecipeError, match="need 261"):
        train_byte_level(TEXTS, 260)
    with pytest.raises(DataError, match="empty"):
        train_byte_level([" ", ""], 300)
    with pytest.raises(RecipeError, match="merges by frequency"):
        train_vocabulary("byte_level_bpe", TEXTS, 300, merge_score="likelihood")
