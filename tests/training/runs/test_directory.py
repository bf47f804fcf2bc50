"""The run directory: never overwritten, resumed only as the same run, results flat and whole."""

from __future__ import annotations

import json
import random
import shutil
from unittest.mock import Mock

import numpy as np
import pytest

from bertkit.runtime.errors import OutputError, TrainingError
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs.directory import (
    RunDirectory,
    check_output_dir,
    check_repeated_run,
    heading,
    is_cut_off,
)
from bertkit.training.runs.record import finite_numbers, write_results


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"already contains thesis\.txt; give another folder$"):
        check_output_dir(tmp_path, resume=False)
    (tmp_path / "recipe.yaml").mkdir()  # cannot be read, as a file without permission
    with pytest.raises(OutputError, match=r"thesis\.txt; give another folder, or --resume to continue"):
        check_output_dir(tmp_path, resume=False)
    with pytest.raises(OutputError, match=r"give another folder$"):
        check_output_dir(tmp_path, resume=False, can_resume=False)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["sst2", "bert-mini"])
def test_a_recipe_that_a_full_disk_cut_off_is_no_run(name, tmp_path):
    """At any byte: a new run and a resumed one replace it, unless there are checkpoints."""
    recipe, file = load_recipe(name), tmp_path / "recipe.yaml"
    recipe.save(file, heading(recipe, [], "bertkit …"))
    whole = file.read_bytes()
    rng = random.Random(8)
    hub = whole.rindex(b"\nhub:")
    cuts = [0, 1, 5, 20, *(rng.randrange(hub) for _ in range(12)), hub + 8]
    for start in [*(whole[:cut] for cut in cuts), b"\0" * len(whole)]:
        file.write_bytes(start)
        assert is_cut_off(file)
        check_output_dir(tmp_path, resume=False)
        check_output_dir(tmp_path, resume=True)
        assert RunDirectory(tmp_path, resume=True).check_recipe(load_recipe("rte")) == []
        (tmp_path / "checkpoint-1").mkdir()
        (tmp_path / "checkpoint-1" / "trainer_state.json").write_text("{}")
        with pytest.raises(OutputError, match="is cut off, so the checkpoints there may be of another recipe"):
            check_output_dir(tmp_path, resume=True)
        with pytest.raises(OutputError, match=r"already contains checkpoint-1, recipe\.yaml"):
            check_output_dir(tmp_path, resume=False)
        shutil.rmtree(tmp_path / "checkpoint-1")
    file.write_bytes(whole)
    assert not is_cut_off(file)
    with pytest.raises(OutputError, match=r"already contains recipe\.yaml"):
        check_output_dir(tmp_path, resume=False)


def test_a_run_that_a_resumption_changed_is_not_said_to_be_repeated_by_its_file(tmp_path):
    """Not after further resumptions either, with the same values or with others."""
    recipe, line = load_recipe("sst2"), heading(load_recipe("sst2"), [], "bertkit …")
    assert heading(recipe, [], "bertkit …", f"# {line}") == line
    end = ": this file alone does not reproduce the run."
    changed = heading(recipe, ["train.max_steps was 4 and is now 6"], "bertkit …")
    assert changed == f"Resumed, and train.max_steps was 4 and is now 6{end}"
    recipe.save(tmp_path / "recipe.yaml", changed)
    (tmp_path / "run.json").write_text("{}")
    RunDirectory(tmp_path, resume=True).write_first_files(Mock(recipe=recipe), Mock(), (), "bertkit …")
    assert (tmp_path / "recipe.yaml").read_text().startswith(f"# {changed}\n")
    again = heading(recipe, ["train.max_steps was 6 and is now 9"], "bertkit …", f"# {changed}")
    assert again == f"Resumed, and train.max_steps was 4 and is now 6; train.max_steps was 6 and is now 9{end}"


def test_a_repeated_call_is_not_answered_with_an_option_that_it_lacks(tmp_path):
    recipe = load_recipe("sst2")
    (tmp_path / "recipe.yaml").write_bytes(b"")
    (tmp_path / "checkpoint-1").mkdir()
    with pytest.raises(OutputError, match=r"^\S+recipe\.yaml is cut off"):
        check_repeated_run(recipe, tmp_path)


@pytest.mark.parametrize("text", ["# Mine\ntask:\n  kind: ner\n", "task: [", "# Resolved\ntrain: {seed: 1}\n"])
def test_a_recipe_of_the_user_is_not_replaced(text, tmp_path):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(OutputError, match=r"already contains recipe\.yaml"):
        check_output_dir(tmp_path, resume=False)


def test_temporary_files_of_a_killed_run_do_not_count(tmp_path):
    for name in (".tmpa1B2c3", ".unfinished-recipe.yaml-1f"):
        (tmp_path / name).write_text("x")
    check_output_dir(tmp_path, resume=False)
    (tmp_path / "thesis.txt.partial").write_text("mine")
    with pytest.raises(OutputError, match=r"already contains thesis\.txt\.partial"):
        check_output_dir(tmp_path, resume=False)


def test_results_are_flat_and_gathered(tmp_path):
    write_results(tmp_path, {"train": {"train_loss": 0.5}, "eval": {"eval_accuracy": 0.75}})
    assert json.loads((tmp_path / "eval_results.json").read_text()) == {"eval_accuracy": 0.75}
    assert json.loads((tmp_path / "all_results.json").read_text()) == {"train_loss": 0.5, "eval_accuracy": 0.75}


def test_a_score_that_is_no_number_is_an_error():
    with pytest.raises(TrainingError, match="eval_loss is nan: the training diverged"):
        finite_numbers({"eval_loss": float("nan")})
    with pytest.raises(TrainingError, match="eval_pearson is nan: many scores are not defined if all labels"):
        finite_numbers({"eval_loss": 0.5, "eval_pearson": np.float32("nan")})
