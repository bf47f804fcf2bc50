"""Labels that a person gives to the proposed rows of a file, which is complete after each of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from bertkit.data.tables import read_table
from bertkit.data.tables.annotated import GUESS, PROPOSED, is_proposal
from bertkit.data.tables.classes import class_names, is_missing, label_texts, names_of_labels
from bertkit.data.tables.columns import text_columns
from bertkit.data.tables.table import Table, existing_column, matching, to_number
from bertkit.features.next.writing import check_form, write_label
from bertkit.runtime.errors import DataError, OutputError, shown
from bertkit.runtime.files import remove_unfinished


class Answers:
    """The proposed rows of a file, and their labels.

    Attributes:
        path: the file.
        label: column of the labels.
        texts: columns of the texts.
        others: other columns of the input.
        rows: numbers of the proposed rows in the table.
        classes: names of the classes, those that came up in answers last, so that the others keep their keys.
        version: number that each change of labels increases.

    Args:
        file: a file of `bertkit.propose_rows`.
        label_column: column of the labels; None for the one before the guesses.
        texts: columns of the texts; none for those of usual names.

    Raises:
        DataError: the file cannot be read, has no proposed rows, or it is unclear which columns are meant.
        OutputError: its form is none that can be written.
    """

    def __init__(self, file: str | Path, label_column: str | None = None, texts: Sequence[str] = ()):
        self.path = Path(os.path.expanduser(file))  # as `read_table` does
        self.version = 0
        self._asked = label_column, texts
        if self.path.is_dir():
            raise DataError(f"{file}: is a folder; give a file that `bertkit next` has written")
        check_form(self.path, str(file))
        self.read()
        folder = self.path.resolve().parent
        remove_unfinished(folder, folder.name)  # left by a killed page

    def read(self) -> None:
        """Reads the file again; earlier answers cannot be undone then. Raises DataError as the class does."""
        content = _digest(self.path)  # before the table, so that a change in between is seen later
        table = read_table(self.path)
        if not is_proposal(table):
            raise DataError(
                f"{self.path}: lacks the columns {', '.join(PROPOSED)} of rows to label; give a file that `bertkit "
                "next` has written"
            )
        self.label = _find_label_column(table, self._asked[0])
        _check_not_proposed(table, "--text-column", self._asked[1])
        own = {name: values for name, values in table.columns.items() if name not in PROPOSED}
        self.texts = text_columns(replace(table, columns=own), self._asked[1], self.label)
        self.others = [name for name in table.columns if name not in (*self.texts, self.label, *PROPOSED)]
        self.rows = [row for row, guess in enumerate(table.columns[GUESS]) if not is_missing(guess)]
        if not self.rows:
            raise DataError(f"{self.path}: has no rows to label: its column {GUESS!r} is empty")
        labels = list(table.columns[self.label])
        self._table = replace(table, columns={**table.columns, self.label: labels})
        self._labels, self._content = labels, content
        self._history: list[tuple[int, Any]] = []
        proposed = {*self.rows}
        before = [value for row, value in enumerate(labels) if row not in proposed]
        self._names = names = names_of_labels([*labels, *table.columns[GUESS]])
        given = filter(None, map(self.label_of, range(len(self))))
        self.classes = list(dict.fromkeys([*class_names([*before, *table.columns[GUESS]]), *given]))
        self._values = {names[str(value)]: value for value in labels if str(value) in names}
        self.version += 1

    def __len__(self) -> int:
        """Returns the number of proposed rows."""
        return len(self.rows)

    def value(self, number: int, column: str) -> Any:
        """Returns what a proposed row, from 0, has in a column."""
        return self._table.columns[column][self.rows[number]]

    def label_of(self, number: int) -> str:
        """Returns the label of a proposed row, from 0; empty if it has none."""
        text = next(label_texts([self._labels[self.rows[number]]]), "")
        return self._names.get(text, text)

    def guess_of(self, number: int) -> dict[str, str]:
        """Returns the guess for a proposed row, its probability in words and the reason; nothing behind the last."""
        if number >= len(self):
            return {}
        guess, probability, reason = (self.value(number, name) for name in PROPOSED)
        share = f" ({100 * to_number(probability):.0f} %)" if isfinite(to_number(probability)) else ""
        return {"name": str(guess), "share": share, "reason": "" if is_missing(reason) else str(reason)}

    @property
    def answered(self) -> int:
        """Number of proposed rows that have a label."""
        return sum(bool(self.label_of(number)) for number in range(len(self)))

    @property
    def can_undo(self) -> bool:
        """True if an answer can be taken back."""
        return bool(self._history)

    def next_open(self, start: int = 0) -> int:
        """Returns the first proposed row from ``start`` on that has no label; the number of rows if all have one."""
        return next((number for number in range(start, len(self)) if not self.label_of(number)), len(self))

    def has_changed(self) -> bool:
        """Returns whether another program has changed the file, or removed it."""
        return _digest(self.path) != self._content

    def answer(self, number: int, label: str) -> None:
        """Gives a proposed row a label, and writes the file.

        Args:
            number: the row, from 0.
            label: a class, in any case and with any white space; or a new class.

        Raises:
            DataError: the label is empty.
            OutputError: the file has changed meanwhile, or cannot be written; the label is not given then.
        """
        name = " ".join(label.split())
        if is_missing(name):
            raise DataError("a class needs a name")
        same = [each for each in self.classes if " ".join(each.split()).casefold() == name.casefold()]
        name = next((each for each in (label, name, *same) if each in self.classes), name)
        before = self._labels[self.rows[number]]
        self._write(number, self._values.get(name, name))
        self._history.append((number, before))
        if name not in self.classes:
            self.classes.append(name)

    def undo(self) -> int:
        """Takes back the last answer, writes the file, and returns the row. Raises OutputError as `answer`."""
        number, before = self._history[-1]
        self._write(number, before)
        self._history.pop()
        return number

    def _write(self, number: int, value: Any) -> None:
        if self.has_changed():
            raise OutputError(f"{self.path}: another program has changed it, so this was not saved")
        row = self.rows[number]
        before, self._labels[row] = self._labels[row], value
        try:
            write_label(self.path, self._table, row, self.label)
        except OutputError:
            self._labels[row] = before
            raise
        self._content = _digest(self.path)
        self.version += 1


def _find_label_column(table: Table, asked: str | None) -> str:
    """Returns the column of the labels: as asked, or the one before the guesses, where `bertkit next` writes it."""
    names = list(table.columns)
    if asked is None:
        place = names.index(GUESS)
        if place == 0 or names[place - 1] in PROPOSED:
            raise DataError(f"{table.source}: there is no column of labels before {GUESS!r}; give --label-column NAME")
        return names[place - 1]
    _check_not_proposed(table, "--label-column", [asked])
    found = existing_column(asked, names, table.source, "--label-column")
    guesses = table.columns[GUESS]
    pairs = zip(table.columns[found], guesses, strict=True)
    values = list(label_texts(value for value, guess in pairs if not is_missing(guess)))
    if len({*values}) == len(values) > 1 and {*values}.isdisjoint(label_texts(guesses)):
        raise DataError(
            f"{table.source}: --label-column {asked}: this column has other values than classes, such as "
            f"{shown(values[0])}; answers would overwrite them"
        )
    return found


def _check_not_proposed(table: Table, option: str, asked: Sequence[str]) -> None:
    for name in asked:
        if matching(name, list(table.columns)) in PROPOSED:
            raise DataError(f"{table.source}: {option} {name}: `bertkit next` writes this column itself; give another")


def _digest(path: Path) -> bytes:
    """Returns the SHA-256 of a file; empty if it cannot be read."""
    try:
        return sha256(path.read_bytes()).digest()
    except OSError:
        return b""
