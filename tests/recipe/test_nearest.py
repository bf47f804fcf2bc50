"""Nearest keys: every alias leads to a key that exists."""

from __future__ import annotations

import pytest

from bertkit.recipe.fields import fields_of, model_fields, train_fields
from bertkit.recipe.nearest import ALIASES
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.tasks.registry import TASKS, load_recipe


def test_aliases_are_names_of_keys():
    task, data = map(fields_of, TASKS.settings("classification"))
    keys = {
        "task": task,
        "data": data,
        "train": train_fields(),
        "model": model_fields(of_checkpoint=False) | model_fields(of_checkpoint=True),
        "placement": fields_of(PlacementSettings),
    }
    wrong = [key for key in ALIASES.values() if key.partition(".")[2] not in keys[key.partition(".")[0]]]
    assert wrong == []


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("train.lr", "train.learning_rate"),
        ("train.batch_size", "train.global_train_batch_size"),
        ("data.text_columns", "task.text_columns"),
        ("train.max_seq_length", "data.max_seq_length"),
    ],
)
def test_unknown_keys_get_the_nearest(key, nearest):
    with pytest.raises(RecipeError, match=f"{key}: unknown key; did you mean '{nearest}'"):
        load_recipe("finetune/classification", {key: "1"})
