"""Recipe of a pre-training run: loaded from the arguments, checked, and made independent of the working folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertkit.data.corpus.sentences import resolved_name
from bertkit.model.checkpoint.encoders import MODEL_TYPE, check_pair_objective
from bertkit.recipe.files import absolute
from bertkit.recipe.load import Recipe, with_absolute_paths
from bertkit.recipe.settings import WARM_START
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.options import several
from bertkit.runtime.progress import say
from bertkit.tasks.pretraining import DataSettings
from bertkit.tasks.registry import load_recipe
from bertkit.training.schedule import FITS_DATA


def pretraining_recipe(
    recipe: str | Path | Mapping[str, Any] | Recipe | None,
    corpus: str | Path | Sequence[str | Path] | None,
    model: str | Path | None,
    overrides: Mapping[str, Any] | None,
) -> Recipe:
    """Loads the recipe of a run from the arguments of `pretrain`, or the default one.

    Raises:
        RecipeError: the recipe does not exist or is invalid.
    """
    chosen: dict[str, Any] = {} if corpus is None else {"data.corpus": list(map(str, several(corpus)))}
    if model is not None:
        chosen["model.name_or_path"] = str(model)
    values = {**(overrides or {}), **chosen}
    usual = "pretrain/bert-base" if values.get("model.name_or_path") is None else "pretrain/continue"
    return load_recipe(usual if recipe is None else recipe, values)


def checked_recipe(recipe: Recipe) -> Recipe:
    """Returns a recipe with absolute paths and a ``max_seq_length`` that a phase uses, after checking its ``data``.

    Raises:
        RecipeError: the corpus or the source of the tokenizer is missing, or recipe values are inconsistent.
    """
    data = _checked_data(recipe)
    longest = max(length for length, _ in data.lengths())
    if data.max_seq_length > longest:
        wanted = data.max_seq_length
        say(f"warning: data.max_seq_length is {wanted}, but no phase is longer than {longest}; set data.phases")
    data = dataclasses.replace(
        data,
        max_seq_length=longest,
        corpus=[absolute(path) for path in data.corpus],
        tokenizer=data.tokenizer and absolute(data.tokenizer),
        sentence_splitter=resolved_name(data.sentence_splitter),
    )
    return with_absolute_paths(dataclasses.replace(recipe, data=data))


def _checked_data(recipe: Recipe) -> DataSettings:
    """Returns the ``data`` block of a pre-training recipe after checking it, and what other blocks may not have."""
    data = recipe.data
    if not isinstance(data, DataSettings):
        raise RecipeError(f"recipe {recipe.name}: task.kind is {recipe.kind!r}; pre-training needs 'pretraining'")
    data.run_code()  # the sentence splitter is found, or refused, before the text is read
    if not data.corpus:
        raise RecipeError(f"recipe {recipe.name}: no text to train on; give --corpus or data.corpus")
    _check_store(data)
    ways = [data.tokenizer is not None, data.vocab_size is not None]
    checkpoint = recipe.model.get("name_or_path")
    if checkpoint is not None and any(ways):
        raise RecipeError(
            f"pre-training continues from {checkpoint} with the tokenizer of that checkpoint, which its weights "
            "need; remove --tokenizer and --vocab-size"
        )
    if checkpoint is None and sum(ways) != 1 and not data.is_stored():
        raise RecipeError("give either --tokenizer (a folder or a Hub id) or --vocab-size (to train one on the corpus)")
    if checkpoint is None:
        check_pair_objective(recipe.task.pair_objective, str(recipe.model.get(MODEL_TYPE) or "bert"))
    if recipe.task.pair_objective != "none" and recipe.model.get("type_vocab_size", 2) < 2:
        raise RecipeError(
            f"recipe {recipe.name}: model.type_vocab_size: {recipe.task.pair_objective} marks two segments, and the "
            "model has one; give 2, or task.pair_objective: none"
        )
    if data.streaming and recipe.train.get("max_steps", -1) < 1:
        raise RecipeError("--streaming: the length of an epoch is not known in advance; give --max-steps")
    for key in (
        "label_smoothing_factor",
        "class_weights",
        "layer_lr_decay",
        "early_stopping_patience",
        FITS_DATA,
        *WARM_START,
    ):
        if recipe.train.get(key):
            raise RecipeError(f"train.{key}: is for fine-tuning, and pre-training has no use for it; remove it")
    for key in ("train_sampling_strategy", "dataloader_persistent_workers"):
        if key in recipe.train:
            raise RecipeError(f"train.{key}: pre-training sets this; remove it")
    check_tokenizer_settings(data)
    return data


def check_tokenizer_settings(data: DataSettings) -> None:
    """Checks that the settings of a trained tokenizer are given only if one is trained."""
    trained = {
        "--cased": data.cased,
        "--merge-score": data.merge_score != "frequency",
        "--min-pair-frequency": data.min_pair_frequency is not None,
    }
    for flag, given in trained.items():
        if given and data.vocab_size is None:
            raise RecipeError(f"{flag} needs --vocab-size; an existing tokenizer keeps its settings")


def _check_store(data: DataSettings) -> None:
    """Checks that no setting is given that a token store has already applied to its text."""
    if not data.is_stored():
        return
    built = ("vocab_size", "text_column", "dataset_config", "dataset_split", "document_separator", "sentence_per_line")
    usual = DataSettings()
    for name in (*built, "sentence_splitter", "streaming"):
        if getattr(data, name) != getattr(usual, name):
            raise RecipeError(
                f"data.{name}: {data.corpus[0]} is a token store, whose text is already split and tokenized; remove "
                "it, or build another store"
            )
