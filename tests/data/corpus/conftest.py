"""Corpora small enough to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.data.corpus.store.writer import build_token_store
from bertkit.data.corpus.vocabulary.structure import Vocabulary

FIRST_ID = 5
"""Id of the first token of a `store_of` corpus, after the five special ones."""


class Corpus:
    """Files, and the store of them, built as often as asked."""

    def __init__(self, folder: Path, tokenizer):
        self.folder, self.tokenizer = folder, tokenizer
        self.cache = folder / "cache"
        self.progress: list[tuple[int, int]] = []

    def write(self, **texts: str) -> list[Path]:
        files = []
        for name, text in texts.items():
            files.append(self.folder / f"{name}.txt")
            files[-1].write_text(text, encoding="utf-8")
        return files

    def build(self, files, form=None, **options) -> TokenStore:
        self.progress = []
        return build_token_store(
            find_sources(files),
            form or DocumentForm(),
            options.pop("tokenizer", self.tokenizer),
            cache_dir=self.cache,
            progress=lambda done, total: self.progress.append((done, total)),
            **options,
        )

    @property
    def was_built(self) -> bool:
        return bool(self.progress)


@pytest.fixture(scope="session")
def numbered_tokenizer():
    """Knows the words t0, t1, … : word tN has id N + FIRST_ID."""
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{number}" for number in range(20000))]
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)})


@pytest.fixture(scope="session")
def vocabulary(numbered_tokenizer) -> Vocabulary:
    return Vocabulary.of(numbered_tokenizer)


@pytest.fixture
def store_of(tmp_path, numbered_tokenizer) -> Callable[[list[list[int]]], TokenStore]:
    """``store_of([[3, 4], [5]])``: a document of sentences of 3 and 4 tokens, and one of 5.

    The tokens are t0, t1, … from the first to the last, so an id says where in the corpus its token stands.
    """

    def build(documents: list[list[int]]) -> TokenStore:
        number = 0
        lines = []
        for lengths in documents:
            for length in lengths:
                lines.append(" ".join(f"t{word}" for word in range(number, number + length)))
                number += length
            lines.append("")
        file = tmp_path / "numbered.txt"
        file.write_text("\n".join(lines), encoding="utf-8")
        form = DocumentForm(sentence_per_line=True)
        return build_token_store(find_sources([file]), form, numbered_tokenizer, cache_dir=tmp_path / "cache")

    return build


@pytest.fixture
def corpus(tmp_path, numbered_tokenizer) -> Corpus:
    return Corpus(tmp_path, numbered_tokenizer)
