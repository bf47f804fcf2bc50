"""``bertkit compare``, and options that turn a fine-tuning into a grid, by the words that users type."""

from __future__ import annotations

import csv
import io
import json

import pytest


@pytest.fixture
def files(predictions):
    """Files of predictions: half of the first and all of the second are right."""
    return predictions("a_1.jsonl", ["yes", "no"]), predictions("b.jsonl", ["yes", "yes"])


def test_a_comparison_has_many_forms(bertkit, files):
    assert json.loads(bertkit("compare", *files, "--json").out)["comparisons"][0]["agreement"]["only_b"] == 1
    [row] = csv.DictReader(io.StringIO(bertkit("compare", *files, "--format", "csv").out))
    assert (row["a"], row["mean_a"], row["mean_b"], row["difference"]) == (str(files[0]), "0.5", "1.0", "0.5")
    latex = bertkit("compare", *files, "--format", "latex").out
    assert r"a\_1.jsonl" in latex
    assert "% Do these models differ on this data?" in latex
    assert "| accuracy of A | accuracy of B |" in bertkit("compare", *files, "--format", "markdown").out
    bertkit("compare", *files, "--json", "--format", "csv").refuses("--json and --format csv")
    several = bertkit("compare", *files, files[1], "--format", "latex").out
    assert several.count(f"% A {files[0]}, B {files[1]}: Do these models differ on this data?") == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--seeds", 0],
        ["--trials", 0],
        ["--worker"],
        ["--grid", "paper"],
        ["--search", "train.learning_rate=1e-5..1e-4"],
    ],
)
def test_any_option_of_grids_makes_a_grid(bertkit, tmp_path, options):
    """Zero too is a number that was given. What is for one run is refused."""
    words = ["finetune", "glue", "--task", "rte,sst2", "--output-dir", tmp_path / "out", "--push-to-hub", "ada/it"]
    bertkit(*words, *options).refuses("--push-to-hub: is for one run; push the best one")


def test_one_run_has_no_table(bertkit, tmp_path):
    words = ["finetune", "glue", "--task", "rte", "--output-dir", tmp_path / "out", "--format", "csv"]
    bertkit(*words).refuses("--format csv: is for the table of many runs")
    assert not (tmp_path / "out").exists()


def test_a_value_without_its_key_is_told_by_the_option_that_has_it(bertkit, tmp_path):
    words = ["ablations", "--data-dir", tmp_path, "--output-dir", tmp_path / "out"]
    bertkit(*words, "--finetune-set", "odd").refuses("--finetune-set odd: expected block.key=value")


def test_a_grid_with_a_failed_run_ends_with_code_1(bertkit, tmp_path, table, checkpoint, quick, monkeypatch):
    out = tmp_path / "out"
    words = ["finetune", "classification", "--train-file", table, "--model", checkpoint, "--json"]
    words += ["--output-dir", out, "--seeds", 1, "--grid", "train.learning_rate=1e-3"]
    words += [f"--set={key}={value}" for key, value in quick.items() if key != "train.learning_rate"]
    done = bertkit(*words)
    found = json.loads(done.out)
    assert (done.code, found["settings"][0]["n"], found["output_dir"]) == (0, 1, str(out))
    record = out / "records" / "01-learning_rate=0.001-seed=42.json"
    record.write_text('{"error": "TrainingError: the loss is nan"}')
    monkeypatch.setattr("bertkit.features.grids.grid.forget_failures", lambda folder: None)
    done = bertkit(*words)
    assert (done.code, json.loads(done.out)["best"]) == (1, None)
