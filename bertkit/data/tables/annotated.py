"""Labels that people have given: in the forms of annotation tools and exports, and in the tables of `bertkit next`.

The forms are Prodigy's answers, fields of several labels, and Label Studio's choices.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bertkit.data.tables.classes import is_missing, label_texts, names_of_labels
from bertkit.data.tables.labels import Problem
from bertkit.data.tables.table import Table
from bertkit.runtime.errors import DataError, did_you_mean, shown
from bertkit.runtime.progress import counted, say

REJECTED = ("reject", "ignore")
"""Answers of Prodigy with which the label of a row does not count: it is wrong, or was not decided on."""


def keep_accepted(table: Table) -> Table:
    """Returns the rows but those that Prodigy's ``answer`` rejects or ignores.

    A table without this column, or with other answers in it, stays whole; a row without an answer is kept. A rejected
    label is not that of its row, and an ignored one was not decided on. How many rows are left out is printed.

    Raises:
        DataError: no row is left.
    """
    answers = table.columns.get("answer", ())
    rows = [row for row, answer in enumerate(answers) if answer not in REJECTED]
    others = (answer for answer in answers if answer not in ("accept", *REJECTED))
    if len(rows) == len(answers) or not all(map(is_missing, others)):
        return table
    left_out = len(answers) - len(rows)
    say(f"{table.source}: {left_out:,} of {len(answers):,} rows with the answer {' or '.join(REJECTED)} left out")
    if not rows:
        raise DataError(f"{table.source}: no row has the answer accept")
    return table.part(rows)


def split_labels(table: Table, column: str, separator: str) -> Table:
    """Splits the fields of a column that hold several labels, as in CSV and TSV files, into lists.

    An empty field becomes an empty list, and a number or a date, as Excel has them, one label; other values are
    unchanged, and `class_sets` checks them.
    """

    def split(value: Any) -> Any:
        if isinstance(value, str):
            return [label.strip() for label in value.split(separator) if label.strip()]
        return value if isinstance(value, list) else list(label_texts([value])) or value

    return replace(table, columns={**table.columns, column: list(map(split, table.columns[column]))})


def unwrap_labels(table: Table, column: str, problem: Problem | None) -> Table:
    """Returns the table with its labels out of the forms in which annotation tools write them.

    If a row has ``{"choices": ["a", "b"]}`` as in Label Studio, an object or its JSON, the labels of all rows that have
    any become lists. If ``problem`` is ``single_label``, a list of one becomes its label, and an empty one a missing
    value.

    >>> unwrap_labels(Table({"label": ['{"choices": ["a", "b"]}', "a"]}, "x.csv", ""), "label", None).columns["label"]
    [['a', 'b'], ['a']]
    """

    def choices_of(value: Any) -> list[Any] | None:
        if isinstance(value, str) and value.startswith('{"choices"'):
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
        return value.get("choices") if isinstance(value, Mapping) else None

    values, choices = table.columns[column], list(map(choices_of, table.columns[column]))
    if any(each is not None for each in choices):
        whole = [value if isinstance(value, list) or is_missing(value) else [value] for value in values]
        values = [value if each is None else each for each, value in zip(choices, whole, strict=True)]
    if problem == "single_label" and any(isinstance(value, list) for value in values):
        values = [next(iter(value), None) if isinstance(value, list) and len(value) < 2 else value for value in values]
    return table if values is table.columns[column] else replace(table, columns={**table.columns, column: values})


# ---- tables of `bertkit next`: rows to label with its guesses, above those that are labelled ---------------------

GUESS, PROBABILITY, REASON = PROPOSED = "guess", "probability", "reason"
"""Columns of a proposed row, which are empty in a row that was labelled before."""

TYPICAL, UNLIKE, UNSURE = "stands for a group of similar rows", "unlike all labelled rows", "unsure "
"""Wording of the reasons: each begins with the first or the last one, and may end with the second one."""


def is_proposal(table: Table) -> bool:
    """Returns whether a table has the columns of `bertkit next`, with its reasons; others may have columns of the same
    names."""
    if not all(name in table.columns for name in PROPOSED):
        return False
    given = [str(reason) for reason in table.columns[REASON] if not is_missing(reason)]
    return all(reason.startswith((TYPICAL, UNSURE)) for reason in given)


def keep_answered(table: Table, column: str) -> Table:
    """Returns the rows without the proposed ones that were left without a label; other tables whole.

    How many are left out is printed, and so are labels that no row had before: each is a new class, or misspelt.

    Args:
        table: any table.
        column: its labels.

    Raises:
        DataError: none of the rows has a label.
    """
    if not is_proposal(table) or column not in table.columns:
        return table
    values, guesses = table.columns[column], table.columns[GUESS]
    proposed = [row for row, guess in enumerate(guesses) if not is_missing(guess)]
    rows = [row for row in range(len(table)) if is_missing(guesses[row]) or not is_missing(values[row])]
    if not rows:
        raise DataError(
            f"{table.source}: no row has a label yet; write the class of each text into the column {column!r}"
        )
    if len(rows) < len(table):
        left_out = f"{len(table) - len(rows):,} of {counted(len(proposed), 'proposed row', form=',')}"
        say(f"{table.source}: left out {left_out}, whose {column} is empty")
    names = names_of_labels(values)  # 1 is no new class beside 1.0
    earlier = (value for value, guess in zip(values, guesses, strict=True) if is_missing(guess))
    before = {names[label] for label in label_texts(earlier)}
    for label, number in Counter(names[label] for label in label_texts(values[row] for row in proposed)).items():
        if before and label not in before:
            what = did_you_mean(label, sorted(before)) or "; is it a new class?"
            say(
                f"warning: {table.source}: {shown(label)} is the label of {counted(number, 'proposed row', form=',')} "
                f"and of no row that was labelled before{what}"
            )
    return table.part(rows) if len(rows) < len(table) else table
