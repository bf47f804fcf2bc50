"""Learning rate and epochs by data and encoder: what is chosen, what is left alone, and what a run records."""

from __future__ import annotations

import csv

import pytest
from transformers import BertConfig, DistilBertConfig

from bertkit import finetune
from bertkit.errors import RecipeError
from bertkit.reproducing.paper import paper_run
from bertkit.tasks.registry import load_recipe
from bertkit.training.schedule import FITS_DATA, FITTED, fitted_schedule


def fitted(rows: int, config=None, **overrides):
    given = {"data.train_file": "x.csv", **{f"train.{key}": value for key, value in overrides.items()}}
    recipe = load_recipe("finetune/classification", given)
    recipe, sentence = fitted_schedule(recipe, rows, config or BertConfig(hidden_size=384, num_attention_heads=12))
    assert FITS_DATA not in recipe.train
    keys = (*FITTED, "max_steps")
    return {key: recipe.train[key] for key in keys if key in recipe.train}, sentence


@pytest.mark.parametrize(
    ("rows", "epochs"), [(1, 50), (96, 50), (100, 38), (320, 15), (480, 10), (1000, 5), (1600, 3), (1_000_000, 3)]
)
def test_few_examples_are_seen_more_often(rows, epochs):
    values, sentence = fitted(rows)
    assert values["num_train_epochs"] == epochs
    assert f"{epochs} epochs" in sentence
    assert values.get("early_stopping_patience") == (10 if epochs > 10 else None)
    assert ("fewer if 10 evaluations bring nothing better" in sentence) == (epochs > 10)


@pytest.mark.parametrize(
    ("size", "rate"), [(128, 2e-4), (256, 1e-4), (384, 1e-4), (512, 5e-5), (768, 3e-5), (1024, 2e-5)]
)
def test_small_encoders_learn_at_higher_rates(size, rate):
    for config in (BertConfig(hidden_size=size), DistilBertConfig(dim=size)):
        values, sentence = fitted(1000, config)
        assert values["learning_rate"] == rate
        assert f"hidden size of {size}" in sentence


def test_given_values_win():
    values, sentence = fitted(100, learning_rate=7e-5)
    assert values["learning_rate"] == 7e-5
    assert "--num-train-epochs" in sentence
    assert "--learning-rate" not in sentence
    assert values["num_train_epochs"] == 38
    assert fitted(100, num_train_epochs=40)[0] == {"learning_rate": 1e-4, "num_train_epochs": 40}
    assert "early_stopping_patience" not in fitted(100, load_best_model_at_end=False)[0]
    assert fitted(100, early_stopping_patience=3)[0]["early_stopping_patience"] == 3
    assert fitted(100, learning_rate=1e-5, num_train_epochs=2) == ({"learning_rate": 1e-5, "num_train_epochs": 2.0}, "")
    values, _ = fitted(100, max_steps=7)
    assert values == {"learning_rate": 1e-4, "max_steps": 7}


def test_recipes_of_the_paper_are_left_alone():
    for recipe in (load_recipe("finetune/glue/sst2"), load_recipe("finetune/squad/v1"), recipe_of_paper()):
        given = recipe.train
        kept, sentence = fitted_schedule(recipe, 100, BertConfig())
        assert kept.train == {key: value for key, value in given.items() if key != FITS_DATA}
        assert not sentence


def recipe_of_paper():
    run = paper_run("ner")
    return load_recipe(run.recipe, {**run.values, "data.train_file": "x.conll"})


# One evaluation and no checkpoint, not one for each of 50 epochs.
AT_THE_END = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def test_tags_of_few_sentences_are_seen_more_often(tmp_path, checkpoint, capfd):
    file, out = tmp_path / "tags.conll", tmp_path / "run"
    file.write_text("Ada B-PER\nwrote O\n\nLima B-LOC\ngrew O\n\n" * 10)
    finetune("ner", model=str(checkpoint), output_dir=out, train_file=str(file), max_seq_length=16, **AT_THE_END)
    assert "50 epochs of 1 step for 18 examples" in capfd.readouterr().err
    assert load_recipe(out / "recipe.yaml").train["num_train_epochs"] == 50


def test_a_run_records_and_resumes_what_was_chosen(tmp_path, checkpoint, capfd):
    file, out = tmp_path / "rows.csv", tmp_path / "run"
    with file.open("w", newline="") as stream:
        rows = [(f"{word} film", label) for word, label in (("good", "yes"), ("bad", "no")) for _ in range(20)]
        csv.writer(stream).writerows([("text", "label"), *rows])
    values = {"data.train_file": str(file), "data.max_seq_length": 16, "train.save_steps": 0.5}
    values |= {f"train.{key}": value for key, value in {**AT_THE_END, "save_strategy": "steps"}.items()}
    finetune("finetune/classification", model=str(checkpoint), output_dir=out, overrides=values)
    assert "chosen: learning rate 0.0002 for a hidden size of" in capfd.readouterr().err
    recipe = load_recipe(out / "recipe.yaml")
    assert (recipe.train["learning_rate"], recipe.train["num_train_epochs"]) == (2e-4, 50)
    assert FITS_DATA not in recipe.train
    finetune("finetune/classification", model=str(checkpoint), output_dir=out, overrides=values, resume=True)
    given = {**values, "train.learning_rate": 1e-3}
    with pytest.raises(RecipeError, match=r"train\.learning_rate was 0\.0002 and is now 0\.001"):
        finetune("finetune/classification", model=str(checkpoint), output_dir=out, overrides=given, resume=True)
