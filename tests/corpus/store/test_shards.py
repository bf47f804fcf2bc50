"""Stores built in shards have the bytes of the store of pre-training, for any number of workers and after kills."""

from __future__ import annotations

import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bertkit.corpus.documents import DocumentForm
from bertkit.corpus.sentences import split_sentences
from bertkit.corpus.settings import DocumentFilter, Workers
from bertkit.corpus.sources import find_sources
from bertkit.corpus.store import encoding, shards
from bertkit.corpus.store.encoding import EncodedBatch
from bertkit.corpus.store.shards import build_store, joined
from bertkit.corpus.store.token_store import TokenStore
from bertkit.corpus.store.writer import StoreDraft
from bertkit.errors import DataError, OutputError

BLANK = DocumentForm(document_separator="blank-line")
ROOT = Path(__file__).parents[3]


def build(corpus, files, place="store", chosen=None, form=BLANK, splitter=split_sentences, **workers) -> TokenStore:
    return build_store(
        corpus.folder / place,
        find_sources(files),
        form,
        corpus.tokenizer,
        splitter,
        chosen=chosen or DocumentFilter(),
        workers=Workers(**workers),
    )


def contents(store: TokenStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.folder.iterdir()}


@pytest.fixture
def files(corpus, monkeypatch):
    """Documents of 1 to 40 sentences, far more than a batch or a shard; some have no tokens."""
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 200)
    monkeypatch.setattr(shards, "_SHARD_BATCHES", 3)
    texts = []
    for number in range(60):
        word = "\u200b" if number % 7 == 3 else f"t{number}"
        texts.append("\n".join(f"{word} t{line}. T{line}" for line in range(1 + number * 7 % 40)))
        if word == "\u200b":
            texts[-1] = "\u200b"
    half = len(texts) // 2
    return corpus.write(one="\n\n".join(texts[:half]), two="\n\n".join(texts[half:]))


def test_a_store_has_the_bytes_of_pretraining(corpus, files):
    store = build(corpus, files)
    assert contents(store) == contents(corpus.build(files, BLANK))
    assert not (corpus.folder / "store.building").exists()
    assert store.num_documents > 20


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_the_number_of_processes_does_not_show(corpus, files, workers):
    assert contents(build(corpus, files, "several", number=workers)) == contents(build(corpus, files))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets to the end of the process
def test_ray_with_a_killed_worker(corpus, files):
    import psutil

    def killing(paragraph: str) -> list[str]:
        """Kills its own worker once, in the middle of the corpus."""
        mark = Path(places["mark"])
        if "t50" in paragraph and os.getpid() != places["driver"] and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return split_sentences(paragraph)

    places = {"mark": str(corpus.folder / "killed"), "driver": os.getpid()}
    killing.version = "1"
    expected = build(corpus, files, splitter=killing)
    for workers in (1, 2):
        (corpus.folder / "killed").unlink(missing_ok=True)
        store = build(corpus, files, f"ray-{workers}", splitter=killing, engine="ray", number=workers)
        assert contents(store) == contents(expected)
        assert (corpus.folder / "killed").exists()
    assert not [each for each in psutil.Process().children(recursive=True) if "raylet" in each.name()]


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_build_continues_after_its_last_shard(corpus, files, monkeypatch, after):
    expected = contents(corpus.build(files, BLANK))
    write, written = shards._write_shard, []

    def ending(file, shard):
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(file.name)
        write(file, shard)

    monkeypatch.setattr(shards, "_write_shard", ending)
    with pytest.raises(KeyboardInterrupt):
        build(corpus, files)
    assert not (corpus.folder / "store").exists()
    more = []
    monkeypatch.setattr(shards, "_write_shard", lambda file, shard: (more.append(file.name), write(file, shard)))
    assert contents(build(corpus, files)) == expected
    assert written == [f"shard-{number:06}.npz" for number in range(after)]
    assert more[0] == f"shard-{after:06}.npz"


def interrupted(corpus, files, monkeypatch) -> Path:
    """Ends a build after its shards and returns their folder."""
    with monkeypatch.context() as patch:

        def ending(*args):
            raise KeyboardInterrupt

        patch.setattr(shards, "write_store", ending)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, files)
    return corpus.folder / "store.building"


def test_shards_from_a_damaged_one_are_rebuilt(corpus, files, monkeypatch):
    work = interrupted(corpus, files, monkeypatch)
    shard = work / "shard-000002.npz"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert contents(build(corpus, files)) == contents(corpus.build(files, BLANK))


def test_shards_of_another_text_are_not_used(corpus, files, monkeypatch):
    interrupted(corpus, files, monkeypatch)
    files[1].write_text("t1 t2\n\nt3")
    assert contents(build(corpus, files)) == contents(corpus.build(files, BLANK))


def test_a_finished_store_is_opened(corpus, files):
    first = build(corpus, files)
    assert build(corpus, files).fingerprint == first.fingerprint
    with pytest.raises(OutputError, match="store of another text"):
        build(corpus, files[:1])
    with pytest.raises(OutputError, match="store of another text"):
        build(corpus, files, chosen=DocumentFilter(min_tokens=3))
    (corpus.folder / "full").mkdir()
    (corpus.folder / "full" / "file").touch()
    with pytest.raises(OutputError, match="not empty"):
        build(corpus, files, "full")


def test_one_process_builds_a_store(corpus, files):
    from bertkit.files import lock

    work = corpus.folder / "store.building"
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY)
    lock(descriptor)
    try:
        with pytest.raises(OutputError, match="another process builds this store"):
            build(corpus, files)
    finally:
        os.close(descriptor)


def test_text_that_cannot_be_read_leaves_nothing(corpus, files):
    [bad] = corpus.write(bad="t1\n\n" * 200 + "\0")
    with pytest.raises(DataError, match=r"bad\.txt: NUL byte"):
        build(corpus, [*files, bad])
    assert not list(corpus.folder.glob("store*"))


def test_joined_batches_append_as_single_ones(tmp_path):
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(20):
        number = int(rng.integers(0, 4))
        documents = np.sort(rng.integers(0, number + 1, size=int(rng.integers(0, 6))))
        lengths = rng.integers(1, 5, size=len(documents))
        batches.append(EncodedBatch(rng.integers(0, 99, size=lengths.sum()), lengths, documents, number, 0))
    stores = []
    for name, parts in (("one", batches), ("joined", [joined(batches[:7]), joined(batches[7:])])):
        (tmp_path / name).mkdir()
        draft = StoreDraft(tmp_path / name, np.uint16)
        for part in parts:
            draft.append(part)
        draft.finish({"format": 3})
        stores.append(TokenStore.open(tmp_path / name))
    assert stores[0].fingerprint == stores[1].fingerprint


PROGRAM = """
import sys
from bertkit.corpus.store import shards
from bertkit.corpus.store import encoding
import bertkit
encoding._BATCH_CHARACTERS, shards._SHARD_BATCHES = 20000, 2
if __name__ == "__main__":
    bertkit.build_corpus([sys.argv[1]], sys.argv[2], tokenizer=sys.argv[3], workers=2,
        document_separator="blank-line")
"""


@pytest.mark.slow
@pytest.mark.multiprocess
def test_sigkill_at_five_moments_loses_and_repeats_nothing(corpus, forks):
    import time

    [file] = corpus.write(one="\n\n".join(f"t{number} t1. T2" for number in range(50_000)))
    corpus.tokenizer.save_pretrained(corpus.folder / "tokenizer")
    call = [forks.python, "-c", PROGRAM, str(file), str(corpus.folder / "store"), str(corpus.folder / "tokenizer")]
    work, seen = corpus.folder / "store.building", 0
    for _ in range(5):
        process = subprocess.Popen(
            call, cwd=ROOT, env=forks.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wanted, limit = seen + 2, time.monotonic() + 60
        while process.poll() is None and len(list(work.glob("shard-*.npz"))) < wanted and time.monotonic() < limit:
            time.sleep(0.01)
        process.kill()  # and its session: the lock is free when its last process has ended
        process.wait()
        assert seen <= len(list(work.glob("shard-*.npz")))
        seen = len(list(work.glob("shard-*.npz")))
    assert seen >= 8
    subprocess.run(call, cwd=ROOT, env=forks.environment, check=True, timeout=120)
    expected = corpus.build([file], BLANK)
    assert (corpus.folder / "store" / "documents.arrow").read_bytes() == contents(expected)["documents.arrow"]
