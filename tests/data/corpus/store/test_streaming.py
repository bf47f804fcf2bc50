"""Streams: blocks of whole documents, the same ones whenever they are asked for, and few of them on disk."""

from __future__ import annotations

import itertools
import random
from multiprocessing import get_context

import numpy as np
import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.examples.dataset import PretrainingExamples
from bertkit.data.corpus.sentences import split_sentences
from bertkit.data.corpus.settings import EPOCHS_OF_A_PHASE, PretrainingData
from bertkit.data.corpus.sources import TextLines, find_sources
from bertkit.data.corpus.store import streaming
from bertkit.data.corpus.store.streaming import StreamedBlocks
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer
from bertkit.runtime.reading.text import read_blocks

WORDS = "the cat dog sees likes a small old red house tree river near under and".split()


@pytest.fixture
def sources(tmp_path):
    """Thirty documents of about 300 characters in three files; the first word of each is its number."""
    rng = random.Random(0)
    for number, file in itertools.product(range(10), "abc"):
        sentences = [" ".join(rng.choices(WORDS, k=7)).capitalize() + "." for _ in range(8)]
        document = ord(file) * 100 + number
        with (tmp_path / f"{file}.txt").open("a") as stream:
            stream.write(f"{document} " + " ".join(sentences) + "\n\n")
    return find_sources([tmp_path])


@pytest.fixture
def tokenizer(sources):
    return train_tokenizer(TextLines(sources), vocab_size=120)


@pytest.fixture
def stream(sources, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_CHARACTERS", 1000)

    def open_stream(cache="cache", **options):
        return StreamedBlocks(
            sources,
            DocumentForm(document_separator="blank-line"),
            tokenizer,
            split_sentences,
            cache_dir=tmp_path / cache,
            **{"held_out": lambda documents: np.empty(0, np.int64), **options},
        )

    return open_stream


def documents(view, tokenizer):
    """The numbers that the documents of a view begin with."""
    store = view.store
    starts = store.sentence_offsets[store.document_offsets[view.documents]]
    texts = [tokenizer.decode(store.tokens[start : start + 8].tolist()) for start in starts]
    return ["".join(itertools.takewhile(str.isdigit, text.replace(" ", ""))) for text in texts]


ALL = [str(ord(file) * 100 + number) for file in "abc" for number in range(10)]


def test_blocks_of_a_pass_are_all_documents(stream, tokenizer):
    blocks = [documents(stream().of_epoch(number), tokenizer) for number in range(12)]
    first = next(number for number in range(1, 12) if blocks[number] == blocks[0])
    assert first > 2
    assert list(itertools.chain.from_iterable(blocks[:first])) == ALL
    assert blocks[first : 2 * first] == blocks[: len(blocks[first : 2 * first])]


def test_blocks_do_not_depend_on_their_order(stream, tokenizer):
    in_order = stream("one")
    expected = [documents(in_order.of_epoch(number), tokenizer) for number in range(6)]
    other = stream("two")
    for number in (4, 1, 5, 0, 3, 2):
        assert documents(other.of_epoch(number), tokenizer) == expected[number]


def test_every_phase_begins_with_the_first_block(stream, tokenizer):
    blocks = stream()
    assert documents(blocks.of_epoch(EPOCHS_OF_A_PHASE), tokenizer) == documents(blocks.of_epoch(0), tokenizer)


def test_few_blocks_are_kept_on_disk(stream):
    blocks = stream()
    for number in range(7):
        blocks.of_epoch(number)
        assert len(list(blocks.folder.glob("block-*"))) <= 4
    assert not list(blocks.folder.glob(".unfinished-*"))


def test_held_out_documents_are_in_no_block(stream, tokenizer):
    blocks = stream(held_out=lambda documents: np.array([1, documents - 1]))
    held_out = documents(blocks.held_out(), tokenizer)
    assert held_out[0] == ALL[1]
    assert len(held_out) == 2
    seen = set(itertools.chain.from_iterable(documents(blocks.of_epoch(number), tokenizer) for number in range(12)))
    assert seen == set(ALL) - set(held_out)


def test_a_last_document_alone_is_left_out(stream, tokenizer, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_CHARACTERS", 600)
    blocks = stream(max_documents=9)
    seen = [documents(blocks.of_epoch(number), tokenizer) for number in range(5)]
    assert all(len(block) >= 2 for block in seen)
    assert set(itertools.chain.from_iterable(seen)) <= set(ALL[:9])


def test_damaged_blocks_are_built_again(stream, tokenizer):
    expected = [documents(stream("whole").of_epoch(number), tokenizer) for number in range(12)]
    first = stream()
    for number in range(12):
        first.of_epoch(number)
    rng = random.Random(0)
    for file in sorted(path for path in first.folder.rglob("*") if path.is_file() and path.name != "lock"):
        changed = bytearray(file.read_bytes())
        changed[rng.randrange(len(changed) // 2)] ^= 4
        file.write_bytes(changed)
    again = stream()
    assert [documents(again.of_epoch(number), tokenizer) for number in range(12)] == expected


def test_another_text_or_another_cut_is_another_stream(stream, monkeypatch):
    before = stream().fingerprint
    assert stream().fingerprint == before
    assert stream(max_documents=8).fingerprint != before
    monkeypatch.setattr(streaming, "BLOCK_CHARACTERS", 2000)
    assert stream().fingerprint != before


def test_examples_depend_on_their_number_alone(stream, tokenizer):
    data = PretrainingData(max_seq_length=32, seed=1)
    vocabulary = Vocabulary.of(tokenizer)
    straight = PretrainingExamples(stream("one"), vocabulary, data, 400)
    assert straight.examples_per_epoch < 200  # several blocks
    expected = [straight[index] for index in range(400)]
    resumed = PretrainingExamples(stream("two"), vocabulary, data, 400)
    for index in (399, 250, 13):
        for name, array in resumed[index].items():
            assert (array == expected[index][name]).all()
    around_the_border = range(straight.examples_per_epoch - 4, straight.examples_per_epoch + 4)
    batch = resumed.__getitems__(around_the_border)
    for row, index in enumerate(around_the_border):
        assert (batch["input_ids"][row] == expected[index]["input_ids"]).all()


def test_a_killed_build_leaves_no_block(stream, tokenizer, monkeypatch):
    from bertkit.data.corpus.store.parts import StoreDraft

    blocks = stream()
    finish = StoreDraft.finish

    def killed(draft):
        finish(draft)
        raise KeyboardInterrupt

    monkeypatch.setattr(StoreDraft, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        blocks.of_epoch(0)
    assert not list(blocks.folder.glob("block-*"))
    monkeypatch.undo()
    assert documents(blocks.of_epoch(0), tokenizer)[0] == ALL[0]
    assert not list(blocks.folder.glob(".unfinished-*"))


def test_forked_data_workers_each_read_for_themselves(tokenizer, tmp_path, monkeypatch):
    """A worker that went on with what its parent has open would share the place in the file with the others."""
    monkeypatch.setattr(streaming, "BLOCK_CHARACTERS", 15_000)
    in_small_blocks = (lambda position: None, 200)  # so that the file is not read at once
    monkeypatch.setattr(read_blocks, "__defaults__", in_small_blocks)
    sentences = [" ".join(WORDS[number % 7 :]).capitalize() + "." for number in range(5)]
    lines = [f"{number} {' '.join(sentences)}\n\n" for number in range(300)]
    (tmp_path / "one.txt").write_text("".join(lines))
    sources, form = find_sources([tmp_path / "one.txt"]), DocumentForm(document_separator="blank-line")

    def open_stream(cache):
        options = {"cache_dir": tmp_path / cache, "held_out": lambda count: np.empty(0, np.int64)}
        return StreamedBlocks(sources, form, tokenizer, split_sentences, **options)

    alone, shared = open_stream("alone"), open_stream("shared")
    expected = [documents(alone.of_epoch(number), tokenizer) for number in range(5)]
    assert documents(shared.of_epoch(0), tokenizer) == expected[0]
    for number in (1, 3, 2):
        with get_context("fork").Pool(1) as pool:  # its process has the open reading of this one
            pool.apply(shared.of_epoch, (number,))
        assert documents(TokenStore.open(shared.folder / f"block-{number:06}").whole(), tokenizer) == expected[number]
    assert documents(shared.of_epoch(4), tokenizer) == expected[4]
