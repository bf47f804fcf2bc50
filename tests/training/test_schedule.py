"""Learning rate and epochs by data and encoder: what is chosen, what is left alone, and what a run records."""

from __future__ import annotations

import csv

import pytest
from transformers import BertConfig, DistilBertConfig

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import load_recipe
from bertkit.training.schedule import FITS_DATA, FITTED, fitted_schedule

ENCODER = BertConfig(hidden_size=384, num_attention_heads=12)


def fitted(rows, config=ENCODER, scored=100, name="finetune/classification", facts=None, **train):
    """The values that are chosen for a table, and the line on them.

    Args:
        rows, scored: examples to train on and to score.
        config: of the encoder.
        name: of the recipe.
        facts: what else `fitted_schedule` takes.
        train: values of the recipe that are given.
    """
    recipe = load_recipe(name, {"data.train_file": "x", **{f"train.{key}": value for key, value in train.items()}})
    recipe, sentence = fitted_schedule(recipe, rows, scored, config, **(facts or {}))
    assert FITS_DATA not in recipe.train
    keys = (*FITTED, "max_steps")
    return {key: recipe.train[key] for key in keys if key in recipe.train}, sentence


@pytest.mark.parametrize(
    ("rows", "epochs"),
    [(1, 50), (96, 50), (100, 38), (320, 15), (480, 10), (960, 10), (1600, 6), (3200, 3), (1_000_000, 3)],
)
def test_few_examples_are_seen_more_often(rows, epochs):
    values, sentence = fitted(rows)
    assert values["num_train_epochs"] == epochs
    assert f"{epochs} epochs" in sentence


def test_a_batch_that_is_left_out_is_no_step():
    values, sentence = fitted(100, dataloader_drop_last=True)
    assert values["num_train_epochs"] == 50
    assert "50 epochs of 3 steps for 100 examples" in sentence
    assert "of 4 steps for 100 examples" in fitted(100)[1]
    assert "of 1 step for 9 examples" in fitted(9, dataloader_drop_last=True)[1]  # the run is refused later


def test_the_best_epoch_is_kept_by_enough_examples():
    values, sentence = fitted(1000, scored=100)
    assert values["load_best_model_at_end"] is True
    assert "save_steps" not in values
    assert "keeps" not in sentence
    values, sentence = fitted(1000, scored=99)
    assert values["load_best_model_at_end"] is False
    assert values["save_steps"] == 50
    assert (
        "keeps the last weights, not those of the best epoch: 99 validation examples cannot tell epochs apart"
        in sentence
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("load_best_model_at_end", True),
        ("load_best_model_at_end", False),
        ("early_stopping_patience", 3),
        ("eval_strategy", "no"),
    ],
)
def test_what_is_kept_can_be_given(key, value):
    values, sentence = fitted(1000, scored=10, **{key: value})
    assert values.get("load_best_model_at_end") == (value if key == "load_best_model_at_end" else None)
    assert "save_steps" not in values
    assert "keeps" not in sentence


def test_null_is_not_given():
    assert fitted(1000, scored=10, early_stopping_patience=None)[1] == fitted(1000, scored=10)[1]
    assert fitted(1000, scored=100, early_stopping_patience=None)[0]["load_best_model_at_end"] is True


def test_given_checkpoints_are_left_alone():
    values, _ = fitted(1000, scored=10, save_steps=7)
    assert (values["load_best_model_at_end"], values["save_steps"]) == (False, 7)
    assert "save_steps" not in fitted(1000, scored=10, save_strategy="no")[0]


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
    assert fitted(100, num_train_epochs=40)[0]["num_train_epochs"] == 40
    assert fitted(100, learning_rate=1e-5, num_train_epochs=2, load_best_model_at_end=True)[1] == ""
    values, _ = fitted(100, max_steps=7)
    assert (values["max_steps"], "num_train_epochs" in values) == (7, False)
    values, _ = fitted(100, max_steps=-1)  # none
    assert values["num_train_epochs"] == 38


def test_recipes_of_the_paper_are_left_alone():
    assert not load_recipe("finetune/glue/sst2").train.get(FITS_DATA)
    assert not load_recipe("finetune/squad/v1").train.get(FITS_DATA)
    recipe = recipe_of_paper()
    kept, sentence = fitted_schedule(recipe, 100, 100, BertConfig())
    given = {"load_best_model_at_end": True, **recipe.train}
    assert kept.train == {key: value for key, value in given.items() if key != FITS_DATA}
    assert not sentence


def recipe_of_paper():
    run = pytest.importorskip("bertkit.features.reproducing.paper").paper_run("ner")
    return load_recipe(run.recipe, {**run.values, "data.train_file": "x.conll"})


# One evaluation and no checkpoint, not one for each of 50 epochs.
AT_THE_END = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def test_tags_of_few_sentences_are_seen_more_often(tuned, tmp_path, capfd):
    file = tmp_path / "tags.conll"
    file.write_text("Ada B-PER\nwrote O\n\nLima B-LOC\ngrew O\n\n" * 10)
    run = tuned("ner", {}, train_file=str(file), max_seq_length=16, **AT_THE_END)
    assert "50 epochs of 1 step for 18 examples" in capfd.readouterr().err
    assert load_recipe(run.output_dir / "recipe.yaml").train["num_train_epochs"] == 50


def test_a_run_records_and_resumes_what_was_chosen(tuned, tmp_path, capfd):
    file, out = tmp_path / "rows.csv", tmp_path / "run"
    with file.open("w", newline="") as stream:
        rows = [(f"{word} film", label) for word, label in (("good", "yes"), ("bad", "no")) for _ in range(20)]
        csv.writer(stream).writerows([("text", "label"), *rows])
    values = {"data.train_file": str(file), "data.max_seq_length": 16, "train.save_steps": 0.5}
    values |= {f"train.{key}": value for key, value in {**AT_THE_END, "save_strategy": "steps"}.items()}
    tuned("finetune/classification", values)
    assert "chosen: learning rate 0.0002 for a hidden size of" in capfd.readouterr().err
    recipe = load_recipe(out / "recipe.yaml")
    assert (recipe.train["learning_rate"], recipe.train["num_train_epochs"]) == (2e-4, 50)
    assert FITS_DATA not in recipe.train
    tuned("finetune/classification", values, resume=True)
    with pytest.raises(RecipeError, match=r"train\.learning_rate was 0\.0002 and is now 0\.001"):
        tuned("finetune/classification", {**values, "train.learning_rate": 1e-3}, resume=True)


def test_many_classes_start_from_a_probe():
    few, _ = fitted(300, facts={"classes": [15] * 20})
    assert few.get("head") is None
    many, sentence = fitted(300, facts={"classes": [15] * 21})
    assert (many["head"], many["contrast_steps"]) == ("probe", 150)
    assert many["head_learning_rate"] == 10 * many["learning_rate"]
    assert "starts from a linear probe after 150 steps of contrast, since there are 21 classes" in sentence
    single, sentence = fitted(22, facts={"classes": [2, *[1] * 20]})
    assert (single["head"], single.get("contrast_steps")) == ("probe", None)
    assert "contrast" not in sentence
    random, _ = fitted(300, facts={"classes": [4] * 77}, head="random")
    assert random["head"] == "random"
    assert not random.get("contrast_steps")


def test_rows_that_folds_score_start_from_a_probe():
    for rows, reason in ((300, "there are 300 rows"), (5000, "models of folds score the rows")):
        sentence = fitted(rows, scored=None, facts={"classes": [rows // 2] * 2})[1]
        assert f"starts from a linear probe after 75 steps of contrast, since {reason};" in sentence


def test_several_labels_start_from_contrast_and_a_probe():
    few, sentence = fitted(300, scored=None, facts={"has_several_labels": True})
    assert (few["head"], few["contrast_steps"]) == ("probe", 75)
    assert few["num_train_epochs"] == 10  # 100 steps of 32
    assert "starts from a linear probe after 75 steps of contrast, since a text may have several labels" in sentence
    many, sentence = fitted(3000, scored=300, facts={"has_several_labels": True})
    assert (many["head"], many["contrast_steps"]) == ("probe", 150)
    assert many["num_train_epochs"] == 4
    assert "starts from a linear probe after 150 steps of contrast, since a text may have several labels" in sentence


@pytest.mark.parametrize(
    ("rows", "scored", "steps"),
    [(100, None, 300), (100, 500, 300), (250, None, 500), (1000, None, 600), (1001, 500, None)],
)
def test_numbers_of_pairs_start_from_a_probe_too(rows, scored, steps):
    chosen, _ = fitted(rows, scored=scored, facts={"has_pairs": True})
    assert chosen.get("pair_steps") == steps
    if steps is not None:
        assert chosen["head"] == "probe"
        assert "contrast_steps" not in chosen


def test_pairs_with_a_random_head_are_not_read_apart():
    assert "pair_steps" not in fitted(100, facts={"has_pairs": True}, head="random")[0]


def test_pairs_with_a_validation_set_are_seen_more_often():
    """The best epoch is kept."""
    epochs = [fitted(100, scored=scored, facts={"has_pairs": True})[0]["num_train_epochs"] for scored in (None, 500)]
    assert epochs[0] < epochs[1]


_WORDS = """lovely awful long short funny sad brave cold warm dark bright old new loud quiet fast slow rich poor deep
    small large plain odd""".split()


def test_a_table_of_many_classes_is_learned(tuned, tmp_path):
    rows = [f"{word} film {place},{word}" for place in range(8) for word in _WORDS]
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(rows))
    values = {"data.max_seq_length": 16, "data.folds": 0, "train.max_steps": 1, "placement.device": "cpu"}
    run = tuned("classification", values, train_file=tmp_path / "rows.csv")
    assert "probe" in (run.output_dir / "recipe.yaml").read_text()
    assert run.metrics["eval_accuracy"] > 0.5  # one step of a random head gives one of 24


def test_the_head_of_words_learns_faster():
    chosen, _ = fitted(300, name="finetune/ner", facts={"has_words": True})
    assert (chosen["learning_rate"], chosen["head_learning_rate"]) == (1e-4, 1e-3)
    assert "head" not in chosen
    given, _ = fitted(300, name="finetune/ner", facts={"has_words": True}, head_learning_rate=1e-4)
    assert given["head_learning_rate"] == 1e-4
