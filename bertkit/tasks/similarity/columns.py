"""Columns of tables of similar texts: their form, their texts and scores, and what is wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.labels import named, texts, whole_numbers
from bertkit.data.tables.table import PAIRS, matching, to_number, usual_column, usual_pair
from bertkit.runtime.errors import DataError, collected, quoted, raise_listed, shown
from bertkit.tasks.similarity.forms import CLOSENESS, form_of, opposites, words_of

if TYPE_CHECKING:
    from bertkit.tasks.similarity.settings import TaskSettings

_PAIRS = (
    *PAIRS,
    *((query, answer) for query in ("anchor", "query", "question") for answer in ("positive", "passage", "answer")),
)
_NEGATIVE = re.compile(r"negative([_-].*)?", re.IGNORECASE)
SCORE_COLUMNS = ("score", "similarity", "similarity_score", "relatedness_score", "label", "gold_label")


def settled_columns(task: TaskSettings, table: Table) -> tuple[dict[str, Any], str]:
    """Derives the form of the data and their columns from a table.

    Returns:
        The changed settings, and a sentence that says what was inferred.

    Raises:
        DataError: a column does not exist, the texts cannot be found, or the settings or the form do not fit them.
    """
    columns, label = texts_and_label(table, task.text_columns, task.label_column)
    if len(columns) < 2:
        raise DataError(f"{table.source}: one column of texts, {columns[0]!r}; give --text-column twice or more often")
    if repeated := {name for name in columns if [*columns, label].count(name) > 1}:
        raise DataError(
            f"{table.source}: the column {min(repeated)!r} is given more than once; each text and the label need their "
            "own"
        )
    known = None if label is None else table.class_names.get(label)
    if task.label_names and not known and (label is None or not whole_numbers(table.columns[label])):
        raise DataError(f"{table.source}: --label-names are for labels that are whole numbers; remove them")
    if label is not None:
        if known and task.label_names and known != task.label_names:
            raise DataError(
                f"{table.source}: its classes are {quoted(known)}, not {quoted(task.label_names)}; remove --label-names"
            )
        table = named(table, label, task.label_names)
    form = task.form or form_of(columns, label, table)
    if form in ("pairs", "triplets"):
        if task.label_column is not None:
            raise DataError(f"{table.source}: {form} have no labels; remove --label-column, or give another --form")
        label = None
    elif label is None:
        raise DataError(f"{table.source}: {form} need a column of scores or labels; give it with --label-column")
    if (len(columns) == 2) == (form == "triplets"):
        number = "three or more" if form == "triplets" else "two"
        raise DataError(
            f"{table.source}: {form} have {number} texts, not {quoted(columns)}; name the columns with --text-column"
        )
    what = "" if form == "nli" else ", larger for texts that are more alike"
    with_label = f", with {label!r}{what}" if label else ""
    line = f"form: {form} of the columns {', '.join(columns)}{with_label}"
    return {"form": form, "text_columns": columns, "label_column": label}, line


def texts_and_label(table: Table, given: Sequence[str], label: str | None) -> tuple[list[str], str | None]:
    """Returns the columns of the texts and of the label of a table: those ``given`` and ``label``, or usual ones.

    Raises:
        DataError: a column does not exist, or the texts cannot be found.
    """
    names = list(table.columns)
    columns = [matching(name, names) or name for name in given] or usual_texts(names, table.source)
    others = [name for name in names if name not in columns]
    found = usual_column(others, SCORE_COLUMNS) if label is None else matching(label, names) or label
    missing = [name for name in (*columns, *filter(None, [found])) if name not in names]
    if missing:
        raise DataError(f"{table.source}: no column {quoted(missing)}; its columns are {', '.join(names)}; name others")
    return columns, found


def usual_texts(names: Sequence[str], source: str) -> list[str]:
    """Returns the columns of a pair of texts with usual names, and those of negatives.

    Raises:
        DataError: there is no such pair.
    """
    pair = usual_pair(names, _PAIRS)
    if pair is None:
        raise DataError(
            f"{source}: cannot determine which of its columns ({', '.join(names)}) contain the texts; give "
            "--text-column for each of them, the query or first sentence first"
        )
    return [*pair, *usual_negatives(names, pair)]


def usual_negatives(names: Iterable[str], pair: Collection[str]) -> list[str]:
    """Returns the columns with usual names of negatives, such as ``negative_1``, but for those of the pair."""
    return [name for name in names if _NEGATIVE.fullmatch(name.strip()) and name not in pair]


def read_texts(table: Table, columns: Sequence[str]) -> list[list[str]]:
    """Reads the texts of each row.

    Raises:
        DataError: a column is missing, a text is empty or not a text, or the first text is one of the negatives or the
            positive is; the message names at most ten rows.
    """
    table.select(*(name for name in columns if name not in table.columns))  # raises for these
    read = collected(lambda name, _: texts(table, name), dict.fromkeys(columns))
    rows = [list(row) for row in zip(*read.values(), strict=True)]
    equal = []
    for number, row in enumerate(rows):
        for column, negative in zip(columns[2:], row[2:], strict=True):
            if negative in row[:2]:
                other = columns[row.index(negative)]
                equal.append(
                    f"{table.place(number)}: {column} is the text of {other} too; a negative must be another text, "
                    "remove the row or give another one"
                )
    raise_listed(equal)
    return rows


def label_values(task: TaskSettings, table: Table, *, is_trained: bool) -> list[Any]:
    """Reads the score of each row, a float; the class id of `CLOSENESS`; or 1.0 where all pairs belong together.

    Args:
        task: settings with form and columns.
        table: the rows.
        is_trained: the rows are those of the training set, whose scores must differ.

    Raises:
        DataError: a score is missing or not a number, a label is unknown, or all scores are equal.
    """
    if task.label_column is None:
        return [1.0] * len(table)
    values = table.column(task.label_column)
    if task.form == "nli":
        if whole_numbers(values):
            raise DataError(
                f"{table.source}: {task.label_column} has numbers whose classes are unknown; write the names of the "
                "classes, or give them in the order of the numbers to the training, such as --label-names entailment "
                "neutral contradiction"
            )
        names = [str(value).strip().casefold() for value in values]
        raise_listed(
            [
                f"{table.place(row)}: {task.label_column} is {shown(values[row])}; expected {', '.join(CLOSENESS)}"
                for row, name in enumerate(names)
                if name not in CLOSENESS
            ]
        )
        return [CLOSENESS[name] for name in names]
    remedy = "give pairs with different scores, or --form pairs if all belong together"
    return scores_of(table, task.label_column, remedy if is_trained else None)


def scores_of(table: Table, column: str, remedy: str | None) -> list[float]:
    """Reads the score of each row: a number; or 1 and 0 for true and false, or for a class and what denies it.

    Args:
        table: the rows.
        column: the column of the scores.
        remedy: what to do if all scores are equal, which nothing can be learnt from; None allows it.

    Raises:
        DataError: a score is missing or not a number, or all are equal.
    """
    values = table.column(column)
    words = words_of(table.class_names.get(column, values))
    of_classes = opposites({"true", "false"} if words and words <= {"true", "false"} else words)
    scores = [math.nan if is_missing(value) else to_number(value) for value in values]
    if of_classes:
        scores = [of_classes.get(str(value).strip().casefold(), math.nan) for value in values]
    raise_listed(
        [
            f"{table.place(row)}: {column} is {shown(values[row])}; expected a number, or two classes such as "
            "duplicate and not_duplicate"
            for row, score in enumerate(scores)
            if not math.isfinite(score)
        ]
    )
    if remedy is not None and len(set(scores)) == 1:
        raise DataError(
            f"{table.source}: all scores are {scores[0]:g}, and the loss learns which pairs are more alike than "
            f"others; {remedy}"
        )
    return scores
