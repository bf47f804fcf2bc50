"""Corpora small enough to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sentences import split_sentences
from bertkit.data.corpus.settings import DocumentFilter
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store.building import build_store
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.data.corpus.store.writer import build_token_store
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.runtime.placement.processes import Workers

BLANK = DocumentForm(document_separator="blank-line")


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


def build(
    corpus: Corpus,
    files,
    place="store",
    *,
    chosen=None,
    form=BLANK,
    splitter=split_sentences,
    add=lambda draft: None,
    **workers,
) -> TokenStore | None:
    """Builds a store of files in the folder of a corpus, by one process unless ``workers`` say otherwise."""
    return build_store(
        corpus.folder / place,
        find_sources(files),
        form,
        corpus.tokenizer,
        splitter,
        chosen=chosen or DocumentFilter(),
        workers=Workers(**{"number": 1, **workers}),
        add=add,
    )


@pytest.fixture(scope="session")
def numbered_tokenizer():
    """Knows the words t0, t1, … : word tN has id N + 5, after those of the five special tokens."""
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
