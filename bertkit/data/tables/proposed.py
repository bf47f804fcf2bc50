"""Tables of `bertkit next`: rows that a person is to label, above those that are labelled, with its guesses beside."""

from __future__ import annotations

from collections import Counter

from bertkit.data.tables.classes import is_missing, label_texts
from bertkit.data.tables.table import Table
from bertkit.runtime.errors import DataError, did_you_mean, shown
from bertkit.runtime.progress import counted, say

GUESS, PROBABILITY, REASON = PROPOSED = "guess", "probability", "reason"
"""Columns of a proposed row, which are empty in a row that was labelled before."""

TYPICAL, UNLIKE, UNSURE = "stands for a group of similar rows", "unlike all labelled rows", "unsure "
"""Wording of the reasons; the last one is only the beginning of a reason."""


def is_proposal(table: Table) -> bool:
    """Returns whether a table has the columns of `bertkit next`, with its reasons; others may have columns of the same
    names."""
    if not all(name in table.columns for name in PROPOSED):
        return False
    given = [str(reason) for reason in table.columns[REASON] if not is_missing(reason)]
    return all(reason.startswith((TYPICAL, UNSURE)) for reason in given)


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
    rows = [row for row in range(len(table)) if is_missing(guesses[row]) or not is_missing(values[row])]
    if not rows:
        raise DataError(
            f"{table.source}: no row has a label yet; write the class of each text into the column {column!r}"
        )
    if len(rows) < len(table):
        left_out = f"{len(table) - len(rows):,} of {counted(len(proposed), 'proposed row', form=',')}"
        say(f"{table.source}: left out {left_out}, whose {column} is empty")
    before = set(label_texts(value for value, guess in zip(values, guesses, strict=True) if is_missing(guess)))
    for label, number in Counter(label_texts(values[row] for row in proposed)).items():
        if before and label not in before:
            what = did_you_mean(label, sorted(before)) or "; is it a new class?"
            say(
                f"warning: {table.source}: {shown(label)} is the label of {counted(number, 'proposed row', form=',')} "
                f"and of no row that was labelled before{what}"
            )
    return table.part(rows) if len(rows) < len(table) else table
