"""Texts from arguments, a file, a table or a pipe to predictions on disk."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.corpus.documents import decode_text, read_text
from bertkit.errors import DataError
from bertkit.files import check_new_file, write_json_lines, write_whole
from bertkit.inference.predictor import load
from bertkit.spans.nested import JSON
from bertkit.spans.questions import read_questions
from bertkit.tables import Table, is_table
from bertkit.tables.conll import is_conll, read_conll


class Predictions(NamedTuple):
    """What `predict_texts` found.

    Attributes:
        rows: for files: the columns of a table, or ``text``, and what the task predicts.
        lines: for a terminal: each prediction, a tab and the text.
    """

    rows: list[dict[str, Any]]
    lines: list[str]


def predict_texts(
    checkpoint: str | Path,
    texts: Sequence[str] | None = None,
    input_file: Path | None = None,
    output_file: Path | None = None,
    questions: Sequence[str] | None = None,
    context: str | Path | None = None,
    colours: bool = False,
) -> Predictions:
    """Predictions for texts given directly or in a file; everything is checked before the model loads.

    Args:
        checkpoint: a run directory or a Hub id.
        texts: the texts themselves, or ``None``.
        input_file: a table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``) with the columns that the checkpoint was
            trained on, a file of words in columns (``.conll``), SQuAD's own JSON (``.json``) for a checkpoint that
            answers questions, or any other UTF-8 file of one text a line (``-`` is stdin), or ``None``. Empty lines are
            inputs too, so that line n of the input is line n of the output.
        output_file: where the predictions will go; checked here, written by `write_predictions`.
        questions: to be answered from ``context``, instead of texts; or ``None``.
        context: the text that has the answers, or a UTF-8 file of it.
        colours: whether the lines may have colours, where the task has such a view.

    Returns:
        Them, in the order of the inputs.

    Raises:
        BertkitError: no input, two inputs, an unreadable file, an output that exists, an unusable checkpoint.
    """
    if bool(questions) != (context is not None):
        raise DataError("--question is answered from --context, or --context-file; give both")
    if [bool(texts), input_file is not None, bool(questions)].count(True) != 1:
        raise DataError(
            "give texts as arguments, or a file of them with --input (- for a pipe), or a --question with its --context"
        )
    if output_file is not None:
        check_new_file(output_file, f"--output {output_file}")
    passage = read_text(context) if isinstance(context, Path) else context
    given = list(texts or ()) or (_read(input_file) if input_file is not None else [])
    predictor = load(checkpoint)
    task = predictor.task
    shown: Mapping[str, Sequence[Any]]
    if isinstance(given, Table):
        columns = task.columns_of(given)
        shown = task.shown(columns)
    elif questions:
        columns = task.read_fields({"question": questions, "context": str(passage)})
        shown = task.shown(columns)
    else:
        columns, shown = task.read_input(given), {"text": given}
    found = Predictions([], [])
    predictions = predictor.predict_columns(columns)
    for texts_of_row, prediction in zip(zip(*shown.values(), strict=True), predictions, strict=True):
        row = {**dict(zip(shown, texts_of_row, strict=True)), **prediction}
        found.rows.append(row)
        if colours and (view := task.highlighted(row)) is not None:
            found.lines.append(view)
            continue
        shown_texts = [text if isinstance(text, str) else " | ".join(text) for text in texts_of_row]
        text = "\t".join(shown_texts).replace("\n", " ")
        found.lines.append(f"{task.line(prediction)}\t{text}")
    return found


def _read(input_file: Path) -> list[str] | Table:
    if is_conll(input_file):
        return read_conll(input_file)
    if is_table(input_file) or input_file.suffix.lower() == JSON:
        return read_questions(input_file)
    pipe = str(input_file) == "-"
    text = decode_text(sys.stdin.buffer.read(), "standard input") if pipe else read_text(input_file)
    lines = text.removesuffix("\n").split("\n") if text else []
    if not lines:
        raise DataError(f"--input {input_file}: no texts in it")
    return lines


def write_predictions(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes predictions so that the file appears only when it is whole: CSV to a ``.csv``, else a JSON object a line.

    In CSV the probability of a class has a column of its own, ``probabilities.NAME``, and several labels are a JSON
    list.
    """
    if path.suffix.lower() != ".csv":
        write_json_lines(path, rows)
        return
    flat = [_flat(row) for row in rows]
    written = io.StringIO(newline="")
    writer = csv.DictWriter(written, list(flat[0]))
    writer.writeheader()
    writer.writerows(flat)
    write_whole(path, written.getvalue())


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat
