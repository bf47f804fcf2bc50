"""Building of a token store by several processes or machines, so that a killed build continues where it was.

The sources are divided into units: files, ranges of large files, or several small files. Units are a function of the
sources and of how they are read, so the store does not depend on the workers. A worker reads a unit, splits, tokenizes
and writes its parts into the folder ``NAME.building`` beside the store; the record of a unit, which is written last,
says that it is complete. When all units are, the parts and their manifest become the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.data.corpus.settings import DocumentFilter
from bertkit.data.corpus.store.encoding import SentenceEncoder, Splitter, batch_paragraphs, encode_batches
from bertkit.data.corpus.store.filters import document_digests, repeated_documents, without_documents, without_short
from bertkit.data.corpus.store.manifest import METADATA_FILE, read_metadata, write_metadata
from bertkit.data.corpus.store.parts import write_manifest, write_parts
from bertkit.data.corpus.store.token_store import TokenStore
from bertkit.data.corpus.store.units import Job, Unit, WorkOn, run_units
from bertkit.data.corpus.store.writer import Reading, origin_key, store_origin
from bertkit.runtime.errors import DataError, OutputError, listed
from bertkit.runtime.files import into_folder, new_folder, remove_unfinished, unlocked
from bertkit.runtime.json_text import dumps
from bertkit.runtime.placement.processes import Workers
from bertkit.runtime.progress import Reached, counted, inflected, say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from bertkit.data.corpus.documents import DocumentForm
    from bertkit.data.corpus.sources import Source

_PLAN_FILE = "plan.json"
_UNITS = 256  # down to half as many, if all are full, and neither of the least nor of the greatest size
_LEAST_BYTES, _MOST_BYTES = 4 << 20, 256 << 20


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
    progress: Reached | None = None,
) -> TokenStore | None:
    """Builds the store ``place``, from the complete units of a killed build if there are any.

    The files of the store have the same bytes for any ``workers`` and shares. A store of the same text and settings at
    ``place`` is opened instead.

    Args:
        place: folder of the store; new, empty, or a store of the same origin.
        sources, form, tokenizer, splitter, progress: as for `build_token_store`.
        chosen: documents to keep.
        workers: processes that read, split, tokenize and write; with a ``part`` that share of the units only, without
            the store; see `join_store`.
        add: called with the folder of the parts, to write further files of the store.

    Returns:
        The store; None for a share, unless the store is there.

    Raises:
        DataError: the text cannot be read, or no document is left.
        OutputError: ``place`` has other content, or another process builds it, which is not noticed on file systems
            without locks.
        PlacementError: a worker was killed twice at the same unit, or Ray is missing or does not answer.
        RecipeError: as `splitter_id`; or the package that ``minhash`` needs is not installed.
    """
    place, share = place.absolute(), workers.share  # workers of Ray have other working folders
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = store_origin(sources, form, encode, splitter)
    if facts := chosen.facts():
        origin["filters"] = facts
    # The names are part of the store but not of its identity, as in `build_token_store`.
    named = {**origin, "names": [source.name for source in sources]}
    if place.is_dir() and any(place.iterdir()):
        try:
            store = TokenStore.open(place)
        except DataError as error:
            raise OutputError(
                f"--output-dir {place}: not empty and not an intact store; give another folder"
            ) from error
        if not _has_origin(store, origin):
            raise OutputError(
                f"--output-dir {place}: has a store of another text, tokenizer or filter; give another folder"
            )
        _remove_work(place)
        return store
    units = divide_sources(sources, form, origin, is_whole=chosen.deduplicate is not None)
    with _work_folder(place, named, units, share, add) as work:
        job = Job(work, form, encode, chosen)
        if chosen.deduplicate is not None:
            _run(digest_unit, job, units, "digests", workers, None)
            digests = [(work / _digests_name(unit)).read_bytes() for unit in units]
            repeated = dict(enumerate(repeated_documents(digests, chosen.deduplicate)))
            say(f"duplicates: {counted(sum(map(len, repeated.values())), 'document')} left out")
            job = Job(work, form, encode, chosen, repeated)
        own = units if share is None else units[share[0] - 1 :: share[1]]
        _run(write_unit, job, own, "unit", workers, progress)
        if share is None:
            _assemble(place, work, [unit.record(work, "unit") for unit in units])
            return TokenStore.open(place)
    return None


def join_store(place: Path) -> TokenStore:
    """Makes a store of the parts that all shares of `build_store` have written.

    Raises:
        DataError: no document is left; or the store, or a record of its build, is damaged.
        OutputError: there is no such build, units of it are missing (the message names the shares), or another process
            builds it.
    """
    place = place.absolute()  # "." has no name
    work = _work_of(place)
    if (place / METADATA_FILE).is_file():
        store = TokenStore.open(place)
        if not (work / _PLAN_FILE).is_file() or _has_origin(store, read_metadata(work / _PLAN_FILE)["origin"]):
            _remove_work(place)
            return store
    if not (work / _PLAN_FILE).is_file():
        raise OutputError(f"{work}: no build in this folder; run bertkit corpus build --part 1/N --output-dir {place}")
    plan = read_metadata(work / _PLAN_FILE)
    records = [work / name for name in plan["records"]]
    if missing := [number for number, record in enumerate(records) if not record.is_file()]:
        parts = sorted({number % plan["shares"] + 1 for number in missing})
        names = ", ".join(f"{part}/{plan['shares']}" for part in parts)
        units = f"{counted(len(missing), 'unit')} of {len(records)} {inflected(len(missing), 'is', 'are')} missing"
        raise OutputError(f"{work}: {units}; repeat --part {names}")
    with unlocked(work, without_locks=True) as free:
        if not free:
            raise OutputError(f"--output-dir {place}: another process builds this store; wait for it")
        _assemble(place, work, records)
    return TokenStore.open(place)


def divide_sources(sources: Sequence[Source], form: DocumentForm, origin: dict[str, Any], is_whole: bool) -> list[Unit]:
    """Divides sources into units of about equal size.

    Args:
        sources, form: the text and how it is read.
        origin: of the store.
        is_whole: the parts of a unit depend on the whole text, as with a search for duplicates.
    """
    total = sum(source.size or 0 for source in sources)
    # A power of two: the ranges of large files stay where another file has got some lines more.
    size = min(max(1 << (total // _UNITS).bit_length(), _LEAST_BYTES), _MOST_BYTES)
    settings = origin_key({**origin, "sources": origin["sources"] if is_whole else []})
    groups: list[list[Source]] = []
    filled = 0
    for source in (part for whole in sources for part in whole.ranges(form, size)):
        if not groups or filled + (source.size or 0) > size:
            groups.append([])
            filled = 0
        groups[-1].append(source)
        filled += source.size or 0
    units = []
    for number, group in enumerate(groups):
        identity = dumps([settings, *(source.fingerprint() for source in group)])
        key = hashlib.sha256(identity.encode()).hexdigest()[:16]
        units.append(Unit(number, group, key, sum(source.size or 0 for source in group)))
    return units


# ---- the folder of a build -------------------------------------------------------------------------------------------


def _work_of(place: Path) -> Path:
    return place.parent / f"{place.name}.building"  # with_name refuses the root


def _has_origin(store: TokenStore, origin: dict[str, Any]) -> bool:
    """Returns whether a store has the text and the settings of a build."""
    expected = {"filters": None, **origin}  # without filters neither of the two has this key
    return {name: store.metadata.get(name) for name in expected} == expected


def _remove_work(place: Path) -> None:
    """Removes the folder of a build whose store is there, also what a kill during this removal has left of it."""
    shutil.rmtree(_work_of(place), ignore_errors=True)


@contextlib.contextmanager
def _work_folder(
    place: Path,
    origin: dict[str, Any],
    units: Sequence[Unit],
    share: tuple[int, int] | None,
    add: Callable[[Path], None],
) -> Iterator[Path]:
    """Yields the folder of the parts with its plan; records of other text or settings are removed first.

    A build locks the folder, a share its own file in it. The folder stays after a fault of the text, if it has parts of
    other texts for the repeated command, or may have those of other shares.
    """
    work = _work_of(place)
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = work if share is None else work / f"share-{share[0]}-of-{share[1]}"
        if share is not None:
            lock.touch()
    except OSError as error:
        raise OutputError(f"{work}: cannot be created: {error.strerror}") from error
    with unlocked(lock, without_locks=True) as free:  # as `RunLock`
        if not free:
            raise OutputError(f"--output-dir {place}: another process builds this store; wait for it")
        records = [unit.record(Path(), "unit").name for unit in units]
        plan = {"origin": origin, "records": records, "shares": share[1] if share else 1}
        before: dict[str, Any] | None = None
        with contextlib.suppress(DataError, OSError):
            before = read_metadata(work / _PLAN_FILE)
        if before != plan:
            if before is not None:
                _say_changes(before["origin"], origin)
                if share is not None and before["records"] == records and before["shares"] != share[1]:
                    parts = counted(before["shares"], "part")
                    raise OutputError(f"{work}: was begun in {parts}; give --part I/{before['shares']}")
            known = {*records, *(unit.record(Path(), "digests").name for unit in units)}
            for path in (*work.glob("unit-*.json"), *work.glob("digests-*.json")):
                if path.name not in known:
                    path.unlink(missing_ok=True)
            with into_folder(work) as draft:
                add(draft)
            write_metadata(work / _PLAN_FILE, plan)
        remove_unfinished(work)
        try:
            yield work
        except DataError:
            finished = sum((work / record).is_file() for record in records)
            if share is None and finished in (0, len(records)):  # the fault is of all that there is
                shutil.rmtree(work, ignore_errors=True)
            elif share is None:
                kept = f"{finished} of {counted(len(records), 'unit')}"
                say(f"{work}: keeps {kept} for when the command is repeated with the same settings and splitter")
            raise


def _say_changes(before: dict[str, Any], origin: dict[str, Any]) -> None:
    """Prints the sources that have changed since a killed build, by its origin and that of this one."""
    known = dict(zip(before["names"], before["sources"], strict=True))
    changed = [
        name
        for name, fingerprint in zip(origin["names"], origin["sources"], strict=True)
        if known.get(name, fingerprint) != fingerprint
    ]
    if changed:
        say(f"changed since this build began, and read again: {listed(changed)}")


def _assemble(place: Path, work: Path, records: Sequence[Path]) -> None:
    """Turns the parts of a build into the store ``place``, and removes the folder of the build."""
    parts = [part for record in records for part in read_metadata(record)["parts"]]
    with new_folder(place) as draft:
        for part in parts:
            try:
                os.link(work / part["name"], draft / part["name"])
            except OSError:  # a file system without hard links
                shutil.copyfile(work / part["name"], draft / part["name"])
        for folder in (path for path in work.iterdir() if path.is_dir() and not path.name.startswith(".")):
            shutil.copytree(folder, draft / folder.name)
        write_manifest(draft, read_metadata(work / _PLAN_FILE)["origin"], parts)
    _remove_work(place)


# ---- units -----------------------------------------------------------------------------------------------------------


def _run(
    work_on: WorkOn,
    job: Job,
    units: Sequence[Unit],
    kind: str,
    workers: Workers,
    progress: Reached | None,
) -> None:
    """Runs a function for each unit that has no record of a kind yet."""
    missing = [unit for unit in units if not unit.record(job.work, kind).is_file()]
    if 0 < len(missing) < len(units):
        say(f"continuing: {len(units) - len(missing)} of {len(units)} units are finished")
    total = sum(unit.size for unit in units)
    done = total - sum(unit.size for unit in missing)

    def report(size: int) -> None:
        if progress is not None and total:
            progress(min(done + size, total), total)

    for unit in run_units(work_on, job, missing, workers, report):
        done += unit.size
        report(0)


def write_unit(job: Job, unit: Unit, num_workers: int, report: Callable[[int], None]) -> None:
    """Writes the parts of a unit, and its record."""
    reading = Reading(unit.sources, job.form, lambda position, total: report(position))
    paragraphs = without_documents(reading, job.left_out.get(unit.number, frozenset()))
    encoded = encode_batches(batch_paragraphs(paragraphs, reading.position), job.encode, num_workers)
    kept = without_short(encoded, job.chosen.min_tokens)
    with _exact_faults(unit, job.form), into_folder(job.work, unit.size) as draft:
        parts = write_parts(kept, job.encode.token_type, draft, unit.number, reading.report)
    write_metadata(unit.record(job.work, "unit"), {"parts": parts})


@contextlib.contextmanager
def _exact_faults(unit: Unit, form: DocumentForm) -> Iterator[None]:
    """Raises a fault of the text with its line in the file, which is counted from the start of the file."""
    try:
        yield
    except DataError:
        for source in unit.sources:
            if (whole := source.whole()) is not source:
                for _ in whole.paragraphs(form):
                    pass
        raise


def digest_unit(job: Job, unit: Unit, num_workers: int, report: Callable[[int], None]) -> None:
    """Writes the digests of the documents of a unit, by which duplicates are found, and its record."""
    assert job.chosen.deduplicate is not None
    with _exact_faults(unit, job.form):
        digests = document_digests(Reading(unit.sources, job.form, None), job.chosen.deduplicate)
    with into_folder(job.work) as draft:
        (draft / _digests_name(unit)).write_bytes(digests.tobytes())
    write_metadata(unit.record(job.work, "digests"), {"documents": len(digests)})


def _digests_name(unit: Unit) -> str:
    return f"digests-{unit.number:06}.bin"
