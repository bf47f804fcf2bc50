"""Predictions for texts from arguments, a file, a table or a pipe, to a terminal or to disk, block by block."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bertkit.checkpoint.revision import at_revision
from bertkit.errors import DataError, OutputError
from bertkit.inference.growing_file import GrowingFile, check_growing_file
from bertkit.inference.inputs import BLOCK, Block, blocks_of, one_block, process_blocks, read_inputs
from bertkit.inference.predictor import Predictor, build_predictor, load, load_task
from bertkit.json_text import dumps
from bertkit.placement.resolve import Precision
from bertkit.progress import Reached, printable
from bertkit.reading.utf8 import read_text
from bertkit.tables import Table, is_table, read_table
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

Row = dict[str, Any]
_OUTPUTS = (".csv", ".jsonl", ".json", ".ndjson")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_GIVEN = "input_"  # before the name of a column that the prediction has too
_OUTPUTS_AT_ONCE = 1 << 22  # inputs of a block, times labels: with very many labels their outputs fill the memory
# Forms whose lines are no inputs: a task that reads one says so by `Task.read_file`.
_NOT_LINES = (".json", ".conll", ".conllu", ".conllup", ".bio", ".iob", ".iob2")


class Predictions(NamedTuple):
    """The predictions of `predict_stream` for one block of inputs.

    Attributes:
        rows: for files: the columns of the input, or ``text``, and the task's prediction.
        lines: for a terminal: each prediction, a tab and the text, with control characters escaped.
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
    csv_safe: bool = False,
    all_probabilities: bool = False,
    threshold: float | None = None,
    form: str | None = None,
    text_columns: Sequence[str] | None = None,
    aggregation: str | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Iterator[Predictions]:
    """Predicts for texts given directly or in a file; checks what it can before the model is loaded.

    Predictions are yielded block by block in the order of the inputs; memory does not grow with their number. Files of
    words in columns, SQuAD's JSON, and tables in which a row depends on its neighbours, are read whole.

    Args:
        checkpoint: a run directory or a Hub id.
        texts: the texts themselves, or ``None``.
        input_file: a table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``) with the columns that the checkpoint was
            trained on, a file of words in columns (``.conll``), SQuAD's own JSON (``.json``) for a checkpoint that
            answers questions, Label Studio's JSON for one that finds entities, or any other UTF-8 file of one text a
            line (``-`` is stdin, whose lines are answered as they arrive), or ``None``. Empty lines are inputs too, so
            that line n of the input is line n of the output.
        output_file: a new file to which every block is written before it is yielded: CSV for ``.csv``, one JSON object
            per line for ``.jsonl``, ``.json`` and ``.ndjson``. It is called ``FILE.partial`` until it is complete. In
            CSV the probability of a class has a column of its own, ``probabilities.NAME``, and several labels are a
            JSON list. Where predictions hold the most probable of more than ten labels, which differ from row to row,
            they are one column, ``probabilities``, with a JSON object.
        questions: to be answered from ``context``, instead of texts; or ``None``.
        context: the text that contains the answers, or a UTF-8 file of it.
        colours: allow colours in the lines, if the task supports them.
        csv_safe: in CSV, put an apostrophe before text that spreadsheets would take for a formula. Such text differs
            from the input then.
        all_probabilities: give the probability of every label, not only of the ten most probable ones.
        threshold: probability from which a label is predicted, instead of the thresholds of the checkpoint.
        form: give each input with its prediction in a form of another tool, one of `Task.output_forms`: for entities
            ``doccano`` or ``spans``. The lines are JSON objects then.
        text_columns: columns of a table to read, one of texts or two of pairs; ``None`` for those of the training, or
            usual names if the checkpoint does not record them.
        aggregation: how a token classifier that bertkit did not write joins tokens to entities, see
            `bertkit.tasks.ner.stock.StockDataSettings`; ``None`` for its default.
        precision, revision, trust_remote_code: as for `bertkit.load`.

    Raises:
        BertkitError: no input, two inputs, an output that exists or has an unknown ending, an unusable checkpoint; or,
            after the blocks before it were yielded, an invalid input; the message then says how many inputs are done.
    """
    if bool(questions) != (context is not None):
        raise DataError("--question and --context (or --context-file) must be given together")
    if texts and input_file is not None:
        raise DataError(f"give texts as arguments or a file of texts with --input {input_file}, not both")
    if [bool(texts), input_file is not None, bool(questions)].count(True) != 1:
        raise DataError(
            "give texts as arguments, or a file of texts with --input (- for stdin), or a --question with its --context"
        )
    if csv_safe and (output_file is None or output_file.suffix.lower() != ".csv"):
        raise DataError("--csv-safe is for --output FILE.csv; other forms have no formulas")
    if form is not None and output_file is not None and output_file.suffix.lower() == ".csv":
        raise DataError(f"--as {form}: is JSON lines, for --output FILE.jsonl; --output {output_file} is CSV")
    if output_file is not None:
        if output_file.suffix.lower() not in _OUTPUTS:
            raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(_OUTPUTS)}")
        check_growing_file(output_file, f"--output {output_file}")
    if questions:
        passage = read_text(context) if isinstance(context, Path) else str(context)
        if threshold is not None:
            raise DataError("--threshold is for classification; remove it, or --question")
        if aggregation is not None:
            raise DataError("--aggregation is for token classification; remove it, or --question")
        predictor = load(checkpoint, precision=precision, revision=revision, trust_remote_code=trust_remote_code)
        _check_form(form, predictor.task)
        columns = predictor.task.read_fields({"question": questions, "context": passage})
        shown = predictor.task.shown(columns)
        asked = one_block(list(questions))
        return _stream(predictor, asked, lambda block: (columns, shown), output_file, colours, csv_safe, form)
    name = at_revision(checkpoint, revision, trust_remote_code)
    task, config = load_configured_task(name, all_probabilities, threshold, text_columns, aggregation)
    _check_form(form, task)
    at_once = inputs_at_once(config)
    blocks = _read(input_file, task, at_once) if input_file is not None else blocks_of(texts or (), at_once)
    predictor = build_predictor(name, task, config, precision=precision)
    return _stream(predictor, blocks, lambda block: _columns(task, block), output_file, colours, csv_safe, form)


def load_configured_task(
    name: str,
    all_probabilities: bool = False,
    threshold: float | None = None,
    text_columns: Sequence[str] | None = None,
    aggregation: str | None = None,
) -> tuple[Task, PreTrainedConfig]:
    """Returns the task of a checkpoint with the options of `predict_stream`, and its configuration; loads no weights.

    Raises:
        BertkitError: the checkpoint cannot be read, or its task does not have an option.
    """
    task, config = load_task(name, {} if aggregation is None else {"aggregation": aggregation})
    if text_columns:
        task = task.with_columns({"text_columns": list(text_columns)})
    if all_probabilities:
        task = task.with_all_probabilities()
    if threshold is not None:
        task = task.with_threshold(threshold)
    return task, config


def inputs_at_once(config: PreTrainedConfig) -> int:
    """Returns the number of inputs of a block for a model of this configuration."""
    return max(1, min(BLOCK, _OUTPUTS_AT_ONCE // config.num_labels))


def _check_form(form: str | None, task: Task) -> None:
    if form is not None and form not in task.output_forms:
        raise DataError(
            f"--as {form}: {task.name} writes {' or '.join(task.output_forms) or 'no other form'}; "
            + ("give one of them" if task.output_forms else "remove it")
        )


def _read(input_file: Path, task: Task, at_once: int) -> Iterator[Block]:
    table = task.read_file(input_file)
    if table is None and task.reads_neighbours and is_table(input_file):
        table = read_table(input_file)
    if table is not None:
        return one_block(table)
    if any(suffix.lower() in _NOT_LINES for suffix in input_file.suffixes[-2:]):
        raise DataError(
            f"--input {input_file}: {task.name} does not read this kind of file; give a table (.csv, .tsv, .jsonl, "
            ".parquet), or a text file with one input per line"
        )
    return read_inputs(input_file, at_once)


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
    csv_safe: bool,
    form: str | None,
) -> Iterator[Predictions]:
    def predict(block: Block, reached: Reached) -> Predictions:
        columns, shown = columns_of(block)
        predictions = predictor.predict_columns(columns, reached)
        found = Predictions([], [])
        for given, prediction in zip(zip(*shown.values(), strict=True), predictions, strict=True):
            found.rows.append(with_prediction(dict(zip(shown, given, strict=True)), prediction))
            if form is not None:
                found.rows[-1] = predictor.task.in_form(form, found.rows[-1])
                found.lines.append(dumps(found.rows[-1]))  # in ASCII, so that no control character reaches a terminal
                continue
            view = predictor.task.highlighted(found.rows[-1]) if colours else None
            found.lines.append(_line(predictor.task.line(prediction), given) if view is None else view)
        return found

    found = process_blocks(blocks, "predicting", predict)
    if output_file is None:
        yield from found
        return
    is_csv = output_file.suffix.lower() == ".csv"
    as_text = _CsvRows(csv_safe, predictor.task.leaves_out_labels) if is_csv else _json_lines
    with GrowingFile(output_file) as file:
        for each in found:
            with file.adding(len(each.rows)) as stream:
                stream.write(as_text(each.rows).encode())
            yield each


def with_prediction(given: Mapping[str, Any], prediction: Mapping[str, Any]) -> Row:
    """Returns the columns of an input and those of its prediction, which no column of the input has.

    A given column with the name of a prediction, or of a class beside its probability in CSV, becomes ``input_NAME``,
    and one that is called so already ``input_input_NAME``, whether both are there or not: so a column has the same name
    in all rows of all files, and predictions of predictions lose nothing.

    >>> with_prediction({"id": 7, "label": "good", "input_label": "true"}, {"label": "bad"})
    {'id': 7, 'input_label': 'good', 'input_input_label': 'true', 'label': 'bad'}
    """
    nested = tuple(f"{name}." for name, value in prediction.items() if isinstance(value, Mapping))

    def is_taken(name: str) -> bool:
        while name not in prediction and not name.startswith(nested) and name.startswith(_GIVEN):
            name = name.removeprefix(_GIVEN)
        return name in prediction or name.startswith(nested)

    return {f"{_GIVEN}{name}" if is_taken(name) else name: value for name, value in given.items()} | dict(prediction)


def _line(prediction: str, given: Iterable[Any]) -> str:
    texts = [" | ".join(each) if isinstance(each, list) else str(each) for each in given]
    return printable("\t".join([prediction, *texts]).replace("\n", " "))


def _json_lines(rows: Sequence[Row]) -> str:
    return "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows)


class _CsvRows:
    """Formats rows as CSV; the first call adds the header.

    Args:
        safe: escape text that spreadsheets would take for a formula.
        nested_as_json: write a mapping as a JSON object in one column, since its keys differ between rows; otherwise
            each of its keys has a column.
    """

    def __init__(self, safe: bool, nested_as_json: bool = False) -> None:
        self._safe = safe
        self._nested_as_json = nested_as_json
        self._written = io.StringIO(newline="")
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, rows: Sequence[Row]) -> str:
        flat = [self._flat(row) for row in rows]
        if self._safe:
            flat = [{_no_formula(name): _no_formula(value) for name, value in row.items()} for row in flat]
        if self._writer is None:
            self._writer = csv.DictWriter(self._written, list(flat[0]))
            self._writer.writeheader()
        self._writer.writerows(flat)
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return text

    def _flat(self, row: Row) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name, value in row.items():
            if isinstance(value, Mapping) and not self._nested_as_json:
                flat |= {f"{name}.{inner}": each for inner, each in value.items()}
            else:
                flat[name] = dumps(value, ensure_ascii=False) if isinstance(value, (list, Mapping)) else value
        return flat


def _no_formula(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would take for a formula; numbers stay as they are.

    The signs are those of https://owasp.org/www-community/attacks/CSV_Injection.

    >>> _no_formula("=1+1"), _no_formula("a=b"), _no_formula(-0.5)
    ("'=1+1", 'a=b', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
