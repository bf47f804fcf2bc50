"""Paragraphs → token ids: any batch size and number of processes give the same, and no process is left behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.store import encoding
from bertkit.data.corpus.store import writer as store_writer
from bertkit.data.corpus.store.encoding import Batch, SentenceEncoder
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.data.corpus.store.writer import write_token_store
from bertkit.runtime.errors import DataError, PlacementError

ROOT = Path(__file__).parents[4]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, or processes that are forked")


def halves(paragraph: str) -> list[str]:
    return paragraph.split("|")


@pytest.fixture(scope="module")
def small_tokenizer():
    """Cleans as BERT does; t0 to t4 are 1 to 5, all else is 0."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = {"[UNK]": 0, **{f"t{number}": 1 + number for number in range(5)}}
    backend = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return SimpleNamespace(backend_tokenizer=backend)


def as_lists(store: TokenStore) -> list[list[list[int]]]:
    """Documents of sentences of ids, read through the three arrays."""
    sentences = [ids.tolist() for ids in np.split(store.tokens, store.sentence_offsets[1:-1])]
    starts = store.document_offsets.tolist()
    return [sentences[start:end] for start, end in itertools.pairwise(starts)]


# "z" is no word of the vocabulary, U+200B is nothing at all; a paragraph of "|" alone has empty sentences only.
SENTENCES = st.lists(st.sampled_from(["t0", "t1 t2", "t3 z t4", "\u200b", ""]), min_size=1, max_size=4).map("|".join)
DOCUMENTS = st.lists(st.lists(SENTENCES.filter(bool), min_size=1, max_size=4), min_size=1, max_size=6)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=DOCUMENTS, characters=st.integers(1, 40))
def test_batches_of_any_size_equal_plain_lists(documents, characters, tmp_path_factory, small_tokenizer, monkeypatch):
    ids = {f"t{number}": [1 + number] for number in range(5)} | {"z": [0], "\u200b": []}
    expected = []
    for document in documents:
        sentences = [sentence.split() for paragraph in document for sentence in paragraph.split("|")]
        sentences = [[number for word in words for number in ids[word]] for words in sentences]
        if any(sentences):
            expected.append([sentence for sentence in sentences if sentence])
    paragraphs = [Paragraph(text, number == 0) for document in documents for number, text in enumerate(document)]
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", characters)
    folder = tmp_path_factory.mktemp("stores") / "store"
    if not expected:
        with pytest.raises(DataError, match="no text"):
            write_token_store(iter(paragraphs), DocumentForm(), small_tokenizer, halves, folder=folder)
        assert not folder.exists()
        return
    store = write_token_store(iter(paragraphs), DocumentForm(), small_tokenizer, halves, folder=folder)
    assert as_lists(store) == expected


class Unsendable(Exception):
    def __init__(self, one: str, two: str):
        super().__init__(one)


def marked(paragraph: str) -> list[str]:
    """Notes which process split a paragraph, in the file that the environment names."""
    with open(os.environ["SEEN"], "a", encoding="utf-8") as seen:
        print(os.getpid(), file=seen)
    if paragraph.startswith("raise"):
        raise ZeroDivisionError(paragraph)
    if paragraph.startswith("unsendable"):
        raise Unsendable("one", "two")
    if paragraph.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return paragraph.split("|")


class TestSeveralProcesses:
    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch, tmp_path):
        monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 200)
        monkeypatch.setattr(store_writer, "_SMALL_CORPUS", 0)
        monkeypatch.setenv("SEEN", str(tmp_path / "seen"))

    @pytest.fixture
    def files(self, corpus):
        paragraphs = [f"t{number} t0 | t{number + 1}" for number in range(100, 400)]
        return corpus.write(one="\n\n".join(paragraphs[:10]), two="\n\n".join(paragraphs[10:]), three="t7")

    def test_their_number_and_the_batches_do_not_show(self, corpus, files, monkeypatch, tmp_path):
        stores = []
        for num_workers, characters in [(1, 10**6), (1, 1), (1, 333), (2, 50), (3, 1000), (2, 10**6)]:
            monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", characters)
            corpus.cache = tmp_path / f"cache-{num_workers}-{characters}"
            stores.append(corpus.build(files, splitter=halves, num_workers=num_workers))
        assert len({store.fingerprint for store in stores}) == 1
        assert len({(store.folder / "part-000000-000.arrow").read_bytes() for store in stores}) == 1
        assert stores[0].num_sentences == 601
        assert len({store.folder.name for store in stores}) == 1

    def test_they_do_the_work_and_leave_the_environment(self, corpus, files, tmp_path):
        before = dict(os.environ)
        corpus.build(files, splitter=marked, num_workers=2)
        pids = set((tmp_path / "seen").read_text().split())
        assert str(os.getpid()) not in pids
        assert 1 <= len(pids) <= 2
        assert dict(os.environ) == before
        done = [done for done, _ in corpus.progress]
        assert done == sorted(done)
        assert len(done) > 10

    def test_a_small_corpus_needs_none(self, corpus, files, tmp_path, monkeypatch):
        monkeypatch.setattr(store_writer, "_SMALL_CORPUS", sum(file.stat().st_size for file in files) + 1)
        corpus.build(files, splitter=marked, num_workers=2)
        assert set((tmp_path / "seen").read_text().split()) == {str(os.getpid())}

    @on_linux
    def test_a_splitter_that_cannot_be_pickled(self, corpus, files):
        plain = corpus.build(files, splitter=halves)
        store = corpus.build(files, splitter=lambda text: text.split("|"), num_workers=2)
        assert corpus.was_built
        assert store.fingerprint == plain.fingerprint

    def test_what_a_splitter_raises_comes_through(self, corpus, files):
        files += corpus.write(four="t1\n\nraise | t2")
        with pytest.raises(ZeroDivisionError, match=r"raise \| t2"):
            corpus.build(files, splitter=marked, num_workers=2)
        assert list(corpus.cache.iterdir()) == []

    def test_an_unpicklable_error_is_no_killed_process(self, corpus, files):
        files += corpus.write(four="unsendable")
        with pytest.raises(BrokenProcessPool) as raised:
            corpus.build(files, splitter=marked, num_workers=2)
        assert "missing 1 required positional argument" in str(raised.value.__cause__)
        assert list(corpus.cache.iterdir()) == []

    def test_a_process_that_is_killed_is_said(self, corpus, files):
        files += corpus.write(four="kill\n\nt1")
        with pytest.raises(
            PlacementError, match=r"one of the 2 processes .* was killed, most often because memory ran out"
        ):
            corpus.build(files, splitter=marked, num_workers=2)
        assert list(corpus.cache.iterdir()) == []

    def test_what_the_sources_raise_comes_through(self, corpus, files):
        [bad] = corpus.write(bad="t1\n\n" * 200 + "\0")
        with pytest.raises(DataError, match=r"bad\.txt: NUL byte at byte offset 800"):
            corpus.build([*files, bad], splitter=halves, num_workers=2)
        assert list(corpus.cache.iterdir()) == []


PROGRAM = r"""
import os, signal, sys, time, types
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
from tokenizers import Tokenizer, models, pre_tokenizers
from bertkit.data.corpus.store import encoding
from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.store.writer import write_token_store

def slow(paragraph):
    os.write(1, b"%d\n" % os.getpid())
    time.sleep(float(sys.argv[2]))
    return [paragraph]

encoding._BATCH_CHARACTERS = 1
backend = Tokenizer(models.WordPiece({"[UNK]": 0, "t0": 1}, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
backend.encode_batch(["t0"] * 1000)  # on threads
store = write_token_store([Paragraph("t0", True)] * 200, DocumentForm(), types.SimpleNamespace(
    backend_tokenizer=backend), slow, folder=sys.argv[1], num_workers=2)
backend.encode_batch(["t0"] * 1000)
assert store.num_tokens == store.num_documents == 200
"""


@on_linux
class TestProcessesEnd:
    def start(self, folder: Path, seconds: float) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, str(folder), str(seconds)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def workers_seen(self, program: subprocess.Popen[str]) -> set[int]:
        pids: set[int] = set()
        while len(pids) < 2:
            line = program.stdout.readline()
            assert line, program.stderr.read()
            pids.add(int(line))
        return pids

    def assert_gone(self, pids: set[int]) -> None:
        waited_until = time.monotonic() + 30
        while alive := {pid for pid in pids if is_running(pid)}:
            assert time.monotonic() < waited_until, f"still running: {alive}"
            time.sleep(0.05)

    def test_without_a_word(self, tmp_path):
        program = self.start(tmp_path / "store", 0)
        said, complaints = program.communicate(timeout=60)
        assert complaints == ""
        assert program.returncode == 0
        assert str(program.pid) not in said.split()
        assert len(said.split()) == 200

    def test_at_ctrl_c(self, tmp_path):
        program = self.start(tmp_path / "store", 0.1)
        pids = self.workers_seen(program)
        for pid in pids:  # the parent ends them
            ignored = int(Path(f"/proc/{pid}/status").read_text().partition("SigIgn:")[2].split()[0], 16)
            assert ignored & 1 << signal.SIGINT - 1
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, complaints = program.communicate(timeout=60)
        assert complaints.count("KeyboardInterrupt") == 1
        assert complaints.count("Traceback") == 1
        self.assert_gone(pids)
        assert list(tmp_path.iterdir()) == []

    def test_with_a_parent_that_is_killed(self, tmp_path):
        program = self.start(tmp_path / "store", 0.1)
        pids = self.workers_seen(program)
        program.kill()
        self.assert_gone(pids)
        program.communicate(timeout=60)
        with pytest.raises(DataError, match="no token store in this folder"):
            TokenStore.open(tmp_path / "store")


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


PARAGRAPH = "The cat sees the dog. It likes (a small) house! \u201cWhy?\u201d said Zoë; nobody knew. 42 trees. End"


@pytest.mark.parametrize("family", ["roberta", "modernbert", "xlm-roberta", "albert", "bert"])
def test_sentences_have_the_tokens_of_their_paragraph(family):
    """Byte-level BPE reads the space in front of a word as part of it."""
    from bertkit.data.corpus.sentences import find_splitter
    from tests.stock_models import stock_tokenizer

    tokenizer = stock_tokenizer(family)
    encoded = SentenceEncoder(tokenizer, find_splitter("rules"))(Batch([PARAGRAPH, PARAGRAPH], [1, 2], 0))
    expected = tokenizer(PARAGRAPH, add_special_tokens=False)["input_ids"]
    assert encoded.tokens.tolist() == expected * 2
    assert len(encoded.lengths) > 2 * 3


def test_text_without_spaces_gets_none():
    from tests.stock_models import stock_tokenizer

    tokenizer = stock_tokenizer("roberta")
    text = "日本語。です。 はい。"
    encoded = SentenceEncoder(tokenizer, lambda text: ["日本語。", "です。", "はい。"])(Batch([text], [1], 0))
    assert encoded.tokens.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("sentences", [["The cat. ", "It sees. ", "End"], ["The cat. ", " ", "", " It sees.", "End "]])
def test_white_space_at_the_ends_of_sentences_makes_no_token(sentences):
    """Some libraries return sentences with the space after them."""
    from tests.stock_models import stock_tokenizer

    tokenizer = stock_tokenizer("roberta")
    text = "The cat. It sees. End"
    encoded = SentenceEncoder(tokenizer, lambda text: sentences)(Batch([text], [1], 0))
    assert encoded.tokens.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(encoded.lengths) == 3
