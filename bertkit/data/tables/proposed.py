"""Tables of `bertkit next`: rows that a person is to label, above those that are labelled, with its guesses beside."""

from __future__ import annotations

from collections import Counter

from bertkit.data.tables.classes import is_missing, label_texts
from bertkit.data.tables.table import Table
from bertkit.runtime.errors import DataError, did_you_mean, shown
from bertkit.runtime.progress import counted, say

GUESS, PROBABILITY, REASON = PROPOSED = "guess", "probability", "reason"
"""Columns of a proposed row, which are empty in a row that was labelled before."""


def is_proposal(table: Table) -> bool:
    """Returns whether a table has the columns of `bertkit next`."""
    return all(name in table.columns for name in PROPOSED)


def answered(table: Table, column: str) -> Table:
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
    empty = {row for row in proposed if is_missing(values[row])}
    if len(empty) == len(table):
        raise DataError(
            f"{table.source}: no row has a label yet; write the class of each text into the column {column!r}"
        )
    if empty:
        left_out = f"{len(empty):,} of {counted(len(proposed), 'proposed row', form=',')}"
        say(f"{table.source}: left out {left_out}, whose {column} is empty")
    before = set(label_texts(value for row, value in enumerate(values) if row not in {*proposed}))
    for label, rows in Counter(label_texts(values[row] for row in proposed)).items():
        if before and label not in before:
            what = did_you_mean(label, sorted(before)) or "; is it a new class?"
            say(
                f"warning: {table.source}: {shown(label)} is the label of {counted(rows, 'proposed row', form=',')} "
                f"and of no row that was labelled before{what}"
            )
    return table.part([row for row in range(len(table)) if row not in empty]) if empty else table
