"""Predictions for texts from arguments, a file, a table or a pipe, to a terminal or to disk, block by block."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.errors import DataError
from bertkit.inference.growing_file import GrowingFile, check_growing_file
from bertkit.inference.inputs import Block, blocks_of, one_block, read_inputs, work_through
from bertkit.inference.predictor import Predictor, build_predictor, load, load_task
from bertkit.progress import Reached
from bertkit.reading.utf8 import read_text
from bertkit.tables import Table, is_table, read_table
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Columns

Row = dict[str, Any]
# Forms whose lines are no inputs: a task that reads one says so by `Task.read_file`.
_NOT_LINES = (".json", ".conll", ".bio", ".iob", ".iob2")


class Predictions(NamedTuple):
    """The predictions of `predict_stream` for one block of inputs.

    Attributes:
        rows: for files: the columns of the input, or ``text``, and the task's prediction.
        lines: for a terminal: each prediction, a tab and the text.
    """

    rows: list[Row]
    lines: list[str]


def predict_stream(
    checkpoint: str | Path,
    texts: Sequence[str] | None = None,
    input_file: Path | None = None,
    output_file: Path | None = None,
    questions: Sequence[str] | None = None,
    context: str | Path | None = None,
    colours: bool = False,
) -> Iterator[Predictions]:
    """Predicts for texts given directly or in a file; checks what it can before the model is loaded.

    Predictions are yielded block by block in the order of the inputs; memory does not grow with their number. Files of
    words in columns, SQuAD's JSON, and tables in which a row depends on its neighbours, are read whole.

    Args:
        checkpoint: a run directory or a Hub id.
        texts: the texts themselves, or ``None``.
        input_file: a table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``) with the columns that the checkpoint was
            trained on, a file of words in columns (``.conll``), SQuAD's own JSON (``.json``) for a checkpoint that
            answers questions, or any other UTF-8 file of one text a line (``-`` is stdin, whose lines are answered
            as they arrive), or ``None``. Empty lines are inputs too, so that line n of the input is line n of the
            output.
        output_file: a new file to which every block is written before it is yielded: CSV for ``.csv``, otherwise one
            JSON object per line. It is called ``FILE.partial`` until it is complete. In CSV the probability of a class
            has a column of its own, ``probabilities.NAME``, and several labels are a JSON list.
        questions: to be answered from ``context``, instead of texts; or ``None``.
        context: the text that contains the answers, or a UTF-8 file of it.
        colours: allow colours in the lines, if the task supports them.

    Raises:
        BertkitError: no input, two inputs, an output that exists, an unusable checkpoint; or, after the blocks before
            it were yielded, an invalid input; the message then says how many inputs are done.
    """
    if bool(questions) != (context is not None):
        raise DataError("--question is answered from --context, or --context-file; give both")
    if [bool(texts), input_file is not None, bool(questions)].count(True) != 1:
        raise DataError(
            "give texts as arguments, or a file of them with --input (- for a pipe), or a --question with its --context"
        )
    if output_file is not None:
        check_growing_file(output_file, f"--output {output_file}")
    if questions:
        passage = read_text(context) if isinstance(context, Path) else str(context)
        predictor = load(checkpoint)
        columns = predictor.task.read_fields({"question": questions, "context": passage})
        shown = predictor.task.shown(columns)
        return _stream(predictor, one_block(list(questions)), lambda block: (columns, shown), output_file, colours)
    task, config = load_task(str(checkpoint), {})
    blocks = _read(input_file, task) if input_file is not None else blocks_of(texts or ())
    predictor = build_predictor(str(checkpoint), task, config)
    if predictor.task.reads_neighbours and input_file is not None and is_table(input_file):
        blocks = one_block(read_table(input_file))
    return _stream(predictor, blocks, lambda block: _columns(predictor.task, block), output_file, colours)


def _read(input_file: Path, task: Task) -> Iterator[Block]:
    table = task.read_file(input_file)
    if table is not None:
        return one_block(table)
    if any(suffix.lower() in _NOT_LINES for suffix in input_file.suffixes[-2:]):
        raise DataError(
            f"--input {input_file}: {task.name} does not read this kind of file; give a table (.csv, .tsv, .jsonl, "
            ".parquet), or a text file of one input a line"
        )
    return read_inputs(input_file)


def _columns(task: Task, block: Block) -> tuple[Columns, Columns]:
    """Returns the columns that the task encodes and those that are repeated beside the predictions."""
    if isinstance(block.given, Table):
        columns = task.columns_of(block.given)
        return columns, task.shown(columns)
    return task.read_input(block.given, block.first + 1), {"text": block.given}


def _stream(
    predictor: Predictor,
    blocks: Iterator[Block],
    columns_of: Callable[[Block], tuple[Columns, Columns]],
    output_file: Path | None,
    colours: bool,
) -> Iterator[Predictions]:
    def predict(block: Block, reached: Reached) -> Predictions:
        columns, shown = columns_of(block)
        predictions = predictor.predict_columns(columns, reached)
        found = Predictions([], [])
        for given, prediction in zip(zip(*shown.values(), strict=True), predictions, strict=True):
            found.rows.append({**dict(zip(shown, given, strict=True)), **prediction})
            view = predictor.task.highlighted(found.rows[-1]) if colours else None
            found.lines.append(_line(predictor.task.line(prediction), given) if view is None else view)
        return found

    found = work_through(blocks, "predicting", predict)
    if output_file is None:
        yield from found
        return
    as_text = _CsvRows() if output_file.suffix.lower() == ".csv" else _json_lines
    with GrowingFile(output_file) as file:
        for each in found:
            with file.adding(len(each.rows)) as stream:
                stream.write(as_text(each.rows).encode())
            yield each


def _line(prediction: str, given: Iterable[Any]) -> str:
    texts = [each if isinstance(each, str) else " | ".join(each) for each in given]
    return "\t".join([prediction, *texts]).replace("\n", " ")


def _json_lines(rows: Sequence[Row]) -> str:
    return "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows)


class _CsvRows:
    """Formats rows as CSV; the first call adds the header."""

    def __init__(self) -> None:
        self._written = io.StringIO(newline="")
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, rows: Sequence[Row]) -> str:
        flat = [_flat(row) for row in rows]
        if self._writer is None:
            self._writer = csv.DictWriter(self._written, list(flat[0]))
            self._writer.writeheader()
        self._writer.writerows(flat)
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return text


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat
