"""Building of a token store in shards, so that a killed build continues where it was.

A shard is a fixed part of the corpus: `_SHARD_BATCHES` consecutive batches of paragraphs, about 4 million characters,
independent of the number of workers. The driver reads the text in order, workers split and tokenize batches, and a
finished shard is one file in the folder ``NAME.building`` beside the store. At the end the shards become the store,
one memory-mapped file, by the code that writes the stores of pre-training itself.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.corpus.settings import DocumentFilter, Workers
from bertkit.corpus.store import encoding
from bertkit.corpus.store.encoding import (
    Batch,
    EncodedBatch,
    SentenceEncoder,
    Splitter,
    batched,
    encode_batches,
    encode_with_ray,
)
from bertkit.corpus.store.filters import repeated_documents, without_documents, without_short
from bertkit.corpus.store.token_store import TokenStore, read_metadata, write_metadata
from bertkit.corpus.store.writer import Progress, Reading, origin_key, store_origin, write_store
from bertkit.errors import DataError, OutputError
from bertkit.files import new_folder, remove_unfinished, unlocked, write_whole
from bertkit.progress import counted, say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from bertkit.corpus.documents import DocumentForm
    from bertkit.corpus.sources import Source

_SHARD_BATCHES = 16
_PLAN_FILE = "plan.json"
_REPEATED_FILE = "repeated.json"


def build_store(
    place: Path,
    sources: Sequence[Source],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter,
    *,
    chosen: DocumentFilter,
    workers: Workers,
    add: Callable[[Path], None] = lambda draft: None,
    progress: Progress | None = None,
) -> TokenStore:
    """Builds the store ``place``, from the finished shards of a killed build if there are any.

    The files of the store have the same bytes for any ``workers`` and, without filters, the bytes of
    `build_token_store`. A store of the same text and settings at ``place`` is opened instead. The text up to the first
    missing shard is read again, but not tokenized. The shards need the disk space of the tokens once more until the
    store is complete.

    Args:
        place: folder of the store; new, empty, or a store of the same origin.
        sources, form, tokenizer, splitter, progress: as for `build_token_store`.
        chosen: documents to keep.
        workers: processes that split and tokenize.
        add: called with the folder of the store before it becomes visible, to write further files.

    Raises:
        DataError: the text cannot be read, or no document is left.
        OutputError: ``place`` has other content, or another process builds it.
        PlacementError: a worker process was killed.
    """
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = store_origin(sources, form, encode, splitter)
    if facts := chosen.facts():
        origin["filters"] = facts
    # The names are part of the store but not of its identity, as in `build_token_store`.
    named = {**origin, "names": [source.name for source in sources]}
    if place.is_dir() and any(place.iterdir()):
        return _existing(place, origin)
    with _work_folder(place, origin) as work:
        reading = Reading(sources, form, progress)
        paragraphs = without_documents(reading, _repeated(reading, chosen, work))
        _write_shards(batched(paragraphs, reading.position), encode, workers, work, reading.report)
        shards = sorted(work.glob("shard-*.npz"))
        with new_folder(place) as draft:
            write_store(without_short(_read_shards(shards), chosen.min_tokens), encode.token_type, draft, named)
            add(draft)
    shutil.rmtree(work, ignore_errors=True)
    reading.report(None)
    return TokenStore.open(place)


def _existing(place: Path, origin: dict[str, Any]) -> TokenStore:
    try:
        store = TokenStore.open(place)
    except DataError as error:
        raise OutputError(f"--output-dir {place}: not empty and not an intact store; give another folder") from error
    if {name: store.metadata.get(name) for name in origin} != origin or (
        "filters" in store.metadata and "filters" not in origin
    ):
        raise OutputError(
            f"--output-dir {place}: has a store of another text, tokenizer or filter; give another folder"
        )
    return store


@contextlib.contextmanager
def _work_folder(place: Path, origin: dict[str, Any]) -> Iterator[Path]:
    """Yields the locked folder of the shards; shards of another origin are removed first."""
    work = place.with_name(f"{place.name}.building")
    plan = {"key": origin_key(origin), "shard_batches": _SHARD_BATCHES, "characters": encoding._BATCH_CHARACTERS}
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{work}: cannot be created: {error.strerror}") from error
    with unlocked(work) as free:
        if not free:
            raise OutputError(f"--output-dir {place}: another process builds this store; wait for it")
        remove_unfinished(work)
        if _plan_of(work) != plan:
            for path in (_PLAN_FILE, _REPEATED_FILE):
                (work / path).unlink(missing_ok=True)
            for shard in work.glob("shard-*.npz"):
                shard.unlink()
            write_metadata(work / _PLAN_FILE, plan)
        try:
            yield work
        except DataError:  # the text has to change, and the shards are of this text
            shutil.rmtree(work, ignore_errors=True)
            raise


def _plan_of(work: Path) -> dict[str, Any] | None:
    try:
        return read_metadata(work / _PLAN_FILE)
    except (DataError, OSError):
        return None


def _repeated(reading: Reading, chosen: DocumentFilter, work: Path) -> frozenset[int]:
    """Returns the numbers of the duplicates, found in a pass over the text or by the killed build before."""
    if chosen.deduplicate is None:
        return frozenset()
    file = work / _REPEATED_FILE
    with contextlib.suppress(DataError, OSError):
        return frozenset(read_metadata(file)["documents"])
    repeated = repeated_documents(reading, chosen.deduplicate)
    write_metadata(file, {"documents": sorted(repeated)})
    say(f"duplicates: {counted(len(repeated), 'document')} left out")
    return repeated


def _write_shards(
    batches: Iterator[Batch],
    encode: SentenceEncoder,
    workers: Workers,
    work: Path,
    report: Callable[[int | None], None],
) -> None:
    """Writes the shards that are missing."""
    finished = _finished(work)
    if finished:
        say(f"continuing: {finished} shards of {work} are finished")
    rest = itertools.islice(batches, finished * _SHARD_BATCHES, None)
    with contextlib.closing(_encoded(rest, encode, workers)) as encoded:
        for number in itertools.count(finished):
            part = list(itertools.islice(encoded, _SHARD_BATCHES))
            if not part:
                return
            _write_shard(work / f"shard-{number:06}.npz", joined(part))
            report(part[-1].position)


def _encoded(batches: Iterator[Batch], encode: SentenceEncoder, workers: Workers) -> Generator[EncodedBatch]:
    if workers.engine == "ray":
        return encode_with_ray(batches, encode, workers)
    return encode_batches(batches, encode, workers.number)


def joined(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Joins consecutive batches into one: appending it to a store has the effect of appending them in order."""
    before = list(itertools.accumulate((batch.num_documents for batch in batches), initial=0))
    return EncodedBatch(
        np.concatenate([batch.tokens for batch in batches]),
        np.concatenate([batch.lengths for batch in batches]),
        np.concatenate([batch.documents + first for batch, first in zip(batches, before[:-1], strict=True)]),
        before[-1],
        batches[-1].position,
    )


def _write_shard(file: Path, shard: EncodedBatch) -> None:
    stream = io.BytesIO()
    np.savez(stream, **shard._asdict())
    write_whole(file, stream.getvalue())


def _read_shard(file: Path) -> EncodedBatch:
    """Reads a shard; the archive carries a checksum of each array.

    Raises:
        DataError: the file is damaged.
    """
    try:
        with np.load(file, allow_pickle=False) as stored:
            shard = {name: stored[name] for name in EncodedBatch._fields}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: damaged; remove it and repeat the command") from error
    return EncodedBatch(
        shard["tokens"],
        shard["lengths"],
        shard["documents"],
        int(shard["num_documents"]),
        int(shard["position"]),
    )


def _read_shards(files: Sequence[Path]) -> Generator[EncodedBatch]:
    for file in files:
        yield _read_shard(file)


def _finished(work: Path) -> int:
    """Returns the number of intact shards before the first one that is missing; removes all others."""
    files = sorted(work.glob("shard-*.npz"))
    intact = 0
    with contextlib.suppress(DataError):
        for number, file in enumerate(files):
            if file.name != f"shard-{number:06}.npz":
                break
            _read_shard(file)
            intact += 1
    # The last shard may be shorter than the others; it is complete if the text has no more batches, and the text is
    # the same, so nothing has to be compared.
    for file in files[intact:]:
        file.unlink()
    return intact
