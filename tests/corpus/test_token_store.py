"""Sentences → tokens on disk."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertkit.corpus.documents import DocumentForm
from bertkit.corpus.store_writer import build_token_store
from bertkit.corpus.token_store import TokenStore
from bertkit.errors import DataError

PER_LINE = DocumentForm(sentence_per_line=True)


def halves(paragraph: str) -> list[str]:
    return paragraph.split("|")


def shouted(paragraph: str) -> list[str]:
    return paragraph.upper().split("|")


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
            files,
            form or DocumentForm(),
            options.pop("tokenizer", self.tokenizer),
            cache_dir=self.cache,
            progress=lambda done, total: self.progress.append((done, total)),
            **options,
        )

    @property
    def was_built(self) -> bool:
        return bool(self.progress)


@pytest.fixture
def corpus(tmp_path, numbered_tokenizer):
    return Corpus(tmp_path, numbered_tokenizer)


def test_tokens_sentences_and_documents(corpus):
    files = corpus.write(one="t0 t1. T2 t3 t4!\n\nt5\n", two="t6 t7\nt8. T9")
    store = corpus.build(files)
    stop, bang = corpus.tokenizer.unk_token_id, corpus.tokenizer.unk_token_id  # the vocabulary has no punctuation
    assert store.tokens.tolist() == [5, 6, stop, 7, 8, 9, bang, 10, 11, 12, 13, stop, 14]
    assert store.sentence_offsets.tolist() == [0, 3, 7, 8, 12, 13]
    assert store.document_offsets.tolist() == [0, 3, 5]
    assert (store.num_documents, store.num_sentences, store.num_tokens) == (2, 5, 13)
    assert (store.tokens.dtype, store.sentence_offsets.dtype, store.document_offsets.dtype) == (
        np.int32,
        np.int64,
        np.int64,
    )


def test_sentences_and_documents_without_tokens_are_dropped(corpus):
    # U+200B and U+FEFF are text to Python, and nothing to BERT's cleaning.
    files = corpus.write(one="\u200b\n\nt0\n\u200b\nt1\n\u200b\n\n\ufeff\n\u200b\n\nt2\n")
    store = corpus.build(files, PER_LINE)
    assert store.sentence_offsets.tolist() == [0, 1, 2, 3]
    assert store.document_offsets.tolist() == [0, 2, 3]


def test_many_batches(corpus):
    """Documents that start within a batch of 4,096 sentences, span several, or end with one."""
    sizes = [4095, 1, 1, 10000, 3, 4096]
    lines = ["t1 t2"] * sizes[0]
    for size in sizes[1:]:
        lines += ["", *["t1 t2"] * size]
    store = corpus.build(corpus.write(one="\n".join(lines)), PER_LINE)
    assert np.diff(store.document_offsets).tolist() == sizes
    assert store.sentence_offsets.tolist() == list(range(0, 2 * sum(sizes) + 1, 2))


def test_special_tokens_in_the_text_are_text(corpus):
    store = corpus.build(corpus.write(one="t0 [MASK] [SEP] t1"))
    assert not set(store.tokens.tolist()) & {corpus.tokenizer.mask_token_id, corpus.tokenizer.sep_token_id}
    assert store.tokens[0] == 5


def test_the_tokenizer_is_neither_followed_nor_changed_in_what_it_cuts(corpus):
    tokenizer = pickle.loads(pickle.dumps(corpus.tokenizer))
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    files = corpus.write(one="t0 t1 t2 t3 t4 t5\n\nt6")
    store = corpus.build(files, tokenizer=tokenizer)
    assert store.tokens.tolist() == [5, 6, 7, 8, 9, 10, 11]
    assert tokenizer.backend_tokenizer.truncation["max_length"] == 4
    corpus.build(files)
    assert not corpus.was_built


@pytest.mark.parametrize("texts", [{"one": ""}, {"one": "\n \n", "two": "\u200b"}])
def test_no_text_at_all(corpus, texts):
    with pytest.raises(DataError, match=r"no text in any of the \d files: .*one\.txt"):
        corpus.build(corpus.write(**texts))
    assert list(corpus.cache.iterdir()) == []


def test_progress_counts_bytes_up_to_all(corpus):
    files = corpus.write(one="t1\n" * 9000, two="t2")
    corpus.build(files, PER_LINE)
    done = [done for done, _ in corpus.progress]
    total = sum(file.stat().st_size for file in files)
    assert {total for _, total in corpus.progress} == {total}
    assert done == sorted(done)
    assert done[-1] == total
    assert 0 < done[0] < total


class TestCache:
    def test_the_same_is_found_again(self, corpus):
        files = corpus.write(one="t0. T1", two="t2")
        first = corpus.build(files)
        moved = [file.rename(file.with_name(f"moved-{file.name}")) for file in files]
        again = corpus.build(moved)
        assert not corpus.was_built
        assert again.folder == first.folder

    def test_other_text_order_form_splitter_or_tokenizer_is_not(self, corpus):
        from transformers import BertTokenizer

        files = corpus.write(one="t0 | t1. T2", two="t2")
        other_tokenizer = BertTokenizer(vocab={**corpus.tokenizer.get_vocab(), "|": 20005})
        stores = [
            corpus.build(files),
            corpus.build(files[::-1]),
            corpus.build(files[:1]),
            corpus.build(files, DocumentForm(document_separator="blank-line")),
            corpus.build(files, splitter=halves),
            corpus.build(files, splitter=shouted),
            corpus.build(files, splitter=halves, splitter_version="2"),
            corpus.build(files, tokenizer=other_tokenizer),
        ]
        assert corpus.was_built
        files[1].write_text("t3", encoding="utf-8")
        stores.append(corpus.build(files))
        assert len({store.folder for store in stores}) == len(stores)

    def test_the_splitter_is_asked(self, corpus):
        store = corpus.build(corpus.write(one="t0 | t1 t2"), splitter=halves)
        assert store.sentence_offsets.tolist() == [0, 1, 3]

    def test_a_splitter_without_source_needs_a_version(self, corpus):
        with pytest.raises(ValueError, match="splitter_version: needed"):
            corpus.build(corpus.write(one="t0"), splitter=str.splitlines)

    def test_equal_content_has_an_equal_fingerprint(self, corpus):
        [one] = corpus.write(one="t0\n\nt1")
        [two] = corpus.write(two="t0. ")
        assert corpus.build([one], PER_LINE).fingerprint != corpus.build([one]).fingerprint
        assert corpus.build([one]).fingerprint == corpus.build([one], splitter=halves).fingerprint
        assert corpus.build([one]).fingerprint != corpus.build([two]).fingerprint

    @pytest.mark.parametrize("damage", ["cut", "lost", "metadata", "version"])
    def test_a_damaged_store_is_refused_and_built_anew(self, corpus, damage, caplog):
        files = corpus.write(one="t0 t1. T2")
        store = corpus.build(files)
        tokens = store.tokens.tolist()
        if damage == "cut":
            [file] = store.folder.glob("tokens*")
            file.write_bytes(file.read_bytes()[:-4])
        elif damage == "lost":
            [file] = store.folder.glob("document_offsets*")
            file.unlink()
        else:
            [file] = store.folder.glob("*.json")
            file.write_text("{" if damage == "metadata" else '{"format": 0}', encoding="utf-8")
        with pytest.raises(DataError, match=r"delete .* and start again"):
            TokenStore.open(store.folder)
        assert corpus.build(files).tokens.tolist() == tokens
        assert "built anew" in caplog.text

    def test_a_killed_build_leaves_no_store(self, corpus):
        [file] = corpus.write(one="t0 t1\n" * 20000)
        program = f"""
import os, signal, types
from pathlib import Path
from tokenizers import Tokenizer, models, pre_tokenizers
from bertkit.corpus.documents import DocumentForm
from bertkit.corpus.store_writer import build_token_store
backend = Tokenizer(models.WordPiece({{"[UNK]": 0, "t0": 1, "t1": 2}}, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
def progress(done, total):
    if kill and done > total // 2:
        os.kill(os.getpid(), signal.SIGKILL)
for kill in (False, True) if Path({str(corpus.cache)!r}).exists() else (True,):
    store = build_token_store([Path({str(file)!r})], DocumentForm(sentence_per_line=True),
        types.SimpleNamespace(backend_tokenizer=backend), cache_dir={str(corpus.cache)!r}, progress=progress)
    print(store.num_tokens)
"""
        command = [sys.executable, "-c", program]
        root = Path(__file__).parents[2]
        killed = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
        assert killed.returncode == -9, killed.stderr
        [left_over] = corpus.cache.iterdir()
        assert sum(part.stat().st_size for part in left_over.iterdir()) > 0
        with pytest.raises(DataError, match="no store of tokens here"):
            TokenStore.open(left_over)
        again = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
        assert again.stdout.split() == ["40000", "40000"], again.stderr

    def test_a_store_that_another_process_finished_first_is_used(self, corpus, monkeypatch):
        import os

        files = corpus.write(one="t0 t1")
        rename = os.rename

        def late(draft, place):
            monkeypatch.setattr(os, "rename", rename)
            corpus.build(files)  # the other process
            rename(draft, place)

        monkeypatch.setattr(os, "rename", late)
        assert corpus.build(files).tokens.tolist() == [5, 6]
        assert len(list(corpus.cache.iterdir())) == 1


def test_open_says_when_there_is_no_store(tmp_path):
    with pytest.raises(DataError, match="no store of tokens here"):
        TokenStore.open(tmp_path)


def test_a_store_is_pickled_as_its_place(store_of):
    store = store_of([[5000], [5000]])
    data = pickle.dumps(store)
    assert len(data) < 1000
    assert pickle.loads(data).tokens.tolist() == store.tokens.tolist()


def test_arrays_are_read_only(store_of):
    store = store_of([[2], [3]])
    with pytest.raises(ValueError, match="read-only"):
        store.tokens[0] = 1


class TestViews:
    def test_counts(self, store_of):
        store = store_of([[1, 2], [3], [4, 5, 6]])
        whole, part = store.whole(), store.subset([2, 0])
        assert (whole.num_documents, whole.num_sentences, whole.num_tokens) == (3, 6, 21)
        assert (part.num_documents, part.num_sentences, part.num_tokens) == (2, 5, 18)

    def test_unknown_and_repeated_documents(self, store_of):
        store = store_of([[1], [2]])
        with pytest.raises(ValueError, match="document 2: this store holds documents 0 to 1"):
            store.subset([0, 2])
        with pytest.raises(ValueError, match="twice"):
            store.subset([1, 1])
