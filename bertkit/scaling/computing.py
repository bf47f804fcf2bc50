"""The computation of one shard and the bytes of its results, the same in this process, in a process of a pool and in
an actor of Ray.

Rows are computed in blocks, whose limits depend on the shard alone, and with a fixed number of threads: so the results
do not depend on the number of workers, nor on which of them computes a shard.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bertkit.errors import DataError
from bertkit.inference.embedding import TEXTS_AT_ONCE, rows_of_vectors
from bertkit.inference.inputs import BLOCK, inputs_at_once
from bertkit.inference.loaded import load
from bertkit.inference.predictor import build_predictor, load_configured_task
from bertkit.inference.unsure import or_unsure
from bertkit.inference.writing import json_lines, plain, vector_column, with_prediction
from bertkit.json_text import dumps
from bertkit.progress import unreported
from bertkit.reading.paths import TEXT
from bertkit.reading.text import iterating
from bertkit.scaling.inputs import InputFile, Shard
from bertkit.scaling.output import REJECTED, FileRecord, Finished, OutputFolder, json_bytes
from bertkit.scaling.rows import Row
from bertkit.scaling.shard_rows import RowReader
from bertkit.tables import Table
from bertkit.tables.labels import texts as texts_of_column

_VECTOR = "embedding"
Form = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class Job:
    """Work of a command, as its workers receive it.

    Attributes:
        kind: ``predict`` or ``embed``.
        checkpoint: a folder or a Hub id.
        output: path or URL of the output folder.
        form: of the files of results.
        on_error: ``skip`` writes rows that cannot be read to ``rejected/``; ``stop`` ends the run at the first.
        threads: of a worker, for computation on a CPU.
        options: those of the kind, such as ``precision``.
    """

    kind: Literal["predict", "embed"]
    checkpoint: str
    output: str
    form: Form
    on_error: Literal["stop", "skip"] = "stop"
    threads: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> OutputFolder:
        """Returns the output folder."""
        return OutputFolder(self.output, f".{self.form}")


class _Predicting:
    """A loaded checkpoint with its task; ``at_once`` rows are a block."""

    def __init__(self, job: Job):
        options = dict(job.options)
        precision = options.pop("precision")
        self._unsure_below = options.pop("unsure_below", None)
        self._task, config = load_configured_task(job.checkpoint, **options)
        self._predictor = build_predictor(job.checkpoint, self._task, config, precision=precision)
        self.at_once = inputs_at_once(config)

    def compute(self, rows: Sequence[Row], names: Sequence[str], file: InputFile) -> list[dict[str, Any]]:
        """Returns the predictions for rows of a file that could be read, in their order; `_Embedding` their vectors.

        ``names`` are the columns of all rows of the block that they are from; those that a row lacks are missing
        values. Raises DataError if a row is no input of the task.
        """
        if file.form == TEXT:
            columns = self._task.read_input([_values(row)["text"] for row in rows], rows[0].line or 1)
        else:
            columns = self._task.columns_of(_table(rows, names, file))
        predictions = self._predictor.predict_columns(columns, unreported)
        if self._unsure_below is None:
            return predictions
        return [or_unsure(each, self._unsure_below) for each in predictions]


class _Embedding:
    def __init__(self, job: Job):
        self._options = dict(job.options)
        self._column = self._options.pop("text_column") or "text"
        self._embedder = load(job.checkpoint, precision=self._options.pop("precision")).embedder
        self.at_once = TEXTS_AT_ONCE if self._options["pooling"] == "none" else BLOCK

    def compute(self, rows: Sequence[Row], names: Sequence[str], file: InputFile) -> list[dict[str, Any]]:
        texts = texts_of_column(_table(rows, names, file), "text" if file.form == TEXT else self._column)
        vectors = self._embedder.embed(texts, **self._options, on_progress=unreported)
        return rows_of_vectors(vectors)


class Computer:
    """A worker: loads the model once, then computes shards and writes their results."""

    def __init__(self, job: Job):
        import torch

        torch.set_num_threads(job.threads)
        self._job = job
        self._model = _Predicting(job) if job.kind == "predict" else _Embedding(job)
        self._reader = RowReader()

    def compute(self, shard: Shard) -> Finished:
        """Computes a shard and writes its results.

        Raises:
            DataError: a row cannot be read and ``on_error`` is ``stop``, or the file cannot be read.
            OutputError: the results cannot be written.
        """
        results: list[dict[str, Any]] = []
        rejected: list[tuple[Row, str]] = []
        with iterating(self._reader.rows(shard)) as rows:
            while block := list(itertools.islice(rows, self._model.at_once)):
                readable = [row for row in block if isinstance(row.values, dict)]
                for row in block:
                    if isinstance(row.values, str):
                        self._reject(row, f"{_place(row, shard.file)}: {row.values}", shard.file, rejected)
                names = list(dict.fromkeys(name for row in readable for name in _values(row)))
                results += self._computed(readable, names, shard.file, rejected)
        folder, contents = self._job.folder, {}
        if rejected:
            rejected.sort(key=lambda each: each[0].row)
            lines = [_rejection(row, reason, shard.file) for row, reason in rejected]
            contents[folder.rejected_name(shard)] = b"".join(lines)
        if results:
            vectors = _VECTOR if _VECTOR in results[0] else None
            contents[folder.result_name(shard)] = file_bytes(self._job.form, results, vectors)
        for name, content in contents.items():
            folder.write(name, content)
        return Finished(len(rejected), {name: FileRecord.of(content) for name, content in contents.items()})

    def _computed(
        self, rows: list[Row], names: Sequence[str], file: InputFile, rejected: list[tuple[Row, str]]
    ) -> list[dict[str, Any]]:
        """Returns the results of rows; halves them to find those that the model does not take."""
        if not rows:
            return []
        try:
            computed = self._model.compute(rows, names, file)
        except DataError as error:
            if len(rows) == 1:
                place = f"{_place(rows[0], file)}: "
                reason = str(error).removeprefix(place).removeprefix(f"{file.path}: ")
                self._reject(rows[0], place + reason, file, rejected)
                return []
            middle = len(rows) // 2
            return [
                *self._computed(rows[:middle], names, file, rejected),
                *self._computed(rows[middle:], names, file, rejected),
            ]
        return [with_prediction(_values(row), new) for row, new in zip(rows, computed, strict=True)]

    def _reject(self, row: Row, reason: str, file: InputFile, rejected: list[tuple[Row, str]]) -> None:
        if self._job.on_error == "stop":
            raise DataError(f"{reason}\n--on-error skip leaves out such rows and writes their reasons to {REJECTED}/")
        rejected.append((row, reason.removeprefix(f"{_place(row, file)}: ")))


def _values(row: Row) -> dict[str, Any]:
    assert isinstance(row.values, dict)
    return row.values


def _table(rows: Sequence[Row], names: Sequence[str], file: InputFile) -> Table:
    columns = {name: [_values(row).get(name) for row in rows] for name in names}
    lines = [row.line for row in rows if row.line is not None]
    # Row numbers are right for a single row only, of which messages are.
    return Table(columns, file.path, "", lines or None, first_row=rows[0].row - 1)


def _place(row: Row, file: InputFile) -> str:
    return f"{file.path}, row {row.row}" if row.line is None else f"{file.path}, line {row.line}"


def _rejection(row: Row, reason: str, file: InputFile) -> bytes:
    line = {} if row.line is None else {"line": row.line}
    return json_bytes({"file": file.relative, "row": row.row, **line, "reason": reason}) + b"\n"


def file_bytes(form: Form, rows: Sequence[Mapping[str, Any]], vectors: str | None = None) -> bytes:
    """Returns a file with one row for each mapping, in order; equal rows give equal bytes.

    In Parquet, a mapping of numbers (probabilities by label) is a map, and other nested values that were computed are
    JSON text: the type of a column must not depend on the rows that are in the file.

    Args:
        form: ``jsonl`` or ``parquet``.
        rows: at least one; a key that a row lacks is null in Parquet.
        vectors: name of a column of float32 arrays (D); None if there is none.
    """
    return json_lines(rows).encode() if form == "jsonl" else _parquet(rows, vectors)


def _parquet(rows: Sequence[Mapping[str, Any]], vectors: str | None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name == vectors:
            arrays[name] = vector_column(np.stack(values).astype(np.float32))  # type: ignore[arg-type]
        else:
            arrays[name] = _array(values)
    written = io.BytesIO()
    pq.write_table(pa.table(arrays), written)
    return written.getvalue()


def _array(values: list[Any]) -> Any:
    import pyarrow as pa

    present = [value for value in values if value is not None]
    if not present:
        return pa.array(values, pa.string())
    if all(isinstance(value, Mapping) and _are_numbers(value) for value in present):
        maps = [None if value is None else [(key, float(each)) for key, each in value.items()] for value in values]
        return pa.array(maps, pa.map_(pa.string(), pa.float64()))
    if not any(isinstance(value, (list, Mapping)) for value in present):
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # several types in one column of JSON lines
            pass
    return pa.array([None if value is None else dumps(value, ensure_ascii=False, default=plain) for value in values])


def _are_numbers(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(each, float) for each in value.values())
