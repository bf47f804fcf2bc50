"""Folds of a training set: the classes and the groups of a task that they respect, and the splits that they make."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.folds import assign_folds, joined
from bertkit.data.tables.table import copies_in_words, numbered, same_texts
from bertkit.runtime.errors import DataError, did_you_mean, raise_listed
from bertkit.runtime.progress import counted
from bertkit.tasks.base import AnyTask, Task, texts_of
from bertkit.tasks.splits import Split, is_labelled

if TYPE_CHECKING:
    from datasets import Dataset

    from bertkit.tasks.splits import Columns

_ROWS_AT_ONCE = 1000  # whose texts are in memory
_USUAL_FOLDS = 5
MOST_ROWS = 1000
"""Training rows up to which a table has few: all are scored by folds if there is no validation set."""


@singledispatch
def strata(task: Task, examples: Dataset) -> Sequence[Any] | None:
    """Returns the label of each example, for folds with the same shares of them; ``None`` if there are none.

    By default those of the column ``labels``: a class or a number, or the set of several, such as the tags of a
    sentence. A kind of task with other labels registers its own function.
    """
    labels = examples["labels"][:] if "labels" in examples.column_names else []
    if not labels or not all(isinstance(label, int | float | list) for label in labels):
        return None
    found: list[Any] = []
    for label in labels:
        if isinstance(label, list) and any(isinstance(each, float) for each in label):  # 0 or 1 for each class
            label = {place for place, each in enumerate(label) if each == 1}
        elif isinstance(label, list):  # ids of tags
            label = {each for each in label if isinstance(each, int)}
        found.append(label)
    return found


@singledispatch
def groups(task: Task, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the group of each training example, which stays in one fold: its value in ``data.group_column``, or a
    value that the task knows, such as a query. None: examples are independent.

    Raises:
        DataError: the column does not exist, or has no value for an example.
    """
    column, known = task.data.group_column, examples.column_names
    if column is None:
        return None
    if column not in known:
        raise DataError(
            f"data.group_column: the training data of {task.name} have no column {column!r}; expected one of "
            f"{', '.join(known)}{did_you_mean(column, known)}"
        )
    values = examples[column][:]
    missing = [number for number, value in enumerate(values, start=1) if is_missing(value)]
    raise_listed([f"{task.name}: training example {number}: no value for {column!r}" for number in missing])
    return list(map(str, values))


def text_numbers(task: Task, examples: Any) -> np.ndarray:
    """Returns the number of the text of each example, (N,) int64, the same for copies: see `bertkit.data.tables.table`.

    Examples of a task without texts have a number each.
    """

    def texts() -> Iterator[tuple[str, ...]]:
        for start in range(0, len(examples), _ROWS_AT_ONCE):
            rows: Columns = examples[start : start + _ROWS_AT_ONCE]
            yield from zip(*texts_of(task, rows).values(), strict=True)

    numbers = same_texts(texts())
    return numbers if len(numbers) == len(examples) else np.arange(len(examples))


def units(task: Task, examples: Dataset) -> np.ndarray:
    """Returns the number of the unit of each example, (N,) int64: examples with the same text, and those of one of
    `groups`, depend on each other."""
    texts, of_groups = text_numbers(task, examples), groups(task, examples)
    return texts if of_groups is None else joined(texts, numbered(of_groups))


def fold_of_each(task: Task, examples: Dataset) -> tuple[np.ndarray, str]:
    """Returns the fold of each training example, the same for the same data and ``data.split_seed``.

    The folds have about the same size and the same shares of `strata`. Examples with the same text, and those of one of
    `groups`, are in one fold.

    Returns:
        The folds, (N,) int64, and words on copies; empty without any.

    Raises:
        DataError: there are fewer different texts or groups than folds, or no such column of groups.
    """
    column, texts = task.data.group_column, text_numbers(task, examples)
    labels, of_groups = strata(task, examples), groups(task, examples)
    folds = assign_folds(
        int(task.data.folds or 0),
        seed=task.data.split_seed,
        texts=texts,
        labels=labels,
        groups=of_groups,
        of_groups="" if column is None else f"in {column}",
    )
    return folds, copies_in_words(texts, "example", "copies are in one fold")


def load_splits(task: AnyTask, splits: Sequence[str] | None = None) -> tuple[AnyTask, dict[str, Split]]:
    """Reads splits of a task's data set as `Task.load` does, divided into folds if ``data.fold`` is set.

    Then ``validation`` is fold ``data.fold`` of the training set, and ``train`` the rest of it. The validation sets of
    the data are not read. If all rows are scored by folds, ``validation`` has all of them, as ``train``.

    Raises:
        DataError: as `Task.load`; or the training set has too few examples or groups for the folds.
    """
    if not task.data.folds:
        return task.load(splits)
    names = list(task.splits) if splits is None else list(splits)
    tests = [name for name in task.splits if name in names and not is_labelled(name)]
    task, loaded = task.load(["train", *tests])
    train = loaded["train"]
    folds, copies = fold_of_each(task, train.examples)
    if task.data.scores_all_rows:
        loaded["validation"] = scored_by_folds(task, train, copies)
    else:
        held_out = folds == task.data.fold
        note = (
            f"fold {task.data.fold} of {task.data.folds} of {train.source}, {int(held_out.sum())} of {len(held_out)} "
            f"examples, drawn with data.split_seed {task.data.split_seed}"
        )
        # What is said and doubted of the table stays with the training set, and is not repeated.
        scored = replace(train, notes=(f"{note}; {copies}" if copies else note,), doubts={}, labels="")
        loaded["train"] = train.select(np.flatnonzero(~held_out))
        loaded["validation"] = task.data.limited("validation", scored.select(np.flatnonzero(held_out)))
    return task, {name: loaded[name] for name in names if name in loaded}


def scored_by_folds(task: Task, train: Split, copies: str) -> Split:
    """Returns the training set as examples to score, each by that of ``data.folds`` models which has not seen it.

    ``copies`` are words of `fold_of_each`, for the note on the split.
    """
    note = (
        f"all {counted(len(train.examples), 'row', form=',')}, each scored by one of {task.data.folds} models that are "
        f"trained on the other folds, drawn with data.split_seed {task.data.split_seed}"
    )
    notes = (f"{note}; {copies}" if copies else note,)
    return replace(train, notes=notes, doubts={}, labels="")


def number_of_folds(task: Task, train: Split) -> int:
    """Returns how many folds score a training set: ``data.folds`` if it is set.

    Otherwise 0 for a large one, for one without the column ``labels`` or with too few texts to divide, and for classes
    of one row each, which no model of a fold could know.
    """
    if task.data.folds:
        return int(task.data.folds)
    if len(train.examples) > MOST_ROWS or "labels" not in train.examples.column_names:
        return 0
    labels = train.examples["labels"][:]
    if isinstance(labels[0], int) and len(set(labels)) == len(labels):
        return 0
    return _USUAL_FOLDS if int(text_numbers(task, train.examples).max(initial=-1)) + 1 >= 2 * _USUAL_FOLDS else 0
