"""The labelled rows of a run, and the unlabelled ones that are worth a look."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.labels import labelled
from bertkit.data.tables.objects import kind_of_table, table_of
from bertkit.data.tables.proposed import PROPOSED, answered, is_proposal
from bertkit.data.tables.table import text_key
from bertkit.inference.inputs import list_of_texts, read_inputs
from bertkit.runtime.errors import DataError, RecipeError, quoted
from bertkit.runtime.progress import counted
from bertkit.tasks.classification.task import ClassificationTask

_MOST = 20_000  # unlabelled rows that a model reads
_SEED = 0


@dataclass(frozen=True)
class Candidates:
    """Unlabelled rows, none of which has the text of another or of a labelled one.

    Attributes:
        table: the rows, with the columns of texts under their names in training.
        notes: what was left out.
    """

    table: Table
    notes: list[str]


def read_labelled(task: ClassificationTask) -> Table:
    """Returns the rows that a run was trained on, with the columns under their names in training.

    Args:
        task: with the data of the run.

    Raises:
        DataError: they cannot be read, or have no such columns.
    """
    column = str(task.settings.label_column)
    table = task.data.tables(["train"])["train"].with_names([*task.settings.text_columns, column])
    table.select(*task.settings.text_columns)
    return labelled(answered(table, column), column)


def read_candidates(
    given: Any, task: ClassificationTask, text_columns: Sequence[str], known: Table | None
) -> Candidates:
    """Reads unlabelled rows.

    Args:
        given: a file, or a table or texts, as for `bertkit.propose_rows`.
        task: the task of the run.
        text_columns: names of the columns of texts in the file; none for those of the training.
        known: the labelled rows; None if they are not known.

    Raises:
        DataError: the rows cannot be read, or none is left.
        RecipeError: there are not as many columns as the task has.
    """
    trained = task.settings.text_columns
    table = _read(given, task)
    if text_columns:
        if len(text_columns) != len(trained):
            raise RecipeError(
                f"--text-column: expected {len(trained)}, as in training ({quoted(trained)}), got {len(text_columns)}"
            )
        table.select(*text_columns)
        names = dict(zip(text_columns, trained, strict=True))
        table = replace(table, columns={names.get(name, name): values for name, values in table.columns.items()})
    table = table.with_names([*trained, str(task.settings.label_column)])
    keys = _keys(task, table)
    seen = set() if known is None else set(_keys(task, known))
    labels = table.columns.get(str(task.settings.label_column), [None] * len(table))
    counts = {"with a label": 0, "with the text of a labelled row": 0, "with the text of an earlier row": 0}
    has_label, is_labelled, is_copy = counts
    kept: dict[tuple[str, ...], int] = {}
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        reason = "" if is_missing(label) else has_label
        reason = reason or (is_labelled if key in seen else is_copy if key in kept else "")
        if reason:
            counts[reason] += 1
        else:
            kept[key] = row
    notes = [
        f"{table.source}: left out {counted(number, 'row', form=',')} {reason}"
        for reason, number in counts.items()
        if number
    ]
    rows = list(kept.values())
    if not rows:
        raise DataError("\n".join([*notes, f"{table.source}: no unlabelled row is left; give others"]))
    if len(rows) > _MOST:
        notes.append(f"{table.source}: {_MOST:,} of {len(rows):,} rows are looked at, drawn at random")
        rows = np.sort(np.random.default_rng(_SEED).permutation(rows)[:_MOST]).tolist()
    return Candidates(table.part(rows), notes)


def _read(given: Any, task: ClassificationTask) -> Table:
    """Reads a file, a table object or texts."""
    if kind_of_table(given) is not None:
        return table_of(given)
    if isinstance(given, str | Path):
        if Path(given).is_dir():
            raise DataError(f"--input {given}: is a folder; give a table, or a file with a text per line")
        source, found = str(given), list[str]()
        for block in read_inputs(Path(given), sys.maxsize, may_be_empty=False):
            if isinstance(block.inputs, Table):
                return block.inputs
            found += block.inputs
    else:
        source, found = "the texts", list_of_texts(given)
    lines = [(number, line) for number, line in enumerate(found, 1) if line.strip()]
    columns = task.read_input([line for _, line in lines])
    return Table(columns, source, "", [number for number, _ in lines])


def _keys(task: ClassificationTask, table: Table) -> list[tuple[str, ...]]:
    return [text_key(texts) for texts in zip(*task.columns_of(table).values(), strict=True)]


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Returns the rows of a table without the columns of an earlier proposal; other columns named so are renamed."""
    names = {name: name for name in table.columns if name not in PROPOSED}
    if not is_proposal(table):
        for name in table.columns:
            if name in PROPOSED:
                free = f"input_{name}"
                while free in table.columns:
                    free = f"input_{free}"
                names[name] = free
    return [{names[name]: table.columns[name][row] for name in names} for row in range(len(table))]


def with_equal_columns(rows: Sequence[Mapping[str, Any]], label: str) -> list[dict[str, Any]]:
    """Returns rows with the columns that any of them has, then the label and the columns of a proposal.

    >>> with_equal_columns([{"text": "a", "guess": "x"}, {"label": "y", "text": "b"}], "label")[1]
    {'text': 'b', 'label': 'y', 'guess': None, 'probability': None, 'reason': None}
    """
    last = [label, *PROPOSED]
    columns = [*dict.fromkeys(name for row in rows for name in row if name not in last), *last]
    return [{name: row.get(name) for name in columns} for row in rows]
