"""Preparation of a fine-tuning before its first step: texts of pairs read apart, contrast, a head from a probe."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel

from bertkit.data.tables.table import numbered
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import CONTRAST, HEAD, PAIRS
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted, say
from bertkit.tasks.base import Task, head_name, texts_of
from bertkit.tasks.splits import ColumnsOf
from bertkit.training.schedule import MANY_CLASSES
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.warm_start.contrast import can_contrast, contrast
from bertkit.training.warm_start.heads import Head, find_head, read_vectors, standardize, write_line
from bertkit.training.warm_start.linear_head import fit_by_folds, fit_head, folds_to_fit
from bertkit.training.warm_start.pairs import PAIRS_OF_BATCH, learn_from_texts_apart, means_of_texts

_HEADS = ("BertForSequenceClassification", "BertForTokenClassification")
_CONTRASTED = ("single_label_classification", "multi_label_classification")
_BATCH = 64  # rows whose vectors are computed at once
_MOST_PROBED = 10_000  # rows that the probe is fitted to; those of many labels take long, and training sees them all
# Penalty of a probe of vectors that know the classes, of which folds say nothing. Models of folds and that of the run
# have logits of like size with it, so that the temperature of the one is that of the other.
_STRENGTH = 1.0
_LEAST_COMPARED = 16  # rows of a batch of contrast; twice as many were no better, and took twice the time


def problem_of(task: Task) -> str:
    """Returns the ``problem_type`` of a task whose texts have classes, labels or a number, such as a relevance; empty
    for other tasks."""
    if head_name(task) != _HEADS[0] or task.label_columns != ("labels",):
        return ""
    return str(task.config().get("problem_type") or "")


def has_exclusive_classes(task: Task) -> bool:
    """Returns whether each text of a task has one class."""
    return problem_of(task) == "single_label_classification"


def has_pairs(task: Task) -> bool:
    """Returns whether a task labels pairs of texts, of the kinds of `problem_of`."""
    return bool(problem_of(task)) and len(getattr(task.settings, "text_columns", ())) == 2


def has_words(task: Task) -> bool:
    """Returns whether a task gives each word one of some classes."""
    return head_name(task) == _HEADS[1] and task.label_columns == ("labels",)


def check_warm_start(recipe: Recipe, task: Task) -> None:
    """Checks that a task has a head that can start from a linear probe, if the recipe asks for one.

    Raises:
        RecipeError: it has not, or the texts have neither classes nor labels, which a contrast needs, or are no pairs;
            or the run has a teacher.
    """
    asked = [key for key in (HEAD, PAIRS, CONTRAST) if recipe.train.get(key) not in (None, "random", 0)]
    if asked and (head_name(task) not in _HEADS or task.label_columns != ("labels",)):
        raise RecipeError(f"recipe {recipe.name}: train.{asked[0]}: {task.kind} has no head of classes; remove it")
    if asked and recipe.has_teacher:
        raise RecipeError(f"recipe {recipe.name}: train.{asked[0]}: does not go with a teacher; remove one of both")
    if CONTRAST in asked and problem_of(task) not in _CONTRASTED:
        raise RecipeError(
            f"recipe {recipe.name}: train.{CONTRAST}: needs classes of texts, which draw rows together; remove it"
        )
    if PAIRS in asked and not has_pairs(task):
        raise RecipeError(f"recipe {recipe.name}: train.{PAIRS}: is for pairs of texts of a table; remove it")


def read_texts_apart(trainer: BertkitTrainer, recipe: Recipe, task: Task, examples: Any) -> None:
    """Teaches the encoder what the two texts of a pair tell that are read apart, if the recipe asks for it.

    No label is read, so that the models of folds can all begin with these weights.

    Args:
        trainer, recipe, task, examples: as for `warm_start`.
    """
    steps = int(recipe.train.get(PAIRS) or 0)
    if not steps:
        return
    if _is_frozen(trainer.model):
        say("texts apart: no steps, since the encoder is frozen")
        return
    losses = learn_from_texts_apart(
        trainer.model,
        _head_of(trainer).reads,
        list(texts_of(task, ColumnsOf(examples)).values()),
        trainer.processing_class,
        longest=recipe.data.max_seq_length,
        steps=steps,
        at_once=min(PAIRS_OF_BATCH, trainer.args.per_device_train_batch_size),
        optimizer=trainer.create_optimizer(),
        seed=int(recipe.train["seed"]),
        precision=trainer.autocast,
    )
    trainer.optimizer = None  # what follows begins with one of its own
    if len(losses):
        say(f"texts apart: {counted(steps, 'step')} taught what each text of a pair tells by itself")
    else:
        say("texts apart: no steps, since all texts are alike")


def warm_start(trainer: BertkitTrainer, recipe: Recipe, task: Task, examples: Any) -> None:
    """Does what the recipe asks for before the first step: steps of contrast, a linear probe.

    Args:
        trainer: the trainer of a run before its first step.
        recipe: the recipe of the run, which `check_warm_start` accepts.
        task: the task of the training data.
        examples: the rows of the data set that the trainer trains on.
    """
    head, steps = _head_of(trainer), int(recipe.train.get(CONTRAST) or 0)
    knows_classes = bool(steps) and _contrast_classes(trainer, recipe, head, steps, task, examples)
    if recipe.train.get(HEAD) == "probe":
        _write_probe(trainer, head, knows_classes and has_exclusive_classes(task))


def _head_of(trainer: BertkitTrainer) -> Head:
    """Returns the layers of the head of a trainer's model, found by its outputs for the two shortest rows."""
    rows, collate, model = trainer.train_dataset, trainer.collate, trainer.model
    shortest = np.argsort(np.asarray(rows["length"][:]), kind="stable")[:2]
    sample = {name: each.to(model.device) for name, each in collate([rows[int(row)] for row in shortest]).items()}
    sample.pop("labels")
    return find_head(model, sample)


def _is_frozen(model: PreTrainedModel) -> bool:
    """Returns whether no weight is trained below the vector that the head reads; a pooler is a part of the head."""
    named = model.base_model.named_parameters()
    return not any(weight.requires_grad and "pooler" not in name.split(".") for name, weight in named)


def size_of_contrast(recipe: Recipe, classes: int) -> int:
    """Returns the rows of a batch of contrast: two of each class, at least 16, as far as the batch of the run goes."""
    return min(int(recipe.train["global_train_batch_size"]), max(_LEAST_COMPARED, 2 * classes))


def _contrast_classes(
    trainer: BertkitTrainer, recipe: Recipe, head: Head, steps: int, task: Task, examples: Any
) -> bool:
    """Draws rows that share a class or a label together; returns False, and says why, if that is not possible."""
    classes = np.asarray(trainer.train_dataset["labels"][:]).astype(np.int64)
    counts = classes.sum(axis=0) if classes.ndim == 2 else np.unique(classes, return_counts=True)[1]
    size = size_of_contrast(recipe, len(counts))
    reasons = {
        "the encoder is frozen": _is_frozen(trainer.model),
        "fewer than three rows are in a batch": size < 3,
        "fewer than two classes have two rows": not can_contrast(counts),
    }
    if any(reasons.values()):
        say(f"no contrast: {next(reason for reason, holds in reasons.items() if holds)}")
        return False

    def known(numbers: np.ndarray) -> np.ndarray:
        texts = next(iter(texts_of(task, ColumnsOf(examples.select(numbers))).values()))
        return means_of_texts(trainer.model, trainer.processing_class, texts, recipe.data.max_seq_length)

    # Few classes have rows enough, and learn faster without; so do several labels. Pairs have no mean of one text.
    keeps = not has_pairs(task) and classes.ndim == 1 and len(counts) > MANY_CLASSES
    contrast(
        trainer.model,
        head.reads,
        trainer.train_dataset,
        classes,
        trainer.collate,
        steps=steps,
        size=size,
        optimizer=trainer.create_optimizer(),
        seed=int(recipe.train["seed"]),
        known=known if keeps else None,
        precision=trainer.autocast,
    )
    trainer.optimizer = None  # the training begins with one of its own
    say(f"contrast: {counted(steps, 'step')} drew rows of a class together")
    return True


def _write_probe(trainer: BertkitTrainer, head: Head, knows_classes: bool) -> None:
    """Fits a linear probe to what the classifier reads of the training rows, and writes it into the head.

    Args:
        trainer: the trainer of the model.
        head: the layers of its head.
        knows_classes: whether a contrast has drawn the rows of a class together.
    """
    rows, collate, model, name = trainer.train_dataset, trainer.collate, trainer.model, trainer.progress.what
    if len(rows) > _MOST_PROBED:
        rows = rows.select(np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_PROBED]))
    if head.dense is not None:
        standardize(head, read_vectors(model, head.dense, rows, collate, _BATCH, name)[0])
    vectors, items = read_vectors(model, head.classifier, rows, collate, _BATCH, name)
    labels, outputs = rows["labels"][:], head.classifier.out_features
    if isinstance(labels[0], list) and not isinstance(labels[0][0], float):  # of words
        targets = np.asarray([label for row in labels for label in row if label >= 0], dtype=np.int64)
    else:
        targets = np.asarray(labels)
    if knows_classes:
        line = fit_head(vectors, targets, outputs, _STRENGTH)
    else:
        folds = folds_to_fit(numbered(map(str, rows["input_ids"][:])), None if isinstance(labels[0], list) else labels)
        line, _ = fit_by_folds(vectors, targets, folds[items], outputs)
    write_line(head, line)
    size = counted(len(vectors), "vector", form=",")
    say(f"head: a linear probe of {size}, fitted with a penalty of {line.strength:g}")
