"""Folds of a training set for cross-validation: the classes and the groups that they respect."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from bertkit.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset

    from bertkit.tasks.base import Task


@singledispatch
def strata(task: Task, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the class of each example, for folds with the same shares of classes; ``None`` if there are none.

    By default the integers of the column ``labels``. A kind of task with other classes registers its own function.
    """
    labels = examples["labels"][:] if "labels" in examples.column_names else []
    return labels if labels and all(isinstance(label, int) for label in labels) else None


@singledispatch
def groups(task: Task, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the group of each training example, which stays in one fold: its value in ``data.group_column``, or a
    value that the task knows, such as a query. None: examples are independent.

    Raises:
        DataError: the column does not exist.
    """
    column, known = task.data.group_column, examples.column_names
    if column is None:
        return None
    if column not in known:
        raise DataError(
            f"data.group_column: the training data of {task.name} have no column {column!r}; expected one of "
            f"{', '.join(known)}{did_you_mean(column, known)}"
        )
    return list(map(str, examples[column][:]))


def fold_of_each(task: Task, examples: Dataset) -> np.ndarray:
    """Returns the fold of each training example, (N,) int64: the same for the same data and ``data.split_seed``.

    The folds have about the same size and the same shares of the classes of `strata`. All examples of one of `groups`
    are in one fold.

    Raises:
        DataError: there are fewer examples or groups than folds.
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    number, rows, group_of_each = int(task.data.folds or 0), len(examples), groups(task, examples)
    of_column = "" if task.data.group_column is None else f" in {task.data.group_column}"
    units = rows if group_of_each is None else len(set(group_of_each))
    if units < number:
        what = "training examples" if group_of_each is None else f"groups{of_column}"
        raise DataError(f"data.folds: {number} folds of {units} {what}; give at most {units}")
    classes = strata(task, examples)
    if classes is not None and max(Counter(classes).values()) < number:
        classes = None  # scikit-learn refuses folds of classes that are all smaller
    if classes is not None:
        kind = StratifiedKFold if group_of_each is None else StratifiedGroupKFold
    else:
        kind = KFold if group_of_each is None else GroupKFold
    folds = kind(number, shuffle=True, random_state=task.data.split_seed)
    found = np.zeros(rows, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # it is missing from some folds
        for fold, (_, held_out) in enumerate(folds.split(np.zeros(rows), classes, group_of_each)):
            found[held_out] = fold
    if len(np.unique(found)) < number:  # groups of very different sizes
        raise DataError(f"data.folds: the groups{of_column} do not fill {number} folds; give fewer")
    return found
