"""``--fix OUT.csv``: a table without empty and repeated rows, with one name for each label, and the labels in doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertkit.data.tables import Table, read_table
from bertkit.data.tables.annotated import keep_accepted, unwrap_labels
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.columns import label_and_text_columns
from bertkit.data.tables.labels import faults_of_kinds, faults_of_texts, infer_problem
from bertkit.data.tables.table import same_texts, text_key
from bertkit.features.checks.label_rules import find_suspects, near_labels, vectors_of
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import DataError, RecipeError, entries_of
from bertkit.runtime.files import check_new_file, write_csv
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, say
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.registry import task_of_recipe

_MOST_ODD = 0.1  # part of the rows of a table


class Doubt(NamedTuple):
    """A label in doubt: the number of its row in the source or the path of its file, the label, a better one with a
    confidence in [0, 1], and the text, of a pair the first one. The better one is empty for no label where a row may
    have several, and for an odd label, with 0."""

    line: int | str
    label: str
    suggestion: str
    confidence: float
    text: str


@dataclass
class Cleaned:
    """Result of `clean`.

    Attributes:
        rows: the rows that are kept, from 0.
        labels: row → its label, where it is another one than in the table.
        removed: reason → number of removed rows.
        doubts: labels that were changed as misspelt, or whose rows were removed because of them; not those that look
            alike.
    """

    rows: list[int]
    labels: dict[int, str]
    removed: Counter[str]
    doubts: list[Doubt]

    def labels_of_rows(self, column: Sequence[Any]) -> list[Any]:
        """Returns the labels of the rows that are kept, from the column of all rows."""
        return [self.labels.get(row, column[row]) for row in self.rows]


def clean(
    table: Table, texts: Sequence[str], label: str, separator: str | None = None, odd: Collection[int] = ()
) -> Cleaned:
    """Finds the rows of a table to keep, and their labels.

    Removed are rows with an empty text, without a label or with an odd one, with the texts and the label of an earlier
    row, and rows whose texts have another label more often, or as often and before. Labels that look alike, or that
    `near_labels` takes for misspelt, get the more frequent name.

    Args:
        table: the table.
        texts, label: its columns.
        separator: separator of the labels of a row, which has any number of them in any order; None for one label.
        odd: rows whose labels are none, such as words among numbers.
    """
    columns, given = [table.columns[name] for name in texts], table.columns[label]
    names: list[list[str]] = []  # of each row; none if it has no label
    for value in given:
        parts = [] if is_missing(value) else [str(value)] if separator is None else str(value).split(separator)
        names.append(parts if separator is None else [part.strip() for part in parts if part.strip()])
    near = near_labels(Counter(name for of_row in names for name in of_row))
    unified = [list(dict.fromkeys(near.get(name, (name, 1.0))[0] for name in of_row)) for of_row in names]
    rows: dict[tuple[str, ...], dict[str, list[int]]] = {}
    removed: Counter[str] = Counter()
    for row, values in enumerate(zip(*columns, strict=True)):
        if any(is_missing(value) for value in values):
            removed["without a text"] += 1
        elif separator is None and not names[row]:
            removed["without a label"] += 1
        elif row in odd:
            removed["with a label unlike the others"] += 1
        else:
            of_texts = rows.setdefault(text_key(map(str, values)), {})
            of_texts.setdefault((separator or "").join(sorted(unified[row])), []).append(row)
    kept, doubts = [], []
    for by_label in rows.values():
        most = max(by_label, key=lambda name: len(by_label[name]))
        kept.append(by_label[most][0])
        removed["repeated"] += sum(map(len, by_label.values())) - 1
        share = len(by_label[most]) / sum(map(len, by_label.values()))
        doubts += [
            Doubt(table.numbers_of_rows[row], str(given[row]), most, share, str(columns[0][row]))
            for name, of_name in by_label.items()
            for row in of_name
            if name != most
        ]
    doubts += [Doubt(table.numbers_of_rows[row], str(given[row]), "", 0.0, str(columns[0][row])) for row in odd]
    kept.sort()
    changed = {row: (separator or "").join(unified[row]) for row in kept if not near.keys().isdisjoint(names[row])}
    for row, name in changed.items():
        similarity = min(near[each][1] for each in names[row] if each in near)
        if similarity < 1:
            doubts.append(Doubt(table.numbers_of_rows[row], str(given[row]), name, similarity, str(columns[0][row])))
    return Cleaned(kept, changed, +removed, doubts)


def fix(recipe: Recipe, place: Path, labels: bool) -> None:
    """Writes the cleaned training table of a recipe as CSV, and beside it ``NAME.suspects.csv``.

    The table of the recipe is not changed. Rows with a wrong number of fields are left out too. What was done is
    printed.

    Args:
        recipe: a recipe of text classification with ``data.train_file``.
        place: a new file that ends in ``.csv``.
        labels: add labels that are probably wrong to the suspects, see `find_suspects`; a suspect is not changed.

    Raises:
        RecipeError: the recipe is of another task, its labels are numbers or lists, or the file is no ``.csv``.
        DataError: the table cannot be read, or no row is left.
        CheckpointError: ``labels`` are asked for, and the checkpoint cannot be loaded.
        OutputError: a file exists or cannot be written.
    """
    source = getattr(recipe.data, "train_file", None)
    task = None if source is None else task_of_recipe(recipe)
    if not isinstance(task, ClassificationTask) or source is None:
        without = ", without such a file" if source is None else ""
        raise RecipeError(
            f"--fix: is for finetune classification with --train-file; this is {recipe.kind}{without}; check names its "
            "faults by their places, to correct them there"
        )
    if place.suffix.lower() != ".csv":
        raise RecipeError(f"--fix {place}: expected a name that ends in .csv")
    suspects = place.with_name(f"{place.stem}.suspects.csv")
    for file in (place, suspects):
        check_new_file(file, f"--fix {file}")
    table, _ = _read(source)
    table, label, texts = _with_columns(table, recipe)
    separator = recipe.task.label_separator
    odd = _find_odd_labels(table, label, recipe)
    if refusal := _refuse(table, label, recipe, odd):
        raise RecipeError(refusal)
    cleaned = clean(table, texts, label, separator, odd)
    if not cleaned.rows:
        raise DataError(f"--fix: no row of {table.source} has a text and a label")
    doubts = list(cleaned.doubts)
    checkpoint = recipe.model.get("name_or_path")
    if labels and checkpoint is not None and separator is None:
        doubts += _doubt_by_vectors(str(checkpoint), table, texts, label, cleaned)
    columns = {name: [values[row] for row in cleaned.rows] for name, values in table.columns.items()}
    columns[label] = cleaned.labels_of_rows(table.columns[label])
    cells = (
        [dumps(each, ensure_ascii=False, default=str) if isinstance(each, (list, Mapping)) else each for each in values]
        for values in columns.values()
    )
    write_csv(place, list(columns), zip(*cells, strict=True))
    write_csv(suspects, Doubt._fields, ((*each[:3], f"{each.confidence:.2f}", each.text) for each in doubts))
    if table.skipped:
        what = "without a text in their file" if table.unit == "file" else "with a wrong number of fields"
        cleaned.removed[what] = table.skipped
    parts = ", ".join(f"{count:,} {reason}" for reason, count in cleaned.removed.items())
    say(f"{place}: {len(cleaned.rows):,} of {len(table) + table.skipped:,} rows; removed: {parts or 'none'}")
    for (old, new), count in Counter(
        (str(table.columns[label][row]), new) for row, new in cleaned.labels.items()
    ).items():
        say(f"label {old!a} is {new!a} in {counted(count, 'row')}")
    say(f"{suspects}: {counted(len(doubts), 'label')} to look at")


class RowFault(NamedTuple):
    """A fault of a table, most of them of a row; ``is_left_out`` says whether `fix` writes the table without it."""

    message: str
    is_left_out: bool


class CheckedTable(NamedTuple):
    """A table of text classification: its faults, and its rows without any; None if it has none, or cannot be read."""

    faults: list[RowFault]
    sound: Table | None = None


def check_tables(recipe: Recipe) -> dict[str, CheckedTable]:
    """Returns the training and the validation table of text classification, by name; none of another task.

    Their faults are also those that an earlier one hides: rows without a text or a label, beside rows of a wrong number
    of fields or labels of several kinds.
    """
    if not isinstance(task_of_recipe(recipe), ClassificationTask):
        return {}
    tables: dict[str, CheckedTable] = {}
    for name, source in (("train", recipe.data.train_file), ("validation", recipe.data.validation_file)):
        if source is None:
            continue
        try:
            table, of_fields = _read(source)
            table, label, texts = _with_columns(table, recipe)
        except DataError as unreadable:
            tables[name] = CheckedTable([RowFault(str(unreadable), False)])
            continue
        of_labels = _find_odd_labels(table, label, recipe)
        is_fixed = name == "train" and not _refuse(table, label, recipe, of_labels)
        faults = [RowFault(message, is_fixed) for message in of_fields]
        faulty: set[int] = set()
        for column in texts:
            values, of_texts = table.columns[column], faults_of_texts(table, column)
            faults += [RowFault(message, is_fixed and is_missing(values[row])) for row, message in of_texts.items()]
            faulty |= of_texts.keys()
        if recipe.task.label_separator is None:  # a row may have none of several labels
            missing = [row for row, value in enumerate(table.columns[label]) if is_missing(value)]
            of_labels |= {row: f"{table.place(row)}: no value for {label!r}" for row in missing}
        faults += [RowFault(message, is_fixed) for message in of_labels.values()]
        faulty |= of_labels.keys()
        sound = [row for row in range(len(table)) if row not in faulty]
        tables[name] = CheckedTable(faults, table.part(sound) if sound else None)
    return tables


def _find_odd_labels(table: Table, label: str, recipe: Recipe) -> dict[int, str]:
    """Returns the few rows whose labels are words among numbers, or numbers among words, with their faults; none if
    all are names of classes."""
    task = recipe.task
    if task.problem is not None or task.label_names or task.label_separator is not None:
        return {}
    faults = faults_of_kinds(table, label)
    return faults if len(faults) <= _MOST_ODD * len(table) else {}


def _refuse(table: Table, label: str, recipe: Recipe, odd: Collection[int]) -> str:
    """Returns why `fix` writes no table with such labels; empty for names of classes, the odd ones left out."""
    if any(isinstance(value, (list, tuple)) for value in table.columns[label]):
        return (
            f"--fix: {label!r} of {table.source} has lists, which CSV has not; write the labels of a row with a "
            "separator, and give --set task.label_separator=…"
        )
    problem = recipe.task.problem
    if problem is None and not recipe.task.label_names and recipe.task.label_separator is None:
        with suppress(DataError):  # labels that are both are no numbers without --problem regression
            problem = infer_problem(table.part([row for row in range(len(table)) if row not in odd]), label)[0]
    of_numbers = "--fix: is for classes; of numbers, rows without a text or a number are named by check"
    return of_numbers if problem == "regression" else ""


def _with_columns(table: Table, recipe: Recipe) -> tuple[Table, str, list[str]]:
    """Returns the table with its labels out of the forms of annotation tools, and the columns of labels and texts."""
    task = recipe.task
    label, texts = label_and_text_columns(table, task.label_column, task.text_columns)
    return unwrap_labels(table, label, task.problem), label, texts


def _read(source: str) -> tuple[Table, list[str]]:
    """Reads a table without the rows of a wrong number of fields; returns their faults too."""
    try:
        return keep_accepted(read_table(source)), []
    except DataError as refused:
        try:
            return keep_accepted(read_table(source, skip_ragged=True)), entries_of([str(refused)])
        except DataError:  # there are other faults, or the file has no such rows
            raise refused from None


def _doubt_by_vectors(checkpoint: str, table: Table, texts: Sequence[str], label: str, cleaned: Cleaned) -> list[Doubt]:
    """Returns the labels that are probably wrong by the vectors of a checkpoint."""
    names, ids = np.unique(list(map(str, cleaned.labels_of_rows(table.columns[label]))), return_inverse=True)
    columns = [[str(table.columns[name][row]) for row in cleaned.rows] for name in texts]
    vectors, numbers = vectors_of(checkpoint, columns), same_texts(zip(*columns, strict=True))
    return [
        Doubt(
            table.numbers_of_rows[cleaned.rows[row]], str(names[ids[row]]), str(names[best]), 1 - score, columns[0][row]
        )
        for row, best, score in find_suspects(vectors, ids, numbers)
    ]
