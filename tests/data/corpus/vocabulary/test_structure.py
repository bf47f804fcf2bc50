"""Special tokens and marks of words, with the tokenizers of all families as the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.data.corpus.vocabulary.structure import special_tokens, word_marks
from tests.stock_models import FAMILIES, TEXTS, stock_tokenizer

PUNCTUATED = (
    'Hugging Face (the company) is in the "City": 42nd street, 3.14!',
    "Élise met\tZoë; unbelievable a1b2 x=y nothing-at-all",
)


@pytest.fixture(scope="module", params=FAMILIES)
def tokenizer(request):
    return stock_tokenizer(request.param)


@pytest.mark.parametrize("pairs", [False, True])
def test_special_tokens_are_those_of_the_template(tokenizer, pairs):
    first, between, last = special_tokens(tokenizer, pairs)
    one, two = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS[:2])
    expected = tokenizer(*TEXTS[: 1 + pairs])["input_ids"]
    assert [*first, *one, *between, *(two if pairs else []), *last] == expected
    assert special_tokens(tokenizer, pairs).number == tokenizer.num_special_tokens_to_add(pair=pairs)


@pytest.mark.parametrize("text", [*TEXTS, *PUNCTUATED])
def test_words_are_those_of_the_pre_tokenizer(tokenizer, text):
    encoded = tokenizer(text, add_special_tokens=False)
    words = encoded.word_ids()
    found = word_marks(tokenizer).continues(np.array([encoded["input_ids"]]))[0]
    special = set(tokenizer.all_special_ids)
    known = [token not in special for token in encoded["input_ids"]]  # an unknown piece has no mark
    compared = [number for number in range(1, len(words)) if known[number - 1] and known[number]]
    assert compared
    for number in compared:
        assert found[number] == (words[number - 1] == words[number]), (number, encoded.tokens())


def test_special_tokens_without_a_template():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    plain = PreTrainedTokenizerFast(tokenizer_object=backend, **roles)
    plain.backend_tokenizer.post_processor = processors.ByteLevel()  # it adds nothing
    assert special_tokens(plain, True) == ((2,), (3,), (3,))
    assert special_tokens(plain, False) == ((2,), (), (3,))
    assert not word_marks(plain).continuation.any()
