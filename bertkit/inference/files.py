"""Predictions for texts from arguments, a file, a table or a pipe, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bertkit.data.tables import Table, is_table, read_table
from bertkit.data.tables.objects import some_rows
from bertkit.inference.evaluation import unsure_on_validation
from bertkit.inference.forward import computes_beside_cores
from bertkit.inference.inputs import (
    Block,
    InputSource,
    inputs_at_once,
    listing_skipped,
    one_block,
    process_blocks,
    read_given,
    readable,
)
from bertkit.inference.options import PredictOptions
from bertkit.inference.outcome import TaskInference, task_inference
from bertkit.inference.predictor import build_predictor, load_configured_task, table_with_predictions
from bertkit.inference.row_files import ROW_FILES, flat, has_columns, writing_rows
from bertkit.inference.writing import Row, check_growing_file, with_prediction
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import DataError, OutputError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.options import several
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import Reached, printable, say
from bertkit.runtime.reading.text import read_text
from bertkit.tasks.base import Task
from bertkit.tasks.ner.sentences import ConllTable, is_conll
from bertkit.tasks.splits import Columns


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
    texts: Any = None,
    input_file: str | Path | None = None,
    output_file: str | Path | None = None,
    *,
    questions: Sequence[str] | None = None,
    context: str | Path | None = None,
    colours: bool = False,
    csv_safe: bool = False,
    all_probabilities: bool = False,
    threshold: float | None = None,
    unsure_below: float | None = None,
    form: str | None = None,
    text_columns: str | Sequence[str] | None = None,
    aggregation: str | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    per_file: bool = False,
    on_error: Literal["stop", "skip"] = "stop",
    max_error: float | None = None,
    by_class: bool = False,
) -> Any:
    """Predicts for texts given directly or in a file; checks what it can before the model is loaded.

    Predictions are yielded block by block in the order of the inputs; memory does not grow with their number. Files of
    words, in columns or one per row, JSON of SQuAD and Label Studio, and tables in which a row depends on its
    neighbours, are read whole.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        texts: the texts themselves, or a table of pandas, polars, Arrow or ``datasets``, or rows as dictionaries; or
            ``None``.
        input_file: a table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.xlsx``) with the columns that the
            checkpoint was trained on, a file of words in columns (``.conll``), SQuAD's own JSON (``.json``) for a
            checkpoint that answers questions, Label Studio's JSON for one that finds entities, or any other UTF-8 file
            of one text a line (``-`` is stdin, whose lines are answered as they arrive), or ``None``. Empty lines are
            inputs too, so that line n of the input is line n of the output.
        output_file: a new file to which every block is written before it is yielded: CSV for ``.csv``, one JSON object
            per line for ``.jsonl`` and ``.ndjson``, one list of them for ``.json``, row groups for ``.parquet``. It is
            called ``FILE.partial`` until it is complete. In CSV and Parquet the probability of a class has a column of
            its own, ``probabilities.NAME``, and several labels, and lists and objects of the input, are JSON text.
            Where predictions hold the most probable of more than ten labels, which differ from row to row, they are
            one column, ``probabilities``: a JSON object in CSV, a map in Parquet.
        questions: to be answered from ``context``, instead of texts; or ``None``.
        context: the text that contains the answers, or as a `Path` a UTF-8 file of it: a string is always the text.
        colours: allow colours in the lines, if the task supports them.
        csv_safe: in CSV, put an apostrophe before text that spreadsheets would take for a formula. Such text differs
            from the input then.
        all_probabilities: give the probability of every label, not only of the ten most probable ones.
        threshold: probability from which a label is predicted, instead of the thresholds of the checkpoint.
        unsure_below: label predictions of a class with a lower probability ``unsure``; ``best_label`` is the class in
            all rows. Their share in the validation set of the run, and how many of the rest are right, is said first.
        form: give each input with its prediction in a form of another tool, one of `TaskInference.forms`: for entities
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
        max_error: answer as many rows as possible so that at most this share of the answers is wrong, with 90 %
            confidence, and label the others ``unsure``; the share of answers to expect is said first. For runs whose
            rows were scored by folds.
        by_class: keep ``max_error`` among the answers of each class.

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
    options = PredictOptions(
        all_probabilities, threshold, unsure_below, text_columns, aggregation, precision, max_error, by_class
    )
    given = StreamInput(texts, input_file, questions, context, per_file, on_error, several(text_columns))
    output = StreamOutput(None if output_file is None else Path(output_file), colours, csv_safe, form)
    if questions is not None and aggregation is not None:
        raise DataError("--aggregation is for token classification; remove it, or --question")
    name = at_revision(checkpoint, revision, trust_remote_code)
    task, config = load_configured_task(name, options)
    how = task_inference(task)
    options, lines = options.with_thresholds(name, task)
    if form is not None and form not in how.forms:
        forms = f"{' or '.join(how.forms)}; give one of them" if how.forms else "no other form; remove it"
        raise DataError(f"--as {form}: {task.name} writes {forms}")
    blocks = given.blocks_for(task, inputs_at_once(config))
    if unsure_below is not None:  # predicts the validation set
        lines = [unsure_on_validation(name, unsure_below)]
    for line in lines:
        say(line)
    predictor = build_predictor(name, task, config, precision=precision)
    read = readable(lambda block: given.columns(task, block, keeps_all=form is None), given.skipped)
    found: list[dict[str, Any]] = []  # predictions alone, for a table object

    def prepare(block: Block) -> tuple[Columns, Columns, Columns, Columns]:
        columns, shown, kept = read(block)
        return columns, shown, kept, predictor.encode(columns)

    def predict(prepared: tuple[Columns, Columns, Columns, Columns], on_progress: Reached) -> Predictions:
        columns, shown, kept, features = prepared
        predictions = options.mark_unsure(predictor.predict_encoded(columns, features, on_progress))
        if given.table is not None:
            found.extend(predictions)
        return output.predictions(how, shown, kept, predictions)

    is_file = input_file is not None and Path(input_file).is_file()  # a pipe may wait for its next line
    is_ahead = is_file and computes_beside_cores(predictor.model)
    predicted = process_blocks(blocks, "predicting", predict, prepare, is_ahead=is_ahead)
    predicted = listing_skipped(predicted, given.skipped, lambda block: len(block.rows))
    stream = output.write(predicted, how.leaves_out_labels)  # without a file if all inputs were skipped
    if given.table is None:
        return stream
    rows = [row for block in stream for row in block.rows]
    if form is not None:
        return rows
    if len(given.rows_read) < len(given.table):
        texts = some_rows(texts, [int(number) - 1 for number in given.rows_read])
    return table_with_predictions(texts, list(given.table.columns), found, how.leaves_out_labels)


class StreamInput(InputSource):
    """Input of `predict_stream`: its arguments of the same names, read in blocks.

    Attributes:
        rows_read: numbers of the rows of the last block of a table.

    Raises:
        DataError: nothing is given, or several inputs that exclude each other; or the context cannot be read.
    """

    def __init__(
        self,
        texts: Any,
        input_file: str | Path | None,
        questions: Sequence[str] | None,
        context: str | Path | None,
        per_file: bool,
        on_error: Literal["stop", "skip"],
        columns: Sequence[str],
    ):
        if (questions is None) != (context is None):
            raise DataError("--question and --context (or --context-file) must be given together")
        if texts is not None and input_file is not None:
            raise DataError(f"give texts as arguments or a file of texts with --input {input_file}, not both")
        if [texts is None, input_file is None, questions is None].count(False) != 1:
            raise DataError(
                "give texts as arguments, or a file of texts with --input (- for stdin), or a --question with its "
                "--context"
            )
        super().__init__(texts, input_file, per_file, on_error, columns)
        self._questions = questions
        self._passage = read_text(context) if isinstance(context, Path) else context
        self.rows_read: Sequence[int | str] = ()

    def blocks_for(self, task: Task, at_once: int) -> Iterator[Block]:
        """Returns the inputs of a task in blocks of ``at_once``, but a table object as one; reports what it can before
        they are read.

        Raises:
            DataError: the task does not take such inputs, or they cannot be read.
        """
        if self._questions is not None:
            blocks = read_given(self._questions, at_once, "question", may_be_empty=self.skipped is not None)
            task_inference(task).read_fields({"question": [], "context": self._passage or ""})
            return blocks
        if self.table is not None:
            return one_block(self.table)
        if self.file is not None and not self.per_file:
            table = task_inference(task).read_file(self.file)
            if table is None and task_inference(task).reads_neighbours and is_table(self.file):
                table = read_table(self.file)
            if table is not None:
                return one_block(table)
            if is_conll(self.file):  # its lines are no inputs
                raise DataError(
                    f"--input {self.file}: {task.name} does not read this kind of file; give a table (.csv, .tsv, "
                    ".jsonl, .parquet, .xlsx), or a text file with one input per line"
                )
        return self.blocks(at_once)

    def columns(self, task: Task, block: Block, keeps_all: bool) -> tuple[Columns, Columns, Columns]:
        """Returns the columns of a block that the task encodes, those that are shown beside its predictions, and those
        that are written beside them. Of a table it keeps the numbers of its rows, for messages.

        Args:
            task: the task.
            block: inputs from `blocks_for`.
            keeps_all: write all columns of a table, and not only those that are shown.
        """
        inputs, how = block.inputs, task_inference(task)
        if not isinstance(inputs, Table):
            if self._passage is None:
                return task.read_input(self.words_of(block), block.first + 1), {"text": inputs}, {"text": inputs}
            columns: Columns = how.read_fields({"question": self.words_of(block, "question"), "context": self._passage})
        elif self.per_file:
            names = {"file": inputs.columns["file"]}
            return task.read_input(list(inputs.columns["text"])), names, inputs.columns
        else:
            columns = task.columns_of(inputs)
            self.rows_read = inputs.numbers_of_rows
            are_named = not isinstance(inputs, ConllTable)  # by more than their numbers
            if keeps_all and are_named and len(next(iter(columns.values()))) == len(inputs):
                return columns, how.columns_beside(columns), inputs.columns
        return columns, how.columns_beside(columns), how.columns_beside(columns)


@dataclass(frozen=True)
class StreamOutput:
    """Output of `predict_stream`: its arguments of the same names.

    Raises:
        DataError: two of them exclude each other.
        OutputError: the file exists or has an unknown ending.
    """

    file: Path | None
    colours: bool
    csv_safe: bool
    form: str | None

    def __post_init__(self) -> None:
        suffix = "" if self.file is None else self.file.suffix.lower()
        if self.csv_safe and suffix != ".csv":
            raise DataError("--csv-safe is for --output FILE.csv; other forms have no formulas")
        if self.file is None:
            return
        if self.form is not None and has_columns(self.file):
            raise DataError(
                f"--as {self.form}: is JSON, for --output FILE.jsonl or FILE.json; --output {self.file} has columns"
            )
        if suffix not in ROW_FILES:
            raise OutputError(f"--output {self.file}: expected a name that ends in {', '.join(ROW_FILES)}")
        check_growing_file(self.file, f"--output {self.file}")

    def predictions(
        self, how: TaskInference, shown: Columns, kept: Columns, predictions: Sequence[Mapping[str, Any]]
    ) -> Predictions:
        """Returns predictions as rows with the columns ``kept`` of their inputs, and as lines with those ``shown``."""
        flattens = self.file is not None and has_columns(self.file)
        rows, lines = [], []
        inputs = zip(zip(*kept.values(), strict=True), zip(*shown.values(), strict=True), strict=True)
        for (row_values, values), prediction in zip(inputs, predictions, strict=True):
            given = dict(zip(kept, row_values, strict=True))
            row = with_prediction(flat(given) if flattens else given, prediction)
            if self.form is not None:
                row = how.to_form(self.form, row)
                line = dumps(row)  # in ASCII, so that no control character reaches a terminal
            else:
                shown_row = with_prediction(dict(zip(shown, values, strict=True)), prediction)
                texts = [" | ".join(each) if isinstance(each, list) else str(each) for each in values]
                plain = printable("\t".join([how.format_prediction(prediction), *texts]))
                line = ((self.colours and how.highlight(shown_row)) or plain).replace("\n", " ")
            rows.append(row)
            lines.append(line)
        return Predictions(rows, lines)

    def write(self, blocks: Iterator[Predictions], leaves_out_labels: bool) -> Iterator[Predictions]:
        """Yields predictions, each block after it is in the file, if there is one."""
        if self.file is None:
            yield from blocks
            return
        with writing_rows(self.file, self.csv_safe, leaves_out_labels) as add:
            for each in blocks:
                if each.rows:  # else all inputs of the block were skipped
                    add(each.rows)
                yield each
