"""Sentences → tokens on disk."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.store import encoding, parts, token_store
from bertkit.data.corpus.store.encoding import EncodedBatch
from bertkit.data.corpus.store.manifest import read_metadata, write_metadata
from bertkit.data.corpus.store.parts import StoreDraft
from bertkit.data.corpus.store.token_store import FORMAT, TokenStore
from bertkit.data.corpus.store.writer import write_token_store
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.files import lock

PER_LINE = DocumentForm(sentence_per_line=True)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


def halves(paragraph: str) -> list[str]:
    return paragraph.split("|")


def later_halves(paragraph: str) -> list[str]:
    return halves(paragraph)


later_halves.__qualname__, later_halves.version = halves.__qualname__, "2"


def shouted(paragraph: str) -> list[str]:
    return paragraph.upper().split("|")


def test_tokens_sentences_and_documents(corpus):
    files = corpus.write(one="t0 t1. T2 t3 t4!\n\nt5\n", two="t6 t7\nt8. T9")
    store = corpus.build(files)
    stop, bang = corpus.tokenizer.unk_token_id, corpus.tokenizer.unk_token_id  # the vocabulary has no punctuation
    assert store.tokens.tolist() == [5, 6, stop, 7, 8, 9, bang, 10, 11, 12, 13, stop, 14]
    assert store.sentence_offsets.tolist() == [0, 3, 7, 8, 12, 13]
    assert store.document_offsets.tolist() == [0, 3, 5]
    assert (store.num_documents, store.num_sentences, store.num_tokens) == (2, 5, 13)
    assert (store.tokens.dtype, store.sentence_offsets.dtype, store.document_offsets.dtype) == (
        np.uint16,
        np.int64,
        np.int64,
    )


def test_sentences_and_documents_without_tokens_are_dropped(corpus):
    # U+200B and U+FEFF are text to Python, and nothing to BERT's cleaning.
    files = corpus.write(one="\u200b\n\nt0\n\u200b\nt1\n\u200b\n\n\ufeff\n\u200b\n\nt2\n")
    store = corpus.build(files, PER_LINE)
    assert store.sentence_offsets.tolist() == [0, 1, 2, 3]
    assert store.document_offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize("documents", [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [4], [5, 1, 2, 0]])
@pytest.mark.parametrize("part_tokens", [4, 1 << 24])
def test_tokens_are_counted_up_to_the_document_that_reaches_the_limit(corpus, documents, part_tokens, monkeypatch):
    monkeypatch.setattr(parts, "PART_TOKENS", part_tokens)
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 1)
    texts = ["t0 t1 t2", "t1", "t3 t3 t3 t4", "t0", "t5 t1", "t2 t6"]
    store = corpus.build(corpus.write(one="\n\n".join(texts)), PER_LINE)
    assert (len(store.parts) > 1) == (part_tokens == 4)
    monkeypatch.setattr(token_store, "_DOCUMENTS_AT_ONCE", 3)
    monkeypatch.setattr(token_store, "_TOKENS_AT_ONCE", 2)
    for most in range(1, 15):
        monkeypatch.setattr(token_store, "_MOST_COUNTED", most)
        words: list[str] = []
        for document in documents:
            words += texts[document].split() if len(words) < most else []
        counts = store.subset(documents).token_counts(20)
        assert counts.tolist() == [sum(number == 5 + int(word[1:]) for word in words) for number in range(20)]


def test_special_tokens_in_the_text_are_text(corpus):
    store = corpus.build(corpus.write(one="t0 [MASK] [SEP] t1"))
    assert not set(store.tokens.tolist()) & {corpus.tokenizer.mask_token_id, corpus.tokenizer.sep_token_id}
    assert store.tokens[0] == 5


def test_truncation_of_the_tokenizer_is_ignored(corpus):
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
    with pytest.raises(DataError, match=r"no text in '.*one\.txt'"):
        corpus.build(corpus.write(**texts))
    assert list(corpus.cache.iterdir()) == []


def test_progress_counts_bytes_up_to_all(corpus, monkeypatch):
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 10000)
    files = corpus.write(one="t1\n" * 9000, two="t2", three="t3\n" * 9000)
    corpus.build(files, PER_LINE)
    done = [done for done, _ in corpus.progress]
    total = sum(file.stat().st_size for file in files)
    assert {total for _, total in corpus.progress} == {total}
    assert done == sorted(done)
    assert done.count(total) == 1
    assert done[-1] == total
    assert 0 < done[0] < total


def test_ids_take_two_bytes_where_the_vocabulary_allows(corpus):
    from transformers import BertTokenizer

    files = corpus.write(one="t0 t1\n\nt2")
    last = {65535: np.uint16, 65536: np.int32}
    tokenizers = {number: BertTokenizer(vocab={**corpus.tokenizer.get_vocab(), "|": number}) for number in last}
    stores = {number: corpus.build(files, tokenizer=tokenizers[number]) for number in last}
    assert {number: store.tokens.dtype for number, store in stores.items()} == last
    assert stores[65536].tokens.tolist() == [5, 6, 7]
    assert stores[65535].fingerprint == stores[65536].fingerprint
    assert corpus.build(corpus.write(two="|"), tokenizer=tokenizers[65536]).tokens.tolist() == [65536]
    assert corpus.build(corpus.write(two="|"), tokenizer=tokenizers[65535]).tokens.tolist() == [65535]


def test_the_datasets_library_reads_it(store_of):
    from datasets import Dataset

    store = store_of([[1, 2], [3]])
    dataset = Dataset.from_file(str(store.folder / "part-000000-000.arrow"))
    assert dataset[0]["sentences"] == [[5], [6, 7]]
    assert dataset[1]["sentences"] == [[8, 9, 10]]
    assert len(dataset) == 2


@on_linux
def test_arrays_lie_in_the_mapped_file(store_of):
    store = store_of([[500] * 20, [300]])
    assert len(store.tokens) == 10300
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(store.folder) in line]
    [(first, last)] = [[int(end, 16) for end in fields[0].split("-")] for fields in maps]
    for array in (store.tokens, store.sentence_offsets, store.document_offsets):
        start = array.__array_interface__["data"][0]
        assert first <= start
        assert start + array.nbytes <= last


@on_linux
def test_no_page_of_the_drafts_stays_resident(tmp_path, monkeypatch):
    """Else preparing a corpus takes as much memory as its tokens."""
    resident = []
    write = parts._FlatSink.write

    def watched(sink, data):
        written = write(sink, data)
        smaps = Path("/proc/self/smaps").read_text()
        found = re.findall(rf"{tmp_path}/tokens\n(?:\w+:.*\n)*?Rss: +(\d+) kB", smaps)
        resident.append(sum(map(int, found)))
        return written

    monkeypatch.setattr(parts._FlatSink, "write", watched)
    number = 4 << 20
    draft = StoreDraft(tmp_path, np.int32)
    lengths, documents = np.full(number // 16, 16), np.ones(number // 16, np.int64)
    draft.append(EncodedBatch(np.arange(number, dtype=np.int32), lengths, documents, 1, 0))
    parts.write_manifest(tmp_path, {"format": FORMAT}, draft.finish())
    assert len(resident) > 3
    assert max(resident) < number * 4 // 1024 // 16
    assert TokenStore.open(tmp_path).tokens[-1] == number - 1


class TestCache:
    def test_the_same_is_found_again(self, corpus):
        files = corpus.write(one="t0. T1", two="t2")
        first = corpus.build(files)
        again = corpus.build(files)
        assert not corpus.was_built
        assert again.folder == first.folder

    def test_another_origin_is_built(self, corpus):
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
            corpus.build(files, splitter=later_halves),
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
        with pytest.raises(RecipeError, match="give it an attribute version"):
            corpus.build(corpus.write(one="t0"), splitter=str.splitlines)

    def test_a_splitter_may_say_its_version_itself(self, corpus):
        class Splitter:
            version = "1"

            def __call__(self, paragraph: str) -> list[str]:
                return [paragraph]

        files, splitter = corpus.write(one="t0"), Splitter()
        first = corpus.build(files, splitter=splitter)
        assert corpus.build(files, splitter=Splitter()).folder == first.folder
        splitter.version = "2"
        assert corpus.build(files, splitter=splitter).folder != first.folder

    def test_equal_content_has_an_equal_fingerprint(self, corpus):
        [one] = corpus.write(one="t0\n\nt1")
        [two] = corpus.write(two="t0. ")
        assert corpus.build([one], PER_LINE).fingerprint != corpus.build([one]).fingerprint
        assert corpus.build([one]).fingerprint == corpus.build([one], splitter=halves).fingerprint
        assert corpus.build([one]).fingerprint != corpus.build([two]).fingerprint

    @pytest.mark.parametrize(
        ("name", "damage", "fault"),
        [
            (
                "part-000000-000.arrow",
                lambda file: file.write_bytes(file.read_bytes()[:-4]),
                r"\d+ bytes, expected \d+",
            ),
            ("part-000000-000.arrow", Path.unlink, "is missing: this token store is damaged"),
            ("store.json", lambda file: file.write_text("{"), "damaged"),
            (
                "store.json",
                lambda file: write_metadata(file, {**read_metadata(file), "format": 0}),
                f"format 0, this version of bertkit reads {FORMAT}; build the store again",
            ),
        ],
    )
    def test_a_damaged_store_is_refused_and_built_anew(self, corpus, name, damage, fault, caplog):
        files = corpus.write(one="t0 t1. T2")
        store = corpus.build(files)
        tokens = store.tokens.tolist()
        damage(store.folder / name)
        with pytest.raises(DataError, match=rf"^{re.escape(str(store.folder / name))}: .*{fault}"):
            TokenStore.open(store.folder)
        assert corpus.build(files).tokens.tolist() == tokens
        assert "tokenizing the text again" in caplog.text

    def test_any_changed_byte_rebuilds_the_store(self, corpus):
        """Flipped bits change tokens, lengths, or metadata such as the fingerprint; few of them break the format."""
        files = corpus.write(one="t0 t1. T2\n\nt3 t4", two="t5")
        folder = corpus.build(files).folder
        originals = {path: path.read_bytes() for path in folder.iterdir()}
        rng = random.Random(0)
        for path, original in originals.items():
            for _ in range(40):
                changed = bytearray(original)
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
                path.write_bytes(changed)
                if path.suffix == ".json" and _same_json(changed, original):  # white space
                    continue
                with pytest.raises(DataError, match=path.name):
                    TokenStore.open(folder)
            corpus.build(files)
            assert corpus.was_built
            assert {path: path.read_bytes() for path in folder.iterdir()} == originals

    def test_a_store_finished_first_elsewhere_is_used(self, corpus, monkeypatch):
        files = corpus.write(one="t0 t1")
        rename = os.rename

        def late(draft, place):
            monkeypatch.setattr(os, "rename", rename)
            corpus.build(files)  # the other process
            rename(draft, place)

        monkeypatch.setattr(os, "rename", late)
        assert corpus.build(files).tokens.tolist() == [5, 6]
        assert len(list(corpus.cache.iterdir())) == 1

    def test_remains_of_killed_builds_are_removed(self, corpus):
        killed, at_work = (corpus.cache / f".unfinished-{name}" for name in ("killed", "at-work"))
        for draft in (killed, at_work):
            draft.mkdir(parents=True)
            (draft / "tokens").write_bytes(b"ab")
        descriptor = os.open(at_work, os.O_RDONLY)
        lock(descriptor)
        store = corpus.build(corpus.write(one="t0"))
        os.close(descriptor)
        assert set(corpus.cache.iterdir()) == {at_work, store.folder}


def test_an_existing_folder_is_left_alone(tmp_path, numbered_tokenizer):
    with pytest.raises(FileExistsError):
        write_token_store([Paragraph("t0", True)], DocumentForm(), numbered_tokenizer, folder=tmp_path)
    assert tmp_path.is_dir()


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
