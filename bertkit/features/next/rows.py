"""The labelled rows of a run, and which of the unlabelled ones to label: uncertain, typical of many, and different.

The more uncertain half of the unlabelled rows is clustered by k-means, in as many clusters as rows are chosen, each row
with the weight ``1 − margin``, where the margin is that of the probabilities of the two most probable classes; of each
cluster, the row nearest to its center is chosen (Zhdanov 2019, arXiv:1901.05954). Compared with other ways in
benchmarks/NEXT.md.

Dimension letters: U unlabelled rows, L labelled rows, D numbers of a vector, C classes, R rows to choose.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import PROPOSED, TYPICAL, UNLIKE, UNSURE, is_proposal
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.columns import text_columns as find_text_columns
from bertkit.data.tables.documents import is_document
from bertkit.data.tables.labels import named
from bertkit.data.tables.objects import kind_of_table, list_of_texts, table_of
from bertkit.data.tables.table import text_key
from bertkit.inference.inputs import read_inputs
from bertkit.metrics.ranking import unit
from bertkit.runtime.errors import DataError, RecipeError, quoted
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.paths import was_url
from bertkit.tasks.classification.task import ClassificationTask

_MOST = 20_000  # unlabelled rows that a model reads
_SEED = 0
_LEAST = 1e-6  # weight of a row
_CLUSTERED = 0.5  # part of the rows, the most uncertain ones, that are clustered
_UNSURE = 2 / 3  # probability of the guess below which a row is called unsure
_NEAR = 0.5  # part of the highest probability from which the third class is named too
_UNLIKE = 0.1  # share of the rows that are called unlike all labelled ones


def read_labelled(task: ClassificationTask) -> Table:
    """Returns the labelled rows of the training table of a run, those held out too, under the names of the training.

    Args:
        task: with the data of the run.

    Raises:
        DataError: they cannot be read, or have no such columns.
    """
    table = task.readable(task.data.tables(["train"])["train"])
    table.select(*task.settings.text_columns, str(task.settings.label_column))
    return table


def read_candidates(
    given: Any, task: ClassificationTask, text_columns: Sequence[str], known: Table | None
) -> tuple[Table, list[str]]:
    """Reads unlabelled rows, none of which has the text of another or of a labelled one.

    Args:
        given: a file, or a table or texts, as for `bertkit.propose_rows`.
        task: the task of the run.
        text_columns: names of the columns of texts in the file; none for those of the training.
        known: the labelled rows; None if they are not known.

    Returns:
        The rows, with the columns of texts under their names in training, and what was left out, a sentence each.

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
        names = {name: _find_free(name, table) if name in trained else name for name in table.columns}
        names |= zip(find_text_columns(table, text_columns), trained, strict=True)
        table = replace(table, columns={names[name]: values for name, values in table.columns.items()})
    label_column = str(task.settings.label_column)
    table = table.with_names([*trained, label_column])
    keys = _keys(task, table)
    seen = set() if known is None else set(_keys(task, known))
    labels: Sequence[Any] = [None] * len(table)
    if label_column in table.columns:
        labels = named(table, label_column).columns[label_column]  # the id -1 is a missing label
    counts = {"with a label": 0, "with the text of a labelled row": 0, "with the text of an earlier row": 0}
    with_label, like_labelled, like_earlier = counts
    kept: dict[tuple[str, ...], int] = {}
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if not is_missing(label):
            counts[with_label] += 1
        elif key in seen:
            counts[like_labelled] += 1
        elif key in kept:
            counts[like_earlier] += 1
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
    return table.part(rows), notes


def _read(given: Any, task: ClassificationTask) -> Table:
    """Reads a file, a table object or texts."""
    if kind_of_table(given) is not None:
        return table_of(given)
    if isinstance(given, str | Path):
        if was_url(given):
            raise DataError(f"--input {given}: is a URL; download the file, and give its path")
        if (path := Path(given)).is_dir() or is_document(path):
            what = "a folder" if path.is_dir() else "one text"
            raise DataError(f"--input {given}: is {what}; give a table, or a file with a text per line")
        source, found = str(given), list[str]()
        for block in read_inputs(path, sys.maxsize, may_be_empty=False):
            if isinstance(block.inputs, Table):
                return block.inputs
            found += block.inputs
    else:
        source, found = "the texts", list_of_texts(given)
    lines = [(number, line) for number, line in enumerate(found, 1) if line.strip()]
    rows = [task.read_input([line], number) for number, line in lines]  # which faults name
    columns = {name: [row[name][0] for row in rows] for name in task.settings.text_columns}
    return Table(columns, source, "", [number for number, _ in lines])


def _keys(task: ClassificationTask, table: Table) -> list[tuple[str, ...]]:
    return [text_key(texts) for texts in zip(*task.columns_of(table).values(), strict=True)]


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Returns the rows of a table without the columns of an earlier proposal; other columns named so are renamed."""
    names = {name: name for name in table.columns if name not in PROPOSED}
    if not is_proposal(table):
        names |= {name: _find_free(name, table) for name in PROPOSED if name in table.columns}
    return [{names[name]: table.columns[name][row] for name in names} for row in range(len(table))]


def _find_free(name: str, table: Table) -> str:
    """Returns the name of a column with ``input_`` before it, as often as no column has it."""
    while (name := f"input_{name}") in table.columns:
        pass
    return name


def with_equal_columns(rows: Sequence[Mapping[str, Any]], label: str) -> list[dict[str, Any]]:
    """Returns rows with the columns that any of them has, then the label and the columns of a proposal.

    >>> with_equal_columns([{"text": "a", "guess": "x"}, {"label": "y", "text": "b"}], "label")[1]
    {'text': 'b', 'label': 'y', 'guess': None, 'probability': None, 'reason': None}
    """
    last = [label, *PROPOSED]
    columns = [*dict.fromkeys(name for row in rows for name in row if name not in last), *last]
    return [{name: row.get(name) for name in columns} for row in rows]


# ---- selection of rows to label --------------------------------------------------------------------------------------


def margins(probabilities: np.ndarray) -> np.ndarray:
    """Returns by how much the most probable class is above the next one, (U,) in [0, 1]; of (U, C)."""
    if probabilities.shape[1] < 2:
        return np.ones(len(probabilities))
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def select_rows(
    probabilities: np.ndarray, vectors: np.ndarray, labelled: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses rows to label.

    Args:
        probabilities: (U, C).
        vectors: of the unlabelled rows, (U, D).
        labelled: vectors of the labelled rows, (L, D); L may be 0.
        number: R, at most U.

    Returns:
        The rows, (R,) int64, the most uncertain first; and the highest similarity of each of all rows to a labelled
        one, (U,) in [-1, 1], which is -1 without labelled ones.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    vectors, known = unit(vectors), unit(labelled)
    similarities = (vectors @ known.T).max(axis=1) if len(known) else np.full(len(vectors), -1.0)
    weights = np.maximum(1 - margins(probabilities), _LEAST)
    order = np.argsort(-weights, kind="stable")
    clustered = order[: max(2 * number, int(_CLUSTERED * len(order)))]
    chosen = clustered
    if number < len(clustered):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of copies
            found = KMeans(number, n_init=1, random_state=0).fit(vectors[clustered], sample_weight=weights[clustered])
        distances = ((vectors[clustered] - found.cluster_centers_[found.labels_]) ** 2).sum(axis=1)
        nearest = np.lexsort((distances, found.labels_))  # to its center, in each cluster
        chosen = clustered[nearest[np.unique(found.labels_[nearest], return_index=True)[1]]]
    # Copies of a vector leave clusters empty: the most uncertain of the other rows come in their place.
    others = order[~np.isin(order, chosen)][: number - len(chosen)]
    return order[np.isin(order, [*chosen, *others])], similarities


def reasons(probabilities: np.ndarray, similarities: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> list[str]:
    """Returns in words why each of some rows is worth a label.

    Args:
        probabilities: (U, C).
        similarities: of each unlabelled row to the labelled one that is most like it, (U,).
        rows: the chosen ones, (R,).
        names: names of the C classes.
    """
    far = np.quantile(similarities, _UNLIKE)
    every = []
    for row in rows:
        chances = probabilities[row]
        order = np.argsort(-chances, kind="stable")
        first = float(chances[order[0]])
        between = [names[each] for each in order[:3] if chances[each] >= _NEAR * first]
        if first >= _UNSURE or len(names) < 2:
            doubt = TYPICAL
        elif len(between) > 2:
            doubt = f"{UNSURE}among {', '.join(between[:-1])} and {between[-1]}"
        else:
            doubt = f"{UNSURE}between {names[order[0]]} and {names[order[1]]}"
        every.append(f"{doubt}; {UNLIKE}" if similarities[row] < far else doubt)
    return every
