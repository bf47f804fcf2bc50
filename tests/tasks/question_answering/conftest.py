"""Tokenizers that differ in everything that windows depend on, made here in a moment."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

WORDS = "where is the dog in park red house who sings when and a big".split()
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIGNS = [*string.ascii_lowercase, *string.digits, *".,!?é中"]


def bert() -> Any:
    """Words and letters; lower case, accents dropped, every Chinese sign a word."""
    return BertTokenizer(
        vocab={word: index for index, word in enumerate([*SPECIALS, *WORDS, *SIGNS, *(f"##{sign}" for sign in SIGNS)])}
    )


def roberta() -> Any:
    """Bytes: a sign may be several tokens; two separators between question and text, and no types."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(alphabet)]
    backend = Tokenizer(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", **names)


def pieces() -> Any:
    """As SentencePiece: the space belongs to the token after it, and [CLS] stands last."""
    vocabulary = [(name, 0.0) for name in SPECIALS]
    vocabulary += [(f"▁{word}", -3.0) for word in WORDS] + [(sign, -6.0) for sign in ["▁", *SIGNS]]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=1))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [CLS]:2", pair="$A [SEP] $B:1 [SEP]:1 [CLS]:2", special_tokens=[("[SEP]", 3), ("[CLS]", 2)]
    )
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, truncation_side="left", **names)


TOKENIZERS: dict[str, Callable[[], Any]] = {"bert": bert, "roberta": roberta, "pieces": pieces}


@pytest.fixture(scope="session", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """Each of them."""
    return TOKENIZERS[request.param]()


@pytest.fixture(scope="session", name="bert")
def _bert() -> Any:
    """The first of them."""
    return bert()
