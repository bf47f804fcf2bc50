"""Scores of a checkpoint, and the data that a run directory is scored on without further data."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from bertkit.data.tables import read_table
from bertkit.inference import evaluation
from bertkit.inference.evaluation import data_of_run, evaluate
from bertkit.inference.predictor import Predictor, load_task
from bertkit.recipe.files import without_paths
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks import table_data


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoint-5").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("data: {train_file: /a/rows.csv, validation_fraction: 0.2, test_file: null}\n")
    return folder


@pytest.mark.parametrize("name", ["", "checkpoint-5"])
def test_checkpoints_of_a_run_have_its_data(run, name):
    """Unless other data are given."""
    expected = {"train_file": "/a/rows.csv", "validation_fraction": 0.2}
    assert data_of_run(str(run / name), {"max_eval_samples": 3}) == expected
    for given in ("data_dir", "validation_file", "train_file", "test_file", "dataset_name"):
        assert data_of_run(str(run / name), {given: "other"}) == {}


def test_the_working_folder_may_be_a_checkpoint_of_a_run(run, monkeypatch):
    monkeypatch.chdir(run / "checkpoint-5")
    assert data_of_run(".", {}) == {"train_file": "/a/rows.csv", "validation_fraction": 0.2}


def test_other_checkpoints_have_no_data(run, tmp_path):
    (run / "checkpoint-news").mkdir()
    for place in (tmp_path, "org/name", run / "checkpoint-news"):
        assert data_of_run(str(place), {}) == {}
    for content in (
        "data: none\n",
        f"data: {{train_file: {without_paths('/a/rows.csv')}}}\n",
    ):  # the second is the Hub's
        (run / "recipe.yaml").write_text(content, encoding="utf-8")
        assert data_of_run(str(run), {}) == {}
    own = run / "checkpoint-7"  # a run that is called like a checkpoint
    own.mkdir()
    (own / "recipe.yaml").write_text("data: {train_file: /own.csv}\n")
    assert data_of_run(str(own), {}) == {"train_file": "/own.csv"}


def test_an_ensemble_of_folds_needs_other_data(run, monkeypatch):
    monkeypatch.setattr("bertkit.inference.evaluation.is_ensemble", lambda checkpoint: True)
    assert data_of_run(str(run), {})["train_file"] == "/a/rows.csv"
    (run / "recipe.yaml").write_text("data: {train_file: /a/rows.csv, folds: 3, fold: 0}\n")
    with pytest.raises(DataError, match="give other data, with --validation-file"):
        data_of_run(str(run), {})
    assert data_of_run(str(run), {"validation_file": "x.csv"}) == {}


def test_a_damaged_recipe_is_an_error(run):
    (run / "recipe.yaml").write_text("data: [")
    with pytest.raises(RecipeError, match=r"recipe\.yaml"):
        data_of_run(str(run), {})


def test_rows_without_labels_are_refused_before_the_model_runs(fine_tuned, tmp_path, monkeypatch):
    (tmp_path / "test.csv").write_text("text\na film\n")
    monkeypatch.setattr(Predictor, "outputs", None)
    with pytest.raises(DataError, match="no labels to score against; `bertkit predict` takes"):
        evaluate(fine_tuned("film"), split="test", test_file=tmp_path / "test.csv")


@pytest.fixture
def finished(fine_tuned, tmp_path):
    """A folder like that of a run, without training."""
    folder = shutil.copytree(fine_tuned("film"), tmp_path / "run")
    rows = "".join(f"a {word} film {number},{word}\n" for number in range(20) for word in ("bad", "fair", "good"))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    data = {"train_file": str(tmp_path / "rows.csv"), "max_seq_length": 24}
    recipe = {"task": {"kind": "classification"}, "data": data, "train": {}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder


def test_rows_held_out_of_changed_data_are_not_scored(finished):
    assert evaluate(finished).examples == 6
    (finished / "run.json").write_text(json.dumps({"data": {"validation": {"fingerprint": "0"}}}))
    with pytest.raises(DataError, match="have changed since the run"):
        evaluate(finished)


@pytest.mark.parametrize(
    "data", [{"split_seed": 7}, {"validation_fraction": 0.5}, {"folds": 3, "fold": 1}, {"folds": 3}]
)
def test_other_held_out_rows_are_not_scored(finished, data):
    assert evaluate(finished, folds=0, split_seed=42).examples == 6
    for split in ("validation", "train"):
        with pytest.raises(DataError, match=f"^data.{next(iter(data))}: .* holds out other rows than"):
            evaluate(finished, split=split, **data)


def test_held_out_rows_are_no_training_rows(finished):
    assert evaluate(finished, split="train").examples == 54
    assert evaluate(finished, split="train", train_file=finished.parent / "rows.csv").examples == 60


def test_a_fold_of_a_run_that_has_seen_all_rows_is_not_scored(finished):
    recipe = json.loads((finished / "recipe.yaml").read_text())
    recipe["data"] |= {"folds": 3}
    (finished / "recipe.yaml").write_text(json.dumps(recipe))
    with pytest.raises(DataError, match=r"^data\.fold: 0 holds out other rows than"):
        evaluate(finished, fold=0)


def test_other_rows_of_a_hub_data_set_without_a_validation_set_are_not_scored(finished, monkeypatch):
    rows = read_table(finished.parent / "rows.csv")
    monkeypatch.setattr(table_data, "hub_splits", lambda name, config: ["train"])
    monkeypatch.setattr(table_data, "load_hub_table", lambda name, config, split: rows)
    recipe = {"task": {"kind": "classification"}, "data": {"dataset_name": "org/x", "max_seq_length": 24}, "train": {}}
    (finished / "recipe.yaml").write_text(json.dumps(recipe))
    assert (evaluate(finished).examples, evaluate(finished, split="train").examples) == (6, 54)
    with pytest.raises(DataError, match=r"^data\.split_seed: 7 holds out other rows than"):
        evaluate(finished, split_seed=7)


def test_scoring_a_run_changes_no_task(finished, monkeypatch):
    loaded = []
    load_task = evaluation.load_task

    def recording(*arguments):
        task, config = load_task(*arguments)
        loaded.append((task, copy.copy(vars(task))))
        return task, config

    monkeypatch.setattr(evaluation, "load_task", recording)
    outcome = evaluation.outcome_of(finished, with_training=True)
    assert (len(outcome.examples["text"]), len(outcome.training["text"])) == (6, 54)
    outcome.decoded()
    outcome.predictions_and_references()
    [(task, before)] = loaded
    assert vars(task) == before


def _paragraph(row):
    asked = {"id": f"{row}", "question": "what is good", "answers": [{"text": "film", "answer_start": 4}]}
    return {"context": " ".join(["the film is good and the plot is bad"] * (row % 4 + 1)), "qas": [asked]}


_FILES = {
    "film": ("dev.csv", "text,label\n" + "".join(f"a film {'good ' * row},good\na bad one,bad\n" for row in range(4))),
    "entities": ("dev.txt", "".join("the O\n" + "film B-FILM\n" * (row * 9 + 1) + "\n" for row in range(5))),
    "answers": ("dev.json", json.dumps({"data": [{"paragraphs": [_paragraph(row) for row in range(5)]}]})),
}


@pytest.mark.parametrize("kind", _FILES)
def test_scores_do_not_depend_on_the_rows_encoded_at_once(fine_tuned, kind, tmp_path, monkeypatch):
    """Longer texts have several windows, whose numbers go on from one block to the next."""
    name, content = _FILES[kind]
    (tmp_path / name).write_text(content)
    whole = evaluate(fine_tuned(kind), validation_file=tmp_path / name)
    task, _ = load_task(str(fine_tuned(kind)), {})
    sizes, encode = [], type(task).encode

    def noted(self, examples, tokenizer):
        sizes.append(len(next(iter(examples.values()))))
        return encode(self, examples, tokenizer)

    monkeypatch.setattr(evaluation, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(type(task), "encode", noted)
    parts = evaluate(fine_tuned(kind), validation_file=tmp_path / name)
    assert parts.metrics == pytest.approx(whole.metrics)
    assert (parts.examples, parts.truncation) == (whole.examples, whole.truncation)
    assert sizes[0] == 1  # which shows whether there are labels
    assert (sum(sizes[1:]), max(sizes)) == (whole.examples, 2)
