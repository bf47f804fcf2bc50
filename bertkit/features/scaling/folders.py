"""`predict_folder` and `embed_folder`: folders, patterns and URLs of files in, a folder of files out."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from bertkit.features.scaling.computing import Computer, Form, Job, OnError, load_computation
from bertkit.features.scaling.inputs import InputFile, Shard, find_inputs, shards_of
from bertkit.features.scaling.output import Finished, OutputFolder
from bertkit.features.scaling.rows import open_rows
from bertkit.inference.evaluation import unsure_on_validation
from bertkit.inference.options import EmbedOptions, PredictOptions
from bertkit.inference.outcome import task_inference
from bertkit.inference.predictor import load_configured_task
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import BertkitError, DataError, RecipeError, listed, noted
from bertkit.runtime.locks import FolderInUseError, RunLock, is_locked
from bertkit.runtime.options import several
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.placement.pool import Pool
from bertkit.runtime.placement.processes import Workers, usable_cores
from bertkit.runtime.placement.ray_cluster import import_ray
from bertkit.runtime.placement.resolve import visible_gpus
from bertkit.runtime.placement.workers import ProcessWorker, ray_workers
from bertkit.runtime.progress import Bar, counted, say
from bertkit.runtime.reading.paths import TEXT, is_url
from bertkit.runtime.version import __version__

SHARD_ROWS = 8192
"""Rows of a shard: some seconds to minutes of work, and eight blocks of the computation."""
_SHARD_ROWS_OF_TOKENS = 256  # a vector for each token fills the memory
_MOST_NOTES = 10  # on files with other separators and encodings
_RECORD_SECONDS = 10.0  # between two writes of the record of finished shards


@dataclass(frozen=True)
class FolderResult:
    """Result of a command over a folder, of all its runs; of a part, of its share of the shards.

    Attributes:
        output_dir: path or URL.
        files: number of input files.
        shards: number of shards; of which ``computed`` by this run.
        rows: rows with results.
        rejected: rows that could not be read, in ``rejected/``.
    """

    output_dir: str
    files: int
    shards: int
    computed: int
    rows: int
    rejected: int


def predict_folder(
    checkpoint: str | Path,
    input: str | Path,
    output_dir: str | Path,
    *,
    output_format: Form = "jsonl",
    on_error: OnError = "stop",
    workers: Workers | None = None,
    shard_rows: int = SHARD_ROWS,
    all_probabilities: bool = False,
    threshold: float | None = None,
    unsure_below: float | None = None,
    max_error: float | None = None,
    by_class: bool = False,
    text_columns: str | Sequence[str] | None = None,
    aggregation: str | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    per_line: bool = True,
) -> FolderResult:
    """Predicts for the rows of files and writes a folder of files with the columns of the rows and the predictions.

    An input file gives one file of results for each ``shard_rows`` rows, in order: ``a/x.csv`` gives
    ``a/x.csv.000000.jsonl``, ``a/x.csv.000001.jsonl``, …. If the call is repeated, shards that are finished are not
    computed again. The files do not depend on ``workers``, except for its ``threads``.

    Args:
        checkpoint: a run directory or a Hub id.
        input: a file, folder or pattern of ``.parquet``, ``.jsonl``, ``.csv``, ``.tsv``, ``.xlsx`` and ``.txt`` (one
            text a line) files, or a URL of `fsspec` of one of these. Separators of columns and encodings are recognised
            as by `bertkit.data.tables.read_table`.
        output_dir: a new or empty folder, or the folder of the same call; or a URL.
        output_format: ``jsonl`` or ``parquet``.
        on_error: ``stop`` ends at a row that cannot be read; ``skip`` writes it to ``rejected/`` with the reason.
        workers: a `bertkit.runtime.placement.processes.Workers`; by default one process per GPU, or per core without
            a GPU.
        shard_rows: rows of a shard.
        all_probabilities, threshold, unsure_below, max_error, by_class, text_columns, aggregation, precision, revision:
            as for `bertkit.inference.files.predict_stream`.
        per_line: take a line of a ``.txt`` file for a text without asking; if False, a folder with ``.txt`` files of
            several lines is refused, since each file may be one text.

    Raises:
        DataError: there is no input; a row cannot be read; or all rows were rejected.
        OutputError: the output folder holds something else, or cannot be read or written.
        BertkitError: the checkpoint or an option is unusable; or workers keep dying.

    Examples:
        ```python
        result = bertkit.predict_folder("my-reviews", "tables/", "labels")
        result.rows
        ```
    """
    columns = None if text_columns is None else several(text_columns)
    options = PredictOptions(
        all_probabilities, threshold, unsure_below, columns, aggregation, precision, max_error, by_class
    )
    name = at_revision(_make_absolute(checkpoint), revision)
    task, _ = load_configured_task(name, options)
    if task_inference(task).reads_neighbours:
        raise DataError(
            f"{checkpoint}: its rows depend on their neighbours; predict for one file at a time, by --output"
        )
    options, lines = options.with_thresholds(name, task)
    for line in lines:
        say(line)
    job = Job(name, _output(output_dir), output_format, options, on_error)
    return _run(job, input, workers or Workers(), shard_rows, per_line, unsure_below)


def embed_folder(
    checkpoint: str | Path,
    input: str | Path,
    output_dir: str | Path,
    *,
    output_format: Form = "parquet",
    on_error: OnError = "stop",
    workers: Workers | None = None,
    shard_rows: int | None = None,
    text_column: str | None = None,
    pooling: Literal["cls", "mean", "max", "none"] | None = None,
    layers: Sequence[int] = (-1,),
    max_seq_length: int | None = None,
    stride: int | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    per_line: bool = True,
) -> FolderResult:
    """Computes vectors of the texts of files; writes their rows with ``embedding``, or ``tokens`` without pooling.

    Args:
        checkpoint, input, output_dir, output_format, on_error, workers: as for `predict_folder`.
        shard_rows: rows of a shard; 8,192, or 256 without pooling, unless given.
        text_column: of the tables; ``text`` unless given, since other usual names could differ from file to file.
        pooling, layers, max_seq_length, stride, precision, revision: as for
            `bertkit.inference.vector_files.embed_texts`.
        per_line: as for `predict_folder`.

    Raises:
        BertkitError: as for `predict_folder`.

    Examples:
        ```python
        result = bertkit.embed_folder("my-bert", "tables/", "vectors")
        result.rows  # in Parquet files with a column embedding
        ```
    """
    if pooling == "none" and output_format == "parquet":
        raise RecipeError("--pooling none in a folder is written as JSON lines only; give --output-format jsonl")
    options = EmbedOptions(text_column, pooling, list(layers), max_seq_length, stride, precision)
    name = at_revision(_make_absolute(checkpoint), revision)
    job = Job(name, _output(output_dir), output_format, options, on_error)
    if shard_rows is None:
        shard_rows = _SHARD_ROWS_OF_TOKENS if pooling == "none" else SHARD_ROWS
    return _run(job, input, workers or Workers(), shard_rows, per_line)


def _make_absolute(path: str | Path) -> str:
    """Returns the absolute path of an existing folder, since workers may run in other folders; else the name."""
    return os.path.abspath(path) if os.path.isdir(path) else str(path)


def _name_of(place: object, option: str) -> str:
    """Returns a path or URL as text; RecipeError for '', an unset variable of a shell, which would be this folder."""
    if not isinstance(place, str | os.PathLike) or not str(place):
        raise RecipeError(f"{option} {place!r}: is not the name of a file or folder; give one")
    return str(place)


def _output(place: str | Path) -> str:
    path = _name_of(place, "--output-dir")
    return path.rstrip("/") if is_url(path) else os.path.abspath(os.path.expanduser(path))


def _run(
    job: Job, input: str | Path, workers: Workers, shard_rows: int, per_line: bool, unsure_below: float | None = None
) -> FolderResult:
    source = _name_of(input, "--input")
    if not isinstance(shard_rows, Integral) or shard_rows < 1:
        raise RecipeError(f"--shard-rows {shard_rows!r}: expected an integer of at least 1")
    shard_rows = int(shard_rows)  # of NumPy perhaps, which JSON does not have
    if not isinstance(workers, Workers):
        raise RecipeError(f"workers: expected a Workers, such as Workers(number=2), got {workers!r}")
    if workers.engine == "ray":
        import_ray()  # a missing extra is reported before anything is read
    job = dataclasses.replace(job, threads=workers.threads)
    files, passed_over = find_inputs(source, job.output)
    if passed_over:
        say(f"--input {source}: {passed_over}")
    if not per_line and files[0].relative != Path(source).name:  # a folder or a pattern, not one file
        for file in (file for file in files if file.form == TEXT):
            with open_rows(file.path, file.packing, on_other=lambda note: None) as stream:
                if len(list(itertools.islice(stream, 2))) > 1:  # a line and a file are not the same
                    raise DataError(
                        f"--input {source}: {file.relative} has several lines; give --per-line if each line is a text, "
                        "or --per-file, with --output FILE in place of --output-dir, if each file is one"
                    )
    record = {
        "bertkit": __version__,
        "command": job.kind,
        "checkpoint": checkpoint_digest(job.checkpoint, job.folder.local),
        "settings": job.settings | {"output_format": job.form, "shard_rows": shard_rows, "threads": job.threads},
    }
    with _lock(job.folder.local, workers.part):
        is_new = job.folder.prepare(record, files)
        try:
            shards = _find_shards(job.folder, files, shard_rows)
            if unsure_below is not None:  # predicts the validation set
                say(unsure_on_validation(job.checkpoint, unsure_below))
            return _compute(job, files, shards, workers)
        except BertkitError:
            # The folder may serve the mended command; once the shards are cut, other parts may be computing them.
            if is_new and (workers.part is None or job.folder.read_shards() is None):
                job.folder.remove_records()
            raise
        finally:
            job.folder.clean()


def _lock(folder: Path | None, part: str | None) -> AbstractContextManager[Any]:
    """Returns the lock of an output folder, or of a part, beside which only other parts are computed; none of a URL."""
    if folder is None:
        return nullcontext()
    if part is not None:
        if is_locked(folder):
            raise FolderInUseError(f"{folder}: a command without --part is computing all of it; wait for it or stop it")
        return RunLock(folder / f".part-{part.replace('/', '-of-')}")
    for of_part in folder.glob(".part-*-of-*"):
        if is_locked(of_part):
            raise FolderInUseError(f"{folder}: a command with --part is computing here; wait for it or stop it")
        shutil.rmtree(of_part, ignore_errors=True)  # of a killed command
    return RunLock(folder)


def _find_shards(folder: OutputFolder, files: Sequence[InputFile], shard_rows: int) -> list[Shard]:
    shards = folder.read_shards()
    if shards is not None:
        paths = {file.relative: file for file in files}  # the input may have been moved
        return [dataclasses.replace(shard, file=paths[shard.file.relative]) for shard in shards]
    shards = []
    faults: list[str] = []
    notes: list[str] = []
    empty = 0
    with Bar("counting rows", "files") as bar:
        for number, file in enumerate(files, 1):
            with noted(faults):
                of_file = shards_of(file, shard_rows, notes.append)
                shards += of_file
                empty += not of_file
            bar(number, len(files))
    if faults:
        raise DataError(listed(faults))
    for note in notes[:_MOST_NOTES]:
        say(note)
    if len(notes) > _MOST_NOTES:
        say(f"and so on, {counted(len(notes) - _MOST_NOTES, 'more note')} on separators and encodings")
    if empty:
        say(f"{counted(empty, 'file')} without rows")
    folder.write_shards(shards)
    return shards


def _compute(job: Job, files: Sequence[InputFile], shards: Sequence[Shard], workers: Workers) -> FolderResult:
    if workers.share is not None:
        number, parts = workers.share
        shards = shards[number - 1 :: parts]
    known = job.folder.read_finished()
    finished = job.folder.finished(shards, known)
    left = [shard for shard in shards if shard not in finished]
    # Changed results keep their record until they are computed again: those without one count as complete.
    changed = {shard: known[shard.name] for shard in left if shard.name in known}
    if changed:
        say(f"{job.output}: the results of {counted(len(changed), 'shard')} have changed; they are computed again")
    total = sum(shard.rows for shard in shards)
    before = done = total - sum(shard.rows for shard in left)
    if before:
        say(f"{job.output}: {len(finished)} of {counted(len(shards), 'shard')} finished already")
    what = "predicting" if job.kind == "predict" else "embedding"
    try:
        written = time.monotonic()
        with Bar(what, "rows") as bar, _results_of(job, workers, left) as computed:
            for shard, result in computed:
                done += shard.rows
                finished[shard] = result
                bar(done - before, total - before)
                if workers.part is None and time.monotonic() - written > _RECORD_SECONDS:
                    job.folder.write_finished(changed | finished)
                    written = time.monotonic()
    finally:
        if workers.part is None:  # results without a record were complete when they appeared
            job.folder.write_finished(changed | finished)
    rejected = sum(each.rejected for each in finished.values())
    if total and rejected == total and workers.part is None:
        raise DataError(f"{job.output}: every row was rejected, {total} in all; the reasons are in rejected/")
    return FolderResult(job.output, len(files), len(shards), len(left), total - rejected, rejected)


@contextmanager
def _results_of(job: Job, workers: Workers, shards: Sequence[Shard]) -> Iterator[Iterator[tuple[Shard, Finished]]]:
    """Yields the shards as they are finished; there are no more workers than shards, and they end with the block."""
    if not shards:
        yield iter(())
        return
    load = partial(load_computation, job)
    with ExitStack() as stack:
        if workers.engine == "ray":
            make, count = stack.enter_context(ray_workers(load, job.threads, workers.ray_address, workers.number))
        else:
            gpus = visible_gpus()
            make = partial(ProcessWorker, load, job.threads, gpus=gpus)
            # One per GPU, or as many as have cores, if the caller does not say.
            count = workers.number or gpus or max(1, usable_cores() // workers.threads)
            if min(count, len(shards)) == 1:
                yield stack.enter_context(closing(_compute_here(job, shards)))
                return
            say(f"{min(count, len(shards))} processes")
        pool = Pool(make, shards, job.folder.finished, lambda shard: shard.name, "shards")
        yield stack.enter_context(closing(pool.results(min(count, len(shards)))))


def _compute_here(job: Job, shards: Sequence[Shard]) -> Generator[tuple[Shard, Finished]]:
    import torch

    threads = torch.get_num_threads()
    try:
        computer = Computer(job)
        for shard in shards:
            yield shard, computer.compute(shard)
    finally:
        torch.set_num_threads(threads)


def checkpoint_digest(checkpoint: str, output: Path | None) -> str:
    """Returns an identifier of a checkpoint: of a folder, a digest of its files but those of the output, which may lie
    in it; of a Hub id, its name."""
    folder = Path(checkpoint)
    if not folder.is_dir():
        return checkpoint
    digest = hashlib.sha256()
    kinds = (".json", ".safetensors", ".bin", ".onnx", ".txt", ".model", ".data")
    for path in sorted(each for each in folder.rglob("*") if each.suffix in kinds and each.is_file()):
        name = path.relative_to(folder)
        if name.parts[0].startswith("checkpoint-") or path.name.endswith("_results.json"):
            continue  # states of the training, which inference does not read
        if output is not None and path.is_relative_to(output):
            continue
        with path.open("rb") as stream:
            digest.update(f"{name}:{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"
