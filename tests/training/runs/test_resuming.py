"""Tests of what a resumed run must have in common with the one that began."""

import pytest

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs.resuming import check_same_recipe


def test_resuming_under_other_values_is_refused_by_name(tmp_path):
    recipe = load_recipe("sst2", {"train.learning_rate": 1e-5})
    recipe.save(tmp_path / "recipe.yaml", "bertkit …")
    with pytest.raises(RecipeError, match=r"train\.learning_rate was 1e-05 and is now 2e-05"):
        check_same_recipe(load_recipe("sst2"), tmp_path)


def test_resuming_longer_or_on_another_placement_is_the_same_run(tmp_path):
    load_recipe("sst2").save(tmp_path / "recipe.yaml", "bertkit …")
    changes = {"train.max_steps": 9999, "train.save_steps": 3, "placement.per_device_train_batch_size": 4}
    check_same_recipe(load_recipe("sst2", changes), tmp_path)
