"""What a fine-tuning does before its first step: rows of a class are drawn together, and the head becomes a line."""

from __future__ import annotations

from typing import Any

import numpy as np

from bertkit.errors import RecipeError
from bertkit.progress import counted, say
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import CONTRAST, HEAD
from bertkit.tasks.base import Task, head_name
from bertkit.training.contrast import contrast
from bertkit.training.heads import find_head, read_vectors, standardize, write_line
from bertkit.training.linear_head import fit_by_folds
from bertkit.training.trainer import BertkitTrainer

_HEADS = ("BertForSequenceClassification", "BertForTokenClassification")
_BATCH = 64  # rows whose vectors are computed at once
_FOLDS = 5


def exclusive_classes(task: Task) -> int:
    """Returns the number of classes of which each text has one; 0 for tasks with other labels or heads."""
    if head_name(task) != _HEADS[0] or task.label_columns != ("labels",):
        return 0
    config = task.config()
    is_exclusive = config.get("problem_type") == "single_label_classification"
    return len(config.get("id2label") or ()) if is_exclusive else 0


def check_warm_start(recipe: Recipe, task: Task) -> None:
    """Checks that a task has a head that can start from a linear probe, if the recipe asks for one.

    Raises:
        RecipeError: it has not, or the labels are no exclusive classes of texts, which a contrast needs.
    """
    asked = [key for key in (HEAD, CONTRAST) if recipe.train.get(key) not in (None, "random", 0)]
    if asked and (head_name(task) not in _HEADS or task.label_columns != ("labels",)):
        raise RecipeError(f"recipe {recipe.name}: train.{asked[0]}: {task.kind} has no head of classes; remove it")
    if CONTRAST in asked and not exclusive_classes(task):
        raise RecipeError(
            f"recipe {recipe.name}: train.{CONTRAST}: needs one class for each text, by which rows are drawn together; "
            "remove it"
        )


def warm_start(trainer: BertkitTrainer, recipe: Recipe) -> None:
    """Trains the encoder by contrast, and writes a linear probe into the head, as far as the recipe asks for it.

    Args:
        trainer: the trainer of a run before its first step.
        recipe: the recipe of the run, which `check_warm_start` accepts.
    """
    steps = int(recipe.train.get(CONTRAST) or 0)
    if recipe.train.get(HEAD) != "probe":
        return
    model, rows, collate = trainer.model, trainer.train_dataset, trainer.data_collator
    shortest = np.argsort(np.asarray(rows["length"][:]), kind="stable")[:2]
    sample = {name: each.to(model.device) for name, each in collate([rows[int(row)] for row in shortest]).items()}
    sample.pop("labels")
    head = find_head(model, sample)
    labels = rows["labels"][:]
    if steps and (classes := _classes_to_compare(np.asarray(labels))) is not None:
        contrast(
            model,
            head.reads,
            rows,
            classes,
            collate,
            steps=steps,
            size=int(recipe.train["global_train_batch_size"]),
            optimizer=trainer.create_optimizer(),
            seed=int(recipe.train["seed"]),
            precision=trainer.autocast_smart_context_manager,
        )
        trainer.optimizer = None  # the training begins with one of its own
    if head.dense is not None:
        vectors, _ = read_vectors(model, head.dense, rows, collate, _BATCH, trainer.progress.what)
        standardize(head, vectors)
    vectors, items = read_vectors(model, head.classifier, rows, collate, _BATCH, trainer.progress.what)
    folds = np.random.default_rng(0).permutation(len(labels))[items] % min(_FOLDS, len(labels))
    line, _ = fit_by_folds(vectors, _targets(labels, model.config.problem_type), folds, head.classifier.out_features)
    write_line(head, line)
    say(
        f"head: a linear probe of {counted(len(vectors), 'vector', form=',')}, fitted with a penalty of "
        f"{line.strength:g}" + (f" after {counted(steps, 'step')} of contrast" if steps else "")
    )


def _classes_to_compare(classes: np.ndarray) -> np.ndarray | None:
    """Returns the classes of the rows, (N,); None if fewer than two classes have two rows."""
    _, counts = np.unique(classes, return_counts=True)
    return classes if np.count_nonzero(counts > 1) > 1 else None


def _targets(labels: list[Any], problem: str | None) -> np.ndarray:
    """Returns the labels of all items: one of C classes, (I,) int64; several of C labels, (I, C); or numbers, (I,)."""
    if problem == "multi_label_classification":
        return np.asarray(labels).reshape(len(labels), -1)
    first = labels[0]
    if isinstance(first, list) and not isinstance(first[0], float):  # words
        return np.asarray([label for row in labels for label in row if label >= 0], dtype=np.int64)
    return np.asarray(labels)
