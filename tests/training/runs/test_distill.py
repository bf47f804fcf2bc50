"""Distillation end to end on tiny models: the loss by the formula, what is refused, repeated and resumed runs."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from bertkit import distill, evaluate, finetune, load
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError, RecipeError, TrainingError
from bertkit.training.runs.distill import distillation_recipe
from bertkit.training.runs.finetune import prepare_finetuning
from tests.training import conftest
from tests.training.conftest import FOUR_STEPS, STRAIGHT, assert_same_runs, same_weights, write_glue

RUN = {**FOUR_STEPS, **STRAIGHT}
NO_DROPOUT = {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    return write_glue(tmp_path_factory.mktemp("data") / "glue")


@pytest.fixture(scope="module")
def taught(glue, checkpoint, tmp_path_factory, module_patch):
    """A run directory of SST-2, which tests do not change."""
    out = tmp_path_factory.mktemp("taught") / "teacher"
    return finetune("sst2", model=str(checkpoint), data_dir=glue, output_dir=out, overrides=RUN).output_dir


@pytest.fixture
def teacher(taught, tmp_path):
    return shutil.copytree(taught, tmp_path / "teacher")


@pytest.fixture
def run(teacher, student, tmp_path):
    """``run(name, key=value)`` distills the teacher; returns the finished run."""

    def start(name, resume=False, callbacks=(), overrides=None, **given):
        given = {"teacher": teacher, "student": student, **given}
        changes = {**RUN, **(overrides or {})}
        return distill(**given, output_dir=tmp_path / name, overrides=changes, resume=resume, callbacks=callbacks)

    return start


def weights(done):
    return load_file(done.output_dir / "model.safetensors")


def assert_equal_weights(one, other):
    assert same_weights(one.output_dir, other.output_dir)


def logged(done):
    return conftest.logged(done.output_dir)


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ({}, True),
        ({"data.validation_fraction": 0.2}, True),
        ({"data.test_file": "test.csv"}, True),
        ({"data.validation_file": "other.csv"}, False),
        ({"data.train_file": "other.csv"}, False),
        ({"data.dataset_name": "other/rows"}, False),
    ],
)
def test_rows_that_the_teacher_has_seen_are_warned_of(fine_tuned, tmp_path, capsys, given, is_said):
    folder = shutil.copytree(fine_tuned("film"), tmp_path / "film")
    recipe = {"task": {"kind": "classification"}, "data": {"train_file": "rows.csv", "folds": 5}, "train": {}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    assert distillation_recipe(folder, "bert-mini", overrides=given).data.folds == 0
    assert ("was trained on all rows, also on those that are held out" in capsys.readouterr().err) == is_said


# ---- the loss -------------------------------------------------------------------------------------------------------


@pytest.mark.numeric
def test_without_weight_the_teacher_changes_nothing_bit_for_bit(run, student, glue, tmp_path):
    plain = finetune("sst2", model=student, data_dir=glue, output_dir=tmp_path / "plain", overrides=RUN)
    assert_equal_weights(run("distilled", alpha=0), plain)
    assert logged(run("again", alpha=0, temperature=7)) == logged(plain)


@pytest.mark.slow
def test_the_cosine_of_hidden_states_is_added(run, teacher):
    whole = {**NO_DROPOUT, "train.max_steps": 1}
    without, with_hidden = run("a", alpha=0.5, overrides=whole), run("b", alpha=0.5, hidden=2.0, overrides=whole)
    cosine = (logged(with_hidden)[0] - logged(without)[0]) / (0.5 * 2.0)
    assert 0 < cosine < 2
    nearer = run("c", student=None, student_layers=[0, 1], alpha=0.5, hidden=2.0, overrides=whole)
    alone = run("d", student=None, student_layers=[0, 1], alpha=0.5, overrides=whole)
    assert logged(nearer)[0] == pytest.approx(logged(alone)[0], abs=1e-3)  # the student is the teacher


@pytest.mark.slow
def test_the_loss_does_not_depend_on_the_size_of_micro_batches(run):
    whole = {**NO_DROPOUT, "train.num_train_epochs": 1, "train.max_steps": -1}
    runs = [
        run(f"of-{size}", alpha=0.5, hidden=1.0, overrides={**whole, "placement.per_device_train_batch_size": size})
        for size in (8, 2)
    ]
    assert_same_runs(*runs)


@pytest.mark.slow
def test_a_student_learns_what_the_teacher_knows_without_a_label(glue, checkpoint, tmp_path):
    long = {**RUN, "train.max_steps": 60, "train.learning_rate": 5e-3}
    taught = finetune("sst2", model=str(checkpoint), data_dir=glue, output_dir=tmp_path / "teacher", overrides=long)
    assert taught.metrics["eval_accuracy"] == 1
    rows = list(csv.DictReader((glue / "SST-2" / "train.tsv").read_text().splitlines(), delimiter="\t"))
    unlabelled = tmp_path / "unlabelled.csv"
    unlabelled.write_text("\n".join(["sentence", *(row["sentence"] for row in rows)]) + "\n")
    long["data.train_file"] = str(unlabelled)
    done = distill(taught.output_dir, checkpoint, alpha=1, output_dir=tmp_path / "student", overrides=long)
    assert done.metrics["eval_accuracy"] == 1
    assert load(done.output_dir).predict("the film is lovely")[0]["label"] == "positive"


# ---- the run --------------------------------------------------------------------------------------------------------


def test_the_run_is_an_ordinary_one_and_can_be_repeated(run, teacher, glue, tmp_path):
    done = run("run", alpha=0.25, temperature=3)
    recipe = yaml.safe_load((done.output_dir / "recipe.yaml").read_text())
    expected = {"teacher": str(teacher), "objective": "distilbert", "alpha": 0.25, "temperature": 3.0, "hidden": 0.0}
    assert recipe["train"]["distill"] == {**expected, "teacher_layer": None, "relation_heads": None}
    card = (done.output_dir / "README.md").read_text()
    assert "Distilled from `…/teacher` with α 0.25, temperature 3." in card
    assert str(tmp_path) not in card
    record = json.loads((done.output_dir / "run.json").read_text())
    assert record["data"]["teacher"]["source"] == str(teacher)
    assert evaluate(done.output_dir, data_dir=glue).metrics["eval_accuracy"] == done.metrics["eval_accuracy"]
    again = finetune(done.output_dir / "recipe.yaml", output_dir=tmp_path / "again")
    assert_equal_weights(again, done)


class Killed(Exception):
    pass


class Kill(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 3:
            raise Killed


@pytest.mark.numeric
def test_a_killed_run_continues_bit_for_bit(run):
    saved = {"train.save_strategy": "steps", "train.save_steps": 2, "train.max_steps": 5}
    whole = run("whole", alpha=0.5, hidden=0.5, overrides=saved)
    with pytest.raises(Killed):
        run("killed", alpha=0.5, hidden=0.5, overrides=saved, callbacks=[Kill()])
    resumed = run("killed", alpha=0.5, hidden=0.5, overrides=saved, resume=True)
    assert_equal_weights(resumed, whole)
    with pytest.raises(RecipeError, match=r"train.distill was .* and is now"):
        run("killed", alpha=0.6, hidden=0.5, overrides=saved, resume=True)


@pytest.mark.slow
def test_a_resumed_run_notices_another_teacher(run, teacher):
    saved = {"train.save_strategy": "steps", "train.save_steps": 2}
    with pytest.raises(Killed):
        run("killed", overrides=saved, callbacks=[Kill()])
    changed = load_file(teacher / "model.safetensors")
    changed["classifier.bias"] += 1
    save_file(changed, teacher / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"have changed since it began \(teacher\)"):
        run("killed", overrides=saved, resume=True)


def test_only_the_student_is_trained(teacher, student, tmp_path):
    recipe = distillation_recipe(teacher, student, alpha=0.5, hidden=1.0, overrides=RUN)
    trainer = prepare_finetuning(recipe, tmp_path / "prepared").trainer
    model = trainer.objective._teacher.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer.train()
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_a_damaged_teacher_is_refused(run, teacher, tmp_path):
    weights = load_file(teacher / "model.safetensors")
    weights["bert.encoder.layer.1.output.dense.weight"][0, 0] = torch.nan
    save_file(weights, teacher / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"an output of .*teacher is not finite"):
        run("run")
    assert not (tmp_path / "run").exists()


def test_an_infinite_output_is_no_missing_one(teacher, student, tmp_path):
    recipe = distillation_recipe(teacher, student, alpha=0.5, overrides=RUN)
    trainer = prepare_finetuning(recipe, tmp_path / "prepared").trainer
    with torch.no_grad():
        trainer.objective._teacher.model.classifier.bias[0] = torch.nan
    with pytest.raises(TrainingError, match="the loss is nan"):
        trainer.train()


# ---- students -------------------------------------------------------------------------------------------------------


def test_a_student_of_the_teachers_layers_starts_with_their_weights(run, teacher):
    still = {"train.max_steps": 1, "train.learning_rate": 1e-12}
    done = run("run", student=None, student_layers=[1], alpha=0.5, overrides=still)
    assert load_config(str(done.output_dir)).num_hidden_layers == 1
    before, after = load_file(teacher / "model.safetensors"), weights(done)
    for name, value in after.items():
        torch.testing.assert_close(value, before[name.replace("layer.0.", "layer.1.")], rtol=0, atol=1e-6)
    card = (done.output_dir / "README.md").read_text()
    assert "starting from `…/teacher`, layers 1 of it" in card


def test_a_student_of_a_size_has_new_weights_and_the_teachers_tokenizer(run, teacher):
    small = {"model.num_hidden_layers": 1, "model.hidden_size": 16, "model.intermediate_size": 32}
    done = run("run", student="bert-mini", alpha=0.5, overrides={**small, "model.num_attention_heads": 2})
    config = load_config(str(done.output_dir))
    assert (config.hidden_size, config.num_hidden_layers, config.max_position_embeddings) == (16, 1, 512)
    ours, theirs = (load_tokenizer(str(each), config=None) for each in (done.output_dir, teacher))
    assert ours.get_vocab() == theirs.get_vocab()
    assert "starting from new weights" in (done.output_dir / "README.md").read_text()


def test_what_is_chosen_for_a_new_student_is_that_of_its_sizes(fine_tuned, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "a good film,good\nthe plot is awful,bad\n" * 20)
    given = {"data.train_file": str(rows), "train.max_steps": 1, "model.max_position_embeddings": 16}
    recipe = distillation_recipe(fine_tuned("film"), "bert-mini", overrides={**given, "data.max_seq_length": 0})
    prepared = prepare_finetuning(recipe, tmp_path / "run")
    assert "for a hidden size of 256" in capsys.readouterr().err
    assert prepared.run.recipe.data.max_seq_length == 16
    with pytest.raises(RecipeError, match="max_seq_length: 17 tokens, but the new model has 16 positions"):
        distill(
            fine_tuned("film"), "bert-mini", output_dir=tmp_path / "x", overrides={**given, "data.max_seq_length": 17}
        )


def test_the_recipe_has_the_sizes_of_the_student(teacher, student):
    recipe = distillation_recipe(teacher, "bert-mini", alpha=0.7)
    assert recipe.model == {
        "name_or_path": None,
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    }
    assert recipe.name == "finetune/glue/sst2"
    assert distillation_recipe(teacher, student).train["distill"]["alpha"] == 0.5


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"student": None}, "no student; give --student"),
        ({"student_layers": [0]}, "either --student or --student-layers"),
        ({"student": None, "student_layers": [0, 9]}, "expected numbers from 0 to 1 in ascending order, got 0, 9"),
        ({"student": "bert-mni"}, "--student bert-mni: neither a folder nor a size .* did you mean 'bert-mini'"),
        ({"alpha": 1.5}, "train.distill.alpha: expected 0 to 1, got 1.5"),
        ({"alpha": float("nan")}, "train.distill: expected finite numbers, got nan"),
        ({"corpus": []}, "no text to train on; give --corpus"),
        ({"temperature": 0.0}, "train.distill.temperature: expected more than 0, got 0.0"),
        ({"hidden": -1.0}, "train.distill.hidden: expected at least 0"),
        ({"teacher": "no/such/teacher"}, "no such folder|neither a local folder"),
        ({"overrides": {"train.distill": None}}, "expected keys and values, as teacher is given too, got None"),
        ({"overrides": {"train.distill.beta": 1}}, "train.distill.beta: unknown key"),
        ({"objective": "minilm"}, "train.distill.objective: minilm is for pre-training"),
        ({"objective": "minilm", "hidden": 1.0}, "hidden: has no effect with the objective minilm"),
        ({"relation_heads": 2}, "relation_heads: has no effect with the objective distilbert"),
        ({"alpha": 1.0, "overrides": {"train.class_weights": "balanced"}}, "train.class_weights: changes the loss of"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(run, tmp_path, given, message):
    with pytest.raises(BertkitError, match=message):
        run("run", **given)
    assert not (tmp_path / "run").exists()


def test_a_student_whose_tokenizer_keeps_upper_case_is_refused(run, student, tmp_path):
    other = shutil.copytree(student, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((other / "tokenizer_config.json").read_text())
    (other / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    glue = write_glue(tmp_path / "glue")
    rows = (glue / "SST-2" / "train.tsv").read_text().replace("the plot", "The plot")
    (glue / "SST-2" / "train.tsv").write_text(rows)
    with pytest.raises(CheckpointError, match=r"different tokenizers: the ids of input \d+ of .*train.tsv"):
        run("run", student=str(other), data_dir=glue)


def relabelled(teacher, names, folder):
    other = shutil.copytree(teacher, folder)
    config = json.loads((other / "config.json").read_text())
    config["id2label"] = dict(enumerate(names))
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (other / "config.json").write_text(json.dumps(config))
    return other


@pytest.mark.numeric
def test_labels_in_another_order_are_mapped_by_name(run, teacher, tmp_path):
    """A teacher whose labels are swapped, in their names and in the head, teaches the same."""
    other = relabelled(teacher, ["positive", "negative"], tmp_path / "other")
    head = load_file(other / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        head[name] = head[name].flip(0).contiguous()
    save_file(head, other / "model.safetensors", metadata={"format": "pt"})
    one, two = run("one", alpha=1), run("two", alpha=1, teacher=other)
    np.testing.assert_allclose(logged(one), logged(two), rtol=1e-5)


def test_other_labels_are_refused_with_both_lists(run, teacher, tmp_path):
    other = relabelled(teacher, ["good", "bad"], tmp_path / "other")
    with pytest.raises(DataError) as refused:
        run("run", teacher=other)
    assert "'negative', 'positive'" in str(refused.value)
    assert "'good', 'bad'" in str(refused.value)


def test_a_teacher_of_another_task_is_refused(run, fine_tuned, glue):
    with pytest.raises(CheckpointError, match="has the head BertForTokenClassification; the task sst2 needs"):
        run("run", teacher=fine_tuned("entities"), recipe="sst2", data_dir=glue)


@pytest.mark.parametrize(
    ("problem", "labels", "message"),
    [
        ({"problem": "regression"}, ("1", "2.5"), "single_label_.* with 3 outputs, and the task .* is regression"),
        ({"problem": "multi_label", "label_separator": "|"}, ("good", "bad|fair"), "and the task .* is multi_label_"),
    ],
)
def test_a_teacher_of_another_problem_is_refused(fine_tuned, tmp_path, problem, labels, message):
    teacher, rows = fine_tuned("film"), tmp_path / "rows.csv"
    rows.write_text("text,label\n" + f"a good film,{labels[0]}\nthe plot is awful,{labels[1]}\n" * 20)
    overrides = {**RUN, "data.train_file": str(rows), **{f"task.{key}": value for key, value in problem.items()}}
    with pytest.raises(CheckpointError, match=message):
        distill(teacher, str(teacher), output_dir=tmp_path / "run", recipe="classification", overrides=overrides)


def test_rows_without_labels_need_a_teacher_alone(run, tmp_path):
    file = tmp_path / "unlabelled.csv"
    file.write_text("sentence\nthe film is lovely\nthe plot is awful\n")
    with pytest.raises(
        DataError, match=r"unlabelled.csv: the rows have no labels.* needs train.distill.alpha 1, got 0.5"
    ):
        run("run", overrides={"data.train_file": str(file)})
    with pytest.raises(DataError, match="no column 'label'"):
        run("run", alpha=0, overrides={"data.train_file": str(file)})
