"""The run directory: never overwritten, resumed only as the same run, results flat and whole."""

from __future__ import annotations

import json

import pytest

from bertkit.errors import OutputError, RecipeError, TrainingError
from bertkit.tasks.registry import load_recipe
from bertkit.training.run_directory import (
    check_output_dir,
    check_same_recipe,
    last_checkpoint,
    plain,
    write_json,
    write_results,
)


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"already holds thesis\.txt; give another folder, or --resume"):
        check_output_dir(tmp_path, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_new_or_empty_directory_is_accepted(tmp_path):
    check_output_dir(tmp_path, resume=False)
    check_output_dir(tmp_path / "new", resume=False)
    assert not (tmp_path / "new").exists()


def test_only_a_run_can_be_resumed(tmp_path):
    with pytest.raises(OutputError, match="holds no run"):
        check_output_dir(tmp_path / "new", resume=True)
    (tmp_path / "recipe.yaml").write_text("")
    check_output_dir(tmp_path, resume=True)


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="a file of that name exists"):
        check_output_dir(tmp_path / "out", resume=False)


def test_resuming_under_other_values_is_refused_by_name(tmp_path):
    recipe = load_recipe("sst2", {"train.learning_rate": 1e-5})
    recipe.save(tmp_path / "recipe.yaml", "bertkit …")
    with pytest.raises(RecipeError, match=r"train\.learning_rate was 1e-05 and is now 2e-05"):
        check_same_recipe(load_recipe("sst2"), tmp_path)


def test_resuming_longer_or_on_another_placement_is_the_same_run(tmp_path):
    load_recipe("sst2").save(tmp_path / "recipe.yaml", "bertkit …")
    changes = {"train.max_steps": 9999, "train.save_steps": 3, "placement.per_device_train_batch_size": 4}
    check_same_recipe(load_recipe("sst2", changes), tmp_path)


def test_the_newest_whole_checkpoint_is_found(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step, state in ((9, "{}"), (10, "{}"), (20, '{"cut off'), (30, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")


def test_results_are_flat_and_gathered(tmp_path):
    write_results(tmp_path, "train", {"train_loss": 0.5})
    write_results(tmp_path, "eval", {"eval_accuracy": 0.75})
    assert json.loads((tmp_path / "eval_results.json").read_text()) == {"eval_accuracy": 0.75}
    assert json.loads((tmp_path / "all_results.json").read_text()) == {"train_loss": 0.5, "eval_accuracy": 0.75}


def test_a_score_that_is_no_number_is_an_error(tmp_path):
    with pytest.raises(TrainingError, match="eval_loss is nan: the training diverged"):
        write_results(tmp_path, "eval", {"eval_loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="Circular"):
        write_json(path, loop)
    assert json.loads(path.read_text()) == {"a": 1}


def test_plain_keeps_numbers_only():
    assert plain({"a": 1, "b": 0.5, "c": "text", "d": None}) == {"a": 1.0, "b": 0.5}
