"""The computation of one shard and the bytes of its results, the same in this process, in a process of a pool and in
an actor of Ray.

Rows are computed in blocks, whose limits depend on the shard alone, and with a fixed number of threads: so the results
do not depend on the number of workers, nor on which of them computes a shard.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from bertkit.data.tables import Table
from bertkit.data.tables.labels import texts as texts_of_column
from bertkit.features.scaling.inputs import InputFile, Shard
from bertkit.features.scaling.output import REJECTED, FileRecord, Finished, OutputFolder, json_bytes
from bertkit.features.scaling.rows import Row
from bertkit.features.scaling.shard_rows import RowReader
from bertkit.inference.embedding import TEXTS_AT_ONCE, rows_of_vectors
from bertkit.inference.inputs import BLOCK, inputs_at_once
from bertkit.inference.loaded import load_embedder
from bertkit.inference.options import EmbedOptions, PredictOptions
from bertkit.inference.outcome import task_inference
from bertkit.inference.predictor import build_predictor, load_configured_task
from bertkit.inference.row_files import arrow_table, flat, json_lines, spread
from bertkit.inference.writing import with_prediction
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.progress import unreported
from bertkit.runtime.reading.paths import TEXT
from bertkit.runtime.reading.text import iterating

_VECTOR = "embedding"
_LATER = (("unsure_below", None), ("max_error", None), ("by_class", False))
Form = Literal["jsonl", "parquet"]
OnError = Literal["stop", "skip"]


@dataclass(frozen=True)
class Job:
    """Work of a command, as its workers receive it.

    Attributes:
        checkpoint: a folder or a Hub id.
        output: path or URL of the output folder.
        form: of the files of results.
        options: what is computed: predictions or vectors.
        on_error: ``skip`` writes rows that cannot be read to ``rejected/``; ``stop`` ends the run at the first.
        threads: of a worker, for computation on a CPU.
    """

    checkpoint: str
    output: str
    form: Form
    options: PredictOptions | EmbedOptions
    on_error: OnError = "stop"
    threads: int = 1

    def __post_init__(self) -> None:
        for flag, given, choices in (
            ("--output-format", self.form, get_args(Form)),
            ("--on-error", self.on_error, get_args(OnError)),
        ):
            if given not in choices:
                raise RecipeError(f"{flag} {given}: is not one of {', '.join(choices)}")

    @property
    def kind(self) -> Literal["predict", "embed"]:
        """Returns the command."""
        return "predict" if isinstance(self.options, PredictOptions) else "embed"

    @property
    def settings(self) -> dict[str, Any]:
        """Returns the options as they are recorded: those that came later only if they are given."""
        return {name: value for name, value in asdict(self.options).items() if (name, value) not in _LATER}

    @property
    def folder(self) -> OutputFolder:
        """Returns the output folder."""
        return OutputFolder(self.output, f".{self.form}")


class _Predicting:
    """A loaded checkpoint with its task; ``at_once`` rows are a block."""

    def __init__(self, checkpoint: str, options: PredictOptions):
        self._options = options
        self._task, config = load_configured_task(checkpoint, options)
        self._predictor = build_predictor(checkpoint, self._task, config, precision=options.precision)
        self.leaves_out_labels = task_inference(self._task).leaves_out_labels
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
        return self._options.mark_unsure(self._predictor.predict_columns(columns, unreported))


class _Embedding:
    def __init__(self, checkpoint: str, options: EmbedOptions):
        self._options = options
        self._embedder = load_embedder(checkpoint, options.precision)
        self.leaves_out_labels = False
        self.at_once = TEXTS_AT_ONCE if options.pooling == "none" else BLOCK

    def compute(self, rows: Sequence[Row], names: Sequence[str], file: InputFile) -> list[dict[str, Any]]:
        # Other usual names are not tried: rows of JSON lines could have another one in each block.
        column = "text" if file.form == TEXT else self._options.text_column or "text"
        texts = texts_of_column(_table(rows, names, file), column)
        return rows_of_vectors(self._embedder.embed(texts, self._options, unreported))


class Computer:
    """A worker: loads the model once, then computes shards and writes their results."""

    def __init__(self, job: Job):
        import torch

        torch.set_num_threads(job.threads)
        self._job = job
        self._model: _Predicting | _Embedding
        if isinstance(job.options, PredictOptions):
            self._model = _Predicting(job.checkpoint, job.options)
        else:
            self._model = _Embedding(job.checkpoint, job.options)
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
                        self._reject(row, row.values, shard.file, rejected)
                names = list(dict.fromkeys(name for row in readable for name in _values(row)))
                results += self._compute(readable, names, shard.file, rejected)
        folder, contents = self._job.folder, {}
        if rejected:
            rejected.sort(key=lambda each: each[0].row)
            lines = []
            for row, reason in rejected:
                place = {"row": row.row} if row.line is None else {"row": row.row, "line": row.line}
                lines.append(json_bytes({"file": shard.file.relative, **place, "reason": reason}) + b"\n")
            contents[folder.rejected_name(shard)] = b"".join(lines)
        if results:
            vectors = _VECTOR if self._job.kind == "embed" else None  # that of an input would be JSON text
            contents[folder.result_name(shard)] = file_bytes(
                self._job.form, results, vectors, self._model.leaves_out_labels
            )
        for name, content in contents.items():
            folder.write(name, content)
        return Finished(len(rejected), {name: FileRecord.of(content) for name, content in contents.items()})

    def _compute(
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
                reason = str(error).replace(place, "").removeprefix(f"{file.path}: ")  # of several faults each has it
                self._reject(rows[0], reason.removeprefix(f"input {rows[0].line}: "), file, rejected)  # a line of text
                return []
            middle = len(rows) // 2
            return [
                *self._compute(rows[:middle], names, file, rejected),
                *self._compute(rows[middle:], names, file, rejected),
            ]
        given: Callable[[Mapping[str, Any]], dict[str, Any]] = flat if self._job.form == "parquet" else dict
        return [with_prediction(given(_values(row)), new) for row, new in zip(rows, computed, strict=True)]

    def _reject(self, row: Row, reason: str, file: InputFile, rejected: list[tuple[Row, str]]) -> None:
        if self._job.on_error == "stop":
            raise DataError(
                f"{_place(row, file)}: {reason}\n--on-error skip leaves out such rows and writes their reasons to "
                f"{REJECTED}/"
            )
        rejected.append((row, reason))


def load_computation(job: Job) -> Callable[[Shard], Finished]:
    """Loads the checkpoint of a job, and returns the function that computes a shard; for workers of a pool."""
    return Computer(job).compute


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


def file_bytes(
    form: Form, rows: Sequence[dict[str, Any]], vectors: str | None = None, leaves_out_labels: bool = False
) -> bytes:
    """Returns a file with one row for each mapping, in order; equal rows give equal bytes.

    Args:
        form: ``jsonl`` or ``parquet``, whose columns are those of `bertkit.inference.row_files.arrow_table`.
        rows: at least one; a key that a row lacks is null in Parquet.
        vectors: name of a column of float32 arrays (D); None if there is none.
        leaves_out_labels: as of `bertkit.inference.row_files.spread`.
    """
    if form == "jsonl":
        return json_lines(rows).encode()
    import pyarrow.parquet as pq

    written = io.BytesIO()
    pq.write_table(arrow_table([spread(row, leaves_out_labels) for row in rows], vectors), written)
    return written.getvalue()
