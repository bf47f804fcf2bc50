"""The texts that checkpoints are compared on: labelled examples of a task with folds, or paragraphs of files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.data.tables.folds import classes_of, hold_out
from bertkit.data.tables.table import copies_in_words
from bertkit.features.choosing.frozen import FrozenTask, frozen_task
from bertkit.recipe.files import GLUE, list_recipes
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import DataError, RecipeError, did_you_mean
from bertkit.runtime.json_text import dumps
from bertkit.runtime.options import descriptions, flag_of
from bertkit.tasks.base import texts_of
from bertkit.tasks.folds import fold_of_each, strata, text_numbers
from bertkit.tasks.registry import command_of, load_recipe, task_of_recipe
from bertkit.tasks.splits import ColumnsOf, Split

SEED = 0
"""Seed of what is drawn, so that the same arguments give the same numbers."""

_MOST_PARAGRAPHS = 20_000  # that are read, and drawn from


@dataclass(frozen=True)
class Labelled:
    """Labelled examples of a task, those of one fold next to each other.

    Attributes:
        task: kind of task.
        examples: columns of N examples.
        folds: fold of each example, (N,) int64, ascending; copies are in one fold.
        same_texts: number of the text of each example, (N,) int64, the same for copies.
        split: the whole training set.
        command: words of the command that fine-tunes on these data, without the checkpoint and the length of inputs.
    """

    task: FrozenTask
    examples: ColumnsOf
    folds: np.ndarray
    same_texts: np.ndarray
    split: Split
    command: list[str]

    @property
    def source(self) -> str:
        """File or data set."""
        return self.split.source

    def texts(self) -> list[tuple[str, ...]]:
        """Returns the texts of each example, one, or two of a pair."""
        return list(zip(*texts_of(self.task.task, self.examples).values(), strict=True))

    @property
    def copies(self) -> list[str]:
        """A sentence on the examples that have the text of an earlier one; none if there are none."""
        what = "copies are in one fold, and intervals and tests count a text once."
        return list(filter(None, [copies_in_words(self.same_texts, "example", what)]))


def read_labelled(task: str, overrides: Mapping[str, Any], number: int, folds: int) -> Labelled:
    """Reads the training set of a task, and draws examples with the shares of its classes.

    Args:
        task: as for `recipe_name`.
        overrides: recipe values by dotted key.
        number: about how many examples are drawn.
        folds: number of folds.

    Raises:
        RecipeError: there is no such task, or a value is wrong.
        DataError: the data cannot be read, or are too few.
    """
    if overrides.get("data.group_column") is not None:  # a recipe takes it with folds alone
        overrides = {"data.folds": folds, **overrides}
    recipe = load_recipe(recipe_name(task), overrides)
    frozen_task(task_of_recipe(recipe))  # refuses a kind of task before its data are read
    loaded, splits = task_of_recipe(recipe).load(["train"])
    kind, split = frozen_task(loaded), splits["train"]
    rows = len(split.examples)
    if number < rows:
        labels = strata(loaded, split.examples)
        classes = None if labels is None else classes_of(labels, folds).tolist()
        split = split.select(hold_out(classes, np.arange(rows), number / rows, SEED)[1])
    divided = loaded.with_settings()
    divided.data = replace(loaded.data, folds=folds, fold=0)
    try:
        of_each, _ = fold_of_each(divided, split.examples)
    except DataError as error:
        reason = str(error).removeprefix("data.folds: ")
        raise DataError(reason if reason.startswith(split.source) else f"{split.source}: {reason}") from error
    texts = text_numbers(loaded, split.examples)
    order = np.argsort(of_each, kind="stable")
    examples = ColumnsOf(split.select(order.tolist()).examples)
    return Labelled(kind, examples, of_each[order], texts[order], splits["train"], _write_command(recipe, overrides))


def recipe_name(task: str) -> str:
    """Returns the recipe of a task by its name below ``finetune/``, of a GLUE task below ``finetune/glue/``.

    Raises:
        RecipeError: there is no such recipe; the message has those of the tasks that frozen encoders are scored on.
    """
    known = [name for name in list_recipes() if name.startswith("finetune/")]
    names = {name.removeprefix(GLUE).removeprefix("finetune/"): name for name in known}
    if task not in names:
        scored = []
        for name, recipe in names.items():
            with suppress(RecipeError):  # frozen encoders are not scored on this one
                frozen_task(task_of_recipe(load_recipe(recipe)))
                scored.append(name)
        raise RecipeError(f"--task {task}: expected one of {', '.join(scored)}{did_you_mean(task, scored)}")
    return names[task]


def _write_command(recipe: Recipe, overrides: Mapping[str, Any]) -> list[str]:
    """Returns the words of the command that fine-tunes by a recipe with these values but the length of inputs, by
    options where there are."""
    if recipe.name.startswith(GLUE):
        words = ["finetune", "glue", "--task", recipe.name.removeprefix(GLUE)]
    else:
        words = ["finetune", command_of(recipe.kind)]
        words += [] if recipe.name == f"finetune/{recipe.kind}" else ["--recipe", recipe.name]
    for key, value in overrides.items():
        if key == "data.max_seq_length":  # depends on the checkpoint
            continue
        block, _, name = key.partition(".")
        described = descriptions(type(getattr(recipe, block))).get(name) if block in ("task", "data") else None
        if described is None or described.get("in_recipes_only") or value is None or value is False:
            # Also what no option says: no value, and a switch that is off. JSON is YAML.
            words += ["--set", f"{key}={value if isinstance(value, str) else dumps(value)}"]
        elif value is True:
            words.append(flag_of(name, described))
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [flag_of(name, described), str(each)]
    return words


def read_texts(place: str | Path, number: int) -> list[tuple[str]]:
    """Reads paragraphs of a corpus, and draws some.

    Args:
        place: as a corpus of pre-training.
        number: how many are drawn, of at most 20,000 that are read, about as many of each file, its first ones.

    Returns:
        As `Labelled.texts`; empty if the files are.

    Raises:
        DataError: there is no file, or one cannot be read.
    """
    sources = find_sources([place])
    each = -(-_MOST_PARAGRAPHS // len(sources))
    read = (paragraph.text for source in sources for paragraph in islice(source.paragraphs(DocumentForm()), each))
    paragraphs = list(islice(read, _MOST_PARAGRAPHS))
    drawn = np.sort(np.random.default_rng(SEED).permutation(len(paragraphs))[:number])
    return [(paragraphs[row],) for row in drawn.tolist()]
