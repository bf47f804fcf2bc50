"""Cross-validation: one fold of the training set is the validation set of a run, the others are trained on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bertkit.errors import DataError, did_you_mean
from bertkit.tasks.splits import Split, is_scored

if TYPE_CHECKING:
    from datasets import Dataset

    from bertkit.tasks.base import Task

AnyTask = TypeVar("AnyTask", bound="Task")


def load_splits(task: AnyTask, splits: Sequence[str] | None = None) -> tuple[AnyTask, dict[str, Split]]:
    """Reads splits of a task's data set as `Task.load` does, divided into folds if ``data.folds`` is set.

    Then ``validation`` is fold ``data.fold`` of the training set, and ``train`` the rest of it. The validation sets of
    the data are not read.

    Raises:
        DataError: as `Task.load`; or the training set has too few examples or groups for the folds.
    """
    if task.data.folds is None:
        return task.load(splits)
    wanted = list(task.splits) if splits is None else list(splits)
    task, found = task.load([name for name in ("train", *task.splits) if name == "train" or _is_read(name, wanted)])
    train = found["train"]
    held_out = fold_of_each(task, train.examples) == task.data.fold
    note = (
        f"fold {task.data.fold} of {task.data.folds} of {train.source}, {int(held_out.sum())} of {len(held_out)} "
        f"examples, drawn with data.split_seed {task.data.split_seed}"
    )
    validation = replace(train, examples=train.examples.select(np.flatnonzero(held_out)), notes=(note,), labels="")
    found["train"] = replace(train, examples=train.examples.select(np.flatnonzero(~held_out)))
    found["validation"] = task.data.limited("validation", validation)
    return task, {name: found[name] for name in wanted if name in found}


def _is_read(name: str, wanted: Sequence[str]) -> bool:
    return name in wanted and name != "train" and not is_scored(name)


@singledispatch
def strata(task: Task, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the class of each example, for folds with the same shares of classes; ``None`` if there are none.

    By default the integers of the column ``labels``. A kind of task with other classes registers its own function.
    """
    labels = examples["labels"][:] if "labels" in examples.column_names else []
    return labels if labels and all(isinstance(label, int) for label in labels) else None


@singledispatch
def groups(task: Task, examples: Dataset) -> Sequence[Hashable]:
    """Returns the group of each training example, its value in ``data.group_column``; a group stays in one fold.

    Raises:
        DataError: the column does not exist.
    """
    column = str(task.data.group_column)
    known = examples.column_names
    if column not in known:
        raise DataError(
            f"data.group_column: the training data of {task.name} have no column {column!r}; expected one of "
            f"{', '.join(known)}{did_you_mean(column, known)}"
        )
    return list(map(str, examples[column][:]))


def fold_of_each(task: Task, examples: Dataset) -> np.ndarray:
    """Returns the fold of each training example, (N,) int64: the same for the same data and ``data.split_seed``.

    The folds have about the same size and the same shares of the classes of `strata`. With ``data.group_column``
    all examples of a group are in one fold.

    Raises:
        DataError: there are fewer examples or groups than folds.
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    number, rows = int(task.data.folds or 0), len(examples)
    grouped = task.data.group_column is not None
    group_of_each = groups(task, examples) if grouped else None
    units = len(set(group_of_each)) if group_of_each is not None else rows
    if units < number:
        what = f"groups in {task.data.group_column}" if grouped else "training examples"
        raise DataError(f"data.folds: {number} folds of {units} {what}; give at most {units}")
    classes = strata(task, examples)
    if classes is not None and max(Counter(classes).values()) < number:
        classes = None  # scikit-learn refuses folds of classes that are all smaller
    if classes is not None:
        kind = StratifiedGroupKFold if grouped else StratifiedKFold
    else:
        kind = GroupKFold if grouped else KFold
    folds = kind(number, shuffle=True, random_state=task.data.split_seed)
    found = np.zeros(rows, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # it is missing from some folds
        for fold, (_, held_out) in enumerate(folds.split(np.zeros(rows), classes, group_of_each)):
            found[held_out] = fold
    if len(np.unique(found)) < number:  # groups of very different sizes
        raise DataError(f"data.folds: the groups of {task.data.group_column} do not fill {number} folds; give fewer")
    return found
