"""Predictions for texts from arguments, a file, a table or a pipe, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bertkit.data.tables import Table, is_table, read_table
from bertkit.data.tables.documents import is_document
from bertkit.data.tables.objects import kind_of_table, some_rows, table_of
from bertkit.inference.evaluation import unsure_on_validation
from bertkit.inference.inputs import (
    Block,
    blocks_of,
    inputs_at_once,
    list_of_texts,
    one_block,
    process_blocks,
    read_inputs,
    with_words,
)
from bertkit.inference.predicted import predicted
from bertkit.inference.predictor import Predictor, build_predictor, load_configured_task, table_with_predictions
from bertkit.inference.row_files import ROW_FILES, flat, has_columns, writing_rows
from bertkit.inference.skipping import listing_skipped, readable
from bertkit.inference.unsure import check_unsure_below, with_unsure
from bertkit.inference.writing import Row, check_growing_file, with_prediction
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import DataError, OutputError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import Reached, printable, say
from bertkit.runtime.reading.text import read_text
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Columns

# Forms whose lines are no inputs: a task that reads one says so by `Predicted.read_file`.
_NOT_LINES = (".conll", ".conllu", ".conllup", ".bio", ".iob", ".iob2")


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
    input_file: str | Path | None = None,
    output_file: str | Path | None = None,
    questions: Sequence[str] | None = None,
    context: str | Path | None = None,
    colours: bool = False,
    csv_safe: bool = False,
    all_probabilities: bool = False,
    threshold: float | None = None,
    unsure_below: float | None = None,
    form: str | None = None,
    text_columns: Sequence[str] | None = None,
    aggregation: str | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    per_file: bool = False,
    on_error: Literal["stop", "skip"] = "stop",
) -> Any:
    """Predicts for texts given directly or in a file; checks what it can before the model is loaded.

    Predictions are yielded block by block in the order of the inputs; memory does not grow with their number. Files of
    words in columns, SQuAD's JSON, and tables in which a row depends on its neighbours, are read whole.

    Args:
        checkpoint: a run directory or a Hub id.
        texts: the texts themselves, or a table of pandas, polars, Arrow or ``datasets``, or rows as dictionaries; or
            ``None``.
        input_file: a table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.xlsx``) with the columns that the
            checkpoint was trained on, a file of words in columns (``.conll``), SQuAD's own JSON (``.json``) for a
            checkpoint that answers questions, Label Studio's JSON for one that finds entities, or any other UTF-8 file
            of one text a line (``-`` is stdin, whose lines are answered as they arrive), or ``None``. Empty lines are
            inputs too, so
            that line n of the input is line n of the output.
        output_file: a new file to which every block is written before it is yielded: CSV for ``.csv``, one JSON object
            per line for ``.jsonl`` and ``.ndjson``, one list of them for ``.json``, row groups for ``.parquet``. It is
            called ``FILE.partial`` until it is complete. In CSV and Parquet the probability of a class has a column of
            its own, ``probabilities.NAME``, and several labels, and lists and objects of the input, are JSON text.
            Where predictions hold the most probable of more than ten labels, which differ from row to row, they are
            one column, ``probabilities``: a JSON object in CSV, a map in Parquet.
        questions: to be answered from ``context``, instead of texts; or ``None``.
        context: the text that contains the answers, or a UTF-8 file of it.
        colours: allow colours in the lines, if the task supports them.
        csv_safe: in CSV, put an apostrophe before text that spreadsheets would take for a formula. Such text differs
            from the input then.
        all_probabilities: give the probability of every label, not only of the ten most probable ones.
        threshold: probability from which a label is predicted, instead of the thresholds of the checkpoint.
        unsure_below: label predictions of a class with a lower probability ``unsure``; ``best_label`` is the class in
            all rows. Their share in the validation set of the run, and how many of the rest are right, is said first.
        form: give each input with its prediction in a form of another tool, one of `Predicted.forms`: for entities
            ``doccano`` or ``spans``. The lines are JSON objects then.
        text_columns: columns of a table to read, one of texts or two of pairs; ``None`` for those of the training, or
            usual names if the checkpoint does not record them.
        aggregation: how a token classifier that bertkit did not write joins tokens to entities, see
            `bertkit.tasks.ner.stock.StockDataSettings`; ``None`` for its default.
        precision, revision, trust_remote_code: as for `bertkit.load`.
        per_file: ``input_file`` is a folder, and each file in it that ends in .txt, .md, .html, .htm or .eml is one
            text; the rows have ``file`` and ``text``. It can be one such file, too; HTML and mails always are one text.
        on_error: ``stop`` ends at an input that the task does not take, such as an empty text; ``skip``
            leaves it out, and at the end lists the first 20 of them with their reasons, and their number, on stderr.

    Returns:
        An iterator of `Predictions`, one for each block. For a table object the predictions at once, as a table of its
        kind, see `bertkit.inference.predictor.table_with_predictions`; with ``form`` as a list of dictionaries.

    Raises:
        BertkitError: no input, two inputs, an output that exists or has an unknown ending, an unusable checkpoint; or,
            after the blocks before it were yielded, an invalid input; the message then says how many inputs are done.

    Examples:
        ```python
        for block in bertkit.predict("my-reviews", texts=["a lovely film", "an awful plot"]):
            print(block)
        rows = bertkit.predict("my-reviews", [{"text": "a lovely film"}])  # a DataFrame gives a DataFrame
        ```
    """
    input_file, output_file = (None if file is None else Path(file) for file in (input_file, output_file))
    _check_options(texts, input_file, output_file, questions, context, csv_safe, form)
    if questions is not None and aggregation is not None:
        raise DataError("--aggregation is for token classification; remove it, or --question")
    passage = read_text(context) if isinstance(context, Path) else context
    name = at_revision(checkpoint, revision, trust_remote_code)
    task, config = load_configured_task(name, all_probabilities, threshold, text_columns, aggregation)
    how, at_once = predicted(task), inputs_at_once(config)
    if unsure_below is not None:
        check_unsure_below(task, unsure_below)
        say(unsure_on_validation(name, unsure_below))
    _check_form(form, task)
    if questions is not None and passage is not None:
        how.read_fields({"question": questions, "context": passage})  # reports faults before the model is loaded
    skipped: list[str] | None = None if on_error == "stop" else []
    table: Table | None = None
    per_file = per_file or (input_file is not None and is_document(input_file))
    if per_file and input_file is None:
        raise DataError("--per-file: is for files; give them with --input")
    if input_file is not None:
        blocks = _read(input_file, task, at_once, per_file, skipped)
    elif kind_of_table(texts) is not None:
        table = table_of(texts)
        blocks = one_block(table)
    else:
        given = list_of_texts(questions if texts is None else texts)
        blocks = blocks_of(with_words(given, "question" if texts is None else "text", skipped), at_once)

    rows_read: list[int | str] = []  # of the last block

    def read(block: Block) -> tuple[Columns, Columns, Columns]:
        if per_file and isinstance(block.inputs, Table):
            names = {"file": block.inputs.columns["file"]}
            return task.read_input(list(block.inputs.columns["text"])), names, block.inputs.columns
        if isinstance(block.inputs, Table):
            columns: Columns = task.columns_of(block.inputs)
            rows_read[:] = block.inputs.numbers_of_rows
            are_named = not all(name.isdecimal() for name in block.inputs.columns)  # those of a column file are not
            if form is None and are_named and len(next(iter(columns.values()))) == len(block.inputs):
                return columns, how.repeated(columns), block.inputs.columns
        elif passage is not None:
            columns = how.read_fields({"question": block.inputs, "context": passage})
        else:
            return task.read_input(block.inputs, block.first + 1), {"text": block.inputs}, {"text": block.inputs}
        return columns, how.repeated(columns), how.repeated(columns)

    predictor = build_predictor(name, task, config, precision=precision)
    read_what_can_be = readable(read, skipped)
    found: list[dict[str, Any]] | None = None if table is None or form is not None else []
    stream = _stream(predictor, blocks, read_what_can_be, output_file, colours, csv_safe, form, unsure_below, found)
    stream = listing_skipped(stream, skipped, lambda block: len(block.rows))
    if table is None:
        return stream
    rows = [row for block in stream for row in block.rows]
    if found is None:
        return rows
    if len(rows_read) < len(table):
        texts = some_rows(texts, [int(number) - 1 for number in rows_read])
    return table_with_predictions(texts, list(table.columns), found, how.leaves_out_labels)


def _check_form(form: str | None, task: Task) -> None:
    """Checks that a task writes a form of another tool, if one is given."""
    forms = predicted(task).forms
    if form is not None and form not in forms:
        raise DataError(
            f"--as {form}: {task.name} writes {' or '.join(forms) or 'no other form'}; "
            + ("give one of them" if forms else "remove it")
        )


def _check_options(
    texts: Sequence[str] | None,
    input_file: Path | None,
    output_file: Path | None,
    questions: Sequence[str] | None,
    context: str | Path | None,
    csv_safe: bool,
    form: str | None,
) -> None:
    """Checks the options of `predict_stream` that need no checkpoint."""
    if (questions is None) != (context is None):
        raise DataError("--question and --context (or --context-file) must be given together")
    if texts is not None and input_file is not None:
        raise DataError(f"give texts as arguments or a file of texts with --input {input_file}, not both")
    if [texts is None, input_file is None, questions is None].count(False) != 1:
        raise DataError(
            "give texts as arguments, or a file of texts with --input (- for stdin), or a --question with its --context"
        )
    suffix = "" if output_file is None else output_file.suffix.lower()
    if csv_safe and suffix != ".csv":
        raise DataError("--csv-safe is for --output FILE.csv; other forms have no formulas")
    if form is not None and output_file is not None and has_columns(output_file):
        raise DataError(
            f"--as {form}: is JSON, for --output FILE.jsonl or FILE.json; --output {output_file} has columns"
        )
    if output_file is not None:
        if suffix not in ROW_FILES:
            raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(ROW_FILES)}")
        check_growing_file(output_file, f"--output {output_file}")


def _read(input_file: Path, task: Task, at_once: int, per_file: bool, left_out: list[str] | None) -> Iterator[Block]:
    if per_file:
        return read_inputs(input_file, at_once, per_file, left_out)
    table = predicted(task).read_file(input_file)
    if table is None and predicted(task).reads_neighbours and is_table(input_file):
        table = read_table(input_file)
    if table is not None:
        return one_block(table)
    if any(suffix.lower() in _NOT_LINES for suffix in input_file.suffixes[-2:]):
        raise DataError(
            f"--input {input_file}: {task.name} does not read this kind of file; give a table (.csv, .tsv, .jsonl, "
            ".parquet, .xlsx), or a text file with one input per line"
        )
    return read_inputs(input_file, at_once, left_out=left_out)


def _stream(
    predictor: Predictor,
    blocks: Iterator[Block],
    read: Callable[[Block], tuple[Columns, Columns, Columns]],
    output_file: Path | None,
    colours: bool,
    csv_safe: bool,
    form: str | None,
    unsure_below: float | None,
    found: list[dict[str, Any]] | None,
) -> Iterator[Predictions]:
    """Yields the predictions for blocks; ``read`` returns the columns to encode, and those of the lines and of the rows
    beside the predictions, which are added to ``found``."""
    how = predicted(predictor.task)
    flattens = output_file is not None and has_columns(output_file)

    def predict(block: Block, on_progress: Reached) -> Predictions:
        columns, shown, kept = read(block)
        predictions = with_unsure(predictor.predict_columns(columns, on_progress), unsure_below)
        if found is not None:
            found.extend(predictions)
        block_predictions = Predictions([], [])
        inputs = zip(zip(*kept.values(), strict=True), zip(*shown.values(), strict=True), strict=True)
        for (row_values, values), prediction in zip(inputs, predictions, strict=True):
            given = dict(zip(kept, row_values, strict=True))
            row = with_prediction(flat(given) if flattens else given, prediction)
            if form is not None:
                row = how.in_form(form, row)
                line = dumps(row)  # in ASCII, so that no control character reaches a terminal
            else:
                shown_row = with_prediction(dict(zip(shown, values, strict=True)), prediction)
                coloured = how.highlighted(shown_row) if colours else None
                line = coloured or _line(how.format_prediction(prediction), values)
            block_predictions.rows.append(row)
            block_predictions.lines.append(line)
        return block_predictions

    blocks_of_predictions = process_blocks(blocks, "predicting", predict)
    if output_file is None:
        yield from blocks_of_predictions
        return
    with writing_rows(output_file, csv_safe, how.leaves_out_labels) as add:
        for each in blocks_of_predictions:
            if each.rows:  # else all inputs of the block were skipped
                add(each.rows)
            yield each


def _line(prediction: str, inputs: Iterable[Any]) -> str:
    texts = [" | ".join(each) if isinstance(each, list) else str(each) for each in inputs]
    return printable("\t".join([prediction, *texts]).replace("\n", " "))
