"""Fine-tuning end to end on a tiny model: what is left behind, and that evaluate and predict say the same."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertkit import evaluate, finetune, load, load_recipe
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.runtime.progress import counted
from bertkit.tasks.encoding import encode_split
from bertkit.training.trainer import BertkitTrainer
from tests.devices.conftest import finetune as finetune_rows
from tests.stock_models import stock_checkpoint
from tests.training.conftest import SMALL, STRAIGHT, log_history, logged, same_weights, write_glue

FAST = {
    "data.max_seq_length": 16,
    "train.learning_rate": 5e-3,
    "train.num_train_epochs": 12,
    "train.logging_steps": 2,
    "train.global_train_batch_size": 16,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    return write_glue(tmp_path_factory.mktemp("data") / "glue")


@pytest.fixture(scope="module")
def run(glue, checkpoint, tmp_path_factory, module_patch):
    """A finished run, which tests do not change."""
    out = tmp_path_factory.mktemp("finished") / "run"
    return finetune("sst2", model=str(checkpoint), data_dir=glue, output_dir=out, overrides=FAST)


@pytest.mark.numeric
def test_a_run_learns_and_leaves_what_is_promised(run, glue):
    out = run.output_dir
    promised = """recipe.yaml config.json model.safetensors tokenizer.json tokenizer_config.json all_results.json
        train_results.json eval_results.json predict_results.json run.json trainer_state.json README.md
        predict_results_sst2.tsv""".split()
    assert set(promised) <= {path.name for path in out.iterdir()}
    assert run.metrics["eval_accuracy"] == 1.0
    samples = [run.metrics[f"{split}_samples"] for split in ("train", "eval", "predict")]
    assert samples == [96, 24, 10]
    lines = (out / "predict_results_sst2.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    tests = [line.split("\t") for line in (glue / "SST-2" / "test.tsv").read_text().splitlines()[1:]]
    assert lines[1:] == [f"{index}\t{int('lovely' in text)}" for index, text in tests]
    config = json.loads((out / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    assert str(glue) not in (out / "README.md").read_text()
    assert "training_args.bin" not in {path.name for path in out.iterdir()}


def test_a_table_of_long_texts_has_long_inputs(tuned, tmp_path, capsys):
    """The encoder has 64 positions, fewer than the usual 128 tokens."""
    table = tmp_path / "films.csv"
    rows = [f"a {'good film ' * 50}{number},good\na {'bad plot ' * 3}{number},bad" for number in range(10)]
    table.write_text("\n".join(["text,label", *rows]))
    values = {"train.max_steps": 2, "train.contrast_steps": 1, "data.folds": 2, "placement.device": "cpu"}
    run = tuned("classification", values, train_file=str(table))
    assert load_recipe(run.output_dir / "recipe.yaml").data.max_seq_length == 64
    assert load(run.output_dir, device="cpu").task.data.max_seq_length == 64
    assert "train: 10 of 20 inputs cut" in capsys.readouterr().err
    tuned("classification", values, train_file=str(table), resume=True)
    with pytest.raises(RecipeError, match=r"data\.max_seq_length was 64 and is now 32"):
        tuned("classification", {**values, "data.max_seq_length": 32}, train_file=str(table), resume=True)


@pytest.mark.numeric
def test_evaluate_gives_the_score_of_the_run(run, glue):
    again = evaluate(run.output_dir, data_dir=glue)
    assert again.metrics["eval_accuracy"] == run.metrics["eval_accuracy"]
    assert again.examples == 24
    assert evaluate(run.output_dir) == again  # the data of the run
    limited = evaluate(run.output_dir, max_samples=5)
    assert limited.examples == 5


@pytest.mark.numeric
def test_a_run_in_bf16_reports_the_scores_that_others_will_find(tuned, glue):
    overrides = {**FAST, "train.num_train_epochs": 1, "placement.mixed_precision": "bf16"}
    out = tuned("sst2", overrides, data_dir=glue)
    predictor = load(out.output_dir, device="cpu", data_dir=str(glue))
    features, _ = encode_split(
        predictor.task, predictor.task.load(["validation"])[1]["validation"], predictor.tokenizer
    )
    columns = features.to_dict()
    logits = torch.tensor(predictor.outputs(columns))
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(columns["labels"])).item()
    assert loss == pytest.approx(out.metrics["eval_loss"], abs=1e-6)


@pytest.mark.numeric
def test_auto_classes_give_the_logits_of_predict(run):
    texts = ["the film is lovely", "the plot is awful"]
    predictor = load(run.output_dir, device="cpu")
    predictions = predictor.predict(texts)
    model = AutoModelForSequenceClassification.from_pretrained(run.output_dir)
    tokenizer = AutoTokenizer.from_pretrained(run.output_dir)
    with torch.no_grad():
        probabilities = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.softmax(-1).numpy()
    for prediction, row in zip(predictions, probabilities, strict=True):
        assert list(prediction["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-6)
    assert [prediction["label"] for prediction in predictions] == ["positive", "negative"]


def test_a_stock_bert_checkpoint_is_a_start_too(tuned, glue, tmp_path):
    stock = stock_checkpoint(tmp_path / "stock", "bert", "AutoModelForPreTraining")
    overrides = {**FAST, "train.learning_rate": 1e-12, "train.num_train_epochs": 1}
    out = tuned("sst2", overrides, model=str(stock), data_dir=glue).output_dir
    before, after = (load_file(folder / "model.safetensors") for folder in (stock, out))
    name = "bert.encoder.layer.1.output.dense.weight"
    assert torch.allclose(after[name], before[name], atol=1e-6)


@pytest.mark.numeric
def test_accumulation_does_not_change_the_curve_even_where_batches_are_uneven(tuned, glue):
    """96 examples in batches of 20: the last one of an epoch has 16, cut as 5 + 5 + 5 + 1."""
    curves = []
    for per_device in (20, 5):
        overrides = {
            **FAST,
            "train.global_train_batch_size": 20,
            "train.train_sampling_strategy": "sequential",
            "train.logging_steps": 1,
            "train.num_train_epochs": 2,
            "train.learning_rate": 1e-3,
            "model.hidden_dropout_prob": 0,
            "model.attention_probs_dropout_prob": 0,
            "placement.per_device_train_batch_size": per_device,
        }
        out = tuned("sst2", overrides, f"run-{per_device}", data_dir=glue).output_dir
        curves.append([logged(out), logged(out, "grad_norm")])
    assert len(curves[0][0]) == len(curves[1][0]) == 10
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)  # norms of gradients near 0 differ by rounding


def test_model_fields_can_be_set_when_starting_from_a_checkpoint(tuned, glue):
    overrides = {**FAST, "train.max_steps": 1, "model.hidden_dropout_prob": 0, "model.classifier_dropout": 0.4}
    out = tuned("sst2", overrides, data_dir=glue)
    config = json.loads((out.output_dir / "config.json").read_text())
    assert (config["hidden_dropout_prob"], config["classifier_dropout"]) == (0, 0.4)


def test_what_is_cut_is_recorded_and_said(tuned, glue, capfd):
    out = tuned("sst2", {**FAST, "data.max_seq_length": 5, "train.max_steps": 1}, data_dir=glue)
    record = json.loads((out.output_dir / "run.json").read_text())
    cut = record["truncation"]["train"]
    assert cut["examples"] == cut["of_examples"] == 96
    assert cut["of_tokens"] - cut["tokens"] == 96 * 5
    said = (
        f"train: 96 of 96 inputs cut (100.0 %), {cut['tokens']} tokens lost; a larger --max-seq-length cuts less if "
        "the encoder reads more, --long-text chunk cuts nothing; both take longer\n"
    )
    assert said in capfd.readouterr().err
    assert f"- {said}" in (out.output_dir / "README.md").read_text()


def test_both_validation_sets_of_mnli_are_scored_and_all_its_test_sets_predicted(checkpoint, tmp_path):
    """All texts are alike, so that one class is predicted throughout: a set's accuracy is the share of that class."""
    classes = ["entailment", "neutral", "contradiction"]
    shares = {"dev_matched": (3, 2, 1), "dev_mismatched": (1, 3, 2)}  # of six rows
    header, pair = "index\tsentence1\tsentence2", "a film\tthe plot is lovely"
    for folder in ("MNLI", "AX"):
        (tmp_path / folder).mkdir()
    for file, counts in {"train": (2, 2, 2), **shares}.items():
        labels = [label for label, count in zip(classes, counts, strict=True) for _ in range(count)]
        rows = [f"{row}\t{pair}\t{label}" for row, label in enumerate(labels)]
        (tmp_path / "MNLI" / f"{file}.tsv").write_text("\n".join([f"{header}\tgold_label", *rows]) + "\n")
    for number, file in enumerate(("MNLI/test_matched", "MNLI/test_mismatched", "AX/diagnostic"), start=1):
        rows = [f"{10 * number + row}\t{pair}" for row in range(number)]
        (tmp_path / f"{file}.tsv").write_text("\n".join([header, *rows]) + "\n")
    out = tmp_path / "run"
    overrides = {**FAST, "train.num_train_epochs": 1}
    run = finetune("mnli", model=str(checkpoint), data_dir=tmp_path, output_dir=out, overrides=overrides)
    evaluation = json.loads((out / "eval_results.json").read_text())
    predicted = classes.index((out / "predict_results_mnli.tsv").read_text().split()[-1])
    expected = [counts[predicted] / 6 for counts in shares.values()]
    assert [evaluation["eval_accuracy"], evaluation["eval_accuracy_mm"]] == pytest.approx(expected)
    for suffix, split in (("", "validation"), ("_mm", "validation_mm")):
        again = evaluate(out, split=split, data_dir=tmp_path).metrics
        assert again["eval_accuracy"] == evaluation[f"eval_accuracy{suffix}"] == run.metrics[f"eval_accuracy{suffix}"]
    assert [name for name in evaluation if name.endswith("_mm")] == ["eval_loss_mm", "eval_accuracy_mm"]
    for name, first, rows in (("mnli", 10, 1), ("mnli_mm", 20, 2), ("ax", 30, 3)):
        lines = (out / f"predict_results_{name}.tsv").read_text().splitlines()
        assert [line.split("\t")[0] for line in lines] == ["index", *(str(first + row) for row in range(rows))]
        assert {line.split("\t")[1] for line in lines[1:]} == {classes[predicted]}
    card = (out / "README.md").read_text()
    scores = [line for line in card.splitlines() if line.startswith("| accuracy")]
    assert scores == [f"| accuracy | {expected[0]:.4f} | 6 examples |", f"| accuracy_mm | {expected[1]:.4f} |  |"]
    # Numbers of rows and times of the test sets are no scores.
    assert "| samples" not in card
    assert {name for name, _ in run.summary().values} == {"loss", "accuracy", "loss_mm", "accuracy_mm"}
    record = json.loads((out / "run.json").read_text())
    assert {split: facts["examples"] for split, facts in record["data"].items()} == {
        "train": 6, "validation": 6, "validation_mm": 6, "test": 1, "test_mm": 2, "ax": 3
    }  # fmt: skip
    for split, facts in record["data"].items():
        number = counted(facts["examples"], "example")
        assert f"- {split}: …/{facts['source'].rpartition('/')[2]}, {number}\n" in card


def test_a_score_of_the_test_set_that_is_not_defined_is_left_out(tuned, tmp_path, capsys):
    """A run that is trained is not lost for it: its test rows have one number."""
    for name, numbers in {"train": range(12), "validation": range(6), "test": [2.5] * 3}.items():
        rows = [f"{name} {'good ' * row}film,{number}" for row, number in enumerate(numbers)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    files = {f"data.{name}_file": str(tmp_path / f"{name}.csv") for name in ("train", "validation", "test")}
    overrides = {**FAST, **files, "train.max_steps": 2, "task.problem": "regression", "train.report": True}
    run = tuned("finetune/classification", overrides)
    assert "predict_mse" in run.metrics
    assert "predict_pearson" not in run.metrics
    assert "warning: test: pearson and spearmanr left out: not defined for these rows" in capsys.readouterr().err
    assert json.loads((run.output_dir / "run.json").read_text())["finished"] is True


def test_the_recipe_of_a_run_repeats_it_from_another_folder(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here" / "bert").symlink_to(checkpoint)
    nouns = [f"{noun} {number}" for noun in ("film", "plot", "story") for number in range(5)]
    rows = [f"the {noun} is {word},{word}" for noun in nouns for word in ("awful", "lovely")]
    (tmp_path / "here" / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    monkeypatch.chdir(tmp_path / "here")
    overrides = {**FAST, "train.num_train_epochs": 3, "data.train_file": "rows.csv", "model.name_or_path": "bert"}
    overrides |= {"data.folds": 2, "train.contrast_steps": 2}  # by themselves 5 and 75
    one = finetune("finetune/classification", output_dir="run", overrides=overrides).output_dir.resolve()
    recipe = load_recipe(one / "recipe.yaml")
    assert recipe.data.train_file == str(tmp_path / "here" / "rows.csv")
    assert recipe.model["name_or_path"] == str(checkpoint.resolve())
    monkeypatch.chdir(tmp_path / "elsewhere")
    two = finetune(one / "recipe.yaml", output_dir="run").output_dir.resolve()
    assert two == tmp_path / "elsewhere" / "run"
    assert same_weights(one, two)
    then, now = (json.loads((out / "eval_results.json").read_text()) for out in (one, two))
    assert then["eval_loss"] == now["eval_loss"]
    assert load_recipe(two / "recipe.yaml").to_dict() == recipe.to_dict()
    other = finetune(one / "recipe.yaml", output_dir="other", overrides={"train.seed": 1}).output_dir
    assert not same_weights(one, other)


def test_nothing_to_start_from_is_refused(glue, tmp_path):
    blocks = load_recipe("sst2").to_dict()
    del blocks["model"]["name_or_path"]
    with pytest.raises(RecipeError, match="no checkpoint to start from"):
        finetune(blocks, data_dir=glue, output_dir=tmp_path / "run")


def test_values_of_data_need_a_fine_tuned_checkpoint(checkpoint):
    with pytest.raises(CheckpointError, match="does not say which task"):
        load(checkpoint, data_dir="glue")


def test_a_run_that_predicts_one_class_ends_with_a_warning(tuned, glue, capsys, monkeypatch):
    monkeypatch.setattr(BertkitTrainer, "outputs", lambda trainer, examples: np.zeros((len(examples), 2)))
    run = tuned("sst2", FAST | {"train.max_steps": 1}, data_dir=glue)
    [warning] = json.loads((run.output_dir / "run.json").read_text())["warnings"]
    assert warning.startswith("warning: all predictions are 'negative' on the validation set")
    assert "or train.class_weights if most examples have this label" in warning
    assert warning in capsys.readouterr().err
    weighted = FAST | {"train.max_steps": 1, "train.class_weights": "balanced"}
    other = tuned("sst2", weighted, data_dir=glue, name="weighted")
    [warning] = json.loads((other.output_dir / "run.json").read_text())["warnings"]
    assert "class_weights" not in warning
    assert run.collapse == "all predictions are 'negative'"
    assert "collapsed: all predictions are 'negative' on" in (run.output_dir / "README.md").read_text()


def test_a_run_that_always_takes_the_first_choice_is_not_told_to_weight_classes(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(BertkitTrainer, "outputs", lambda trainer, examples: np.zeros((len(examples), 2)))
    out = finetune_rows("multiple-choice", tmp_path, checkpoint, {**SMALL, **STRAIGHT, "train.max_steps": 1})
    [warning] = json.loads((out / "run.json").read_text())["warnings"]
    assert warning.startswith("warning: all predictions are ")
    assert warning.endswith("try another train.learning_rate or train.seed")


def test_tokens_per_second_count_training_alone(tuned, glue, tmp_path, monkeypatch):
    slept = 0.5
    evaluated = BertkitTrainer.evaluation_loop

    def slow_evaluation(self, *args, **kwargs):
        time.sleep(slept)
        return evaluated(self, *args, **kwargs)

    monkeypatch.setattr(BertkitTrainer, "evaluation_loop", slow_evaluation)
    overrides = {**FAST, "train.num_train_epochs": 2, "train.eval_strategy": "epoch"}
    run = tuned("sst2", overrides, data_dir=glue)
    tokens = json.loads((tmp_path / "run" / "run.json").read_text())["tokens_seen"]
    training = tokens / run.metrics["train_tokens_per_second"]
    assert training < run.metrics["train_runtime"] - 2 * slept
    last = [entry for entry in log_history(tmp_path / "run") if "train_tokens_per_second" in entry][-1]
    assert last["step"] == 12
    assert last["num_input_tokens_seen"] / last["train_tokens_per_second"] < run.metrics["train_runtime"] - 2 * slept


def test_a_class_that_only_other_tables_have_counts_as_wrong(tuned, tmp_path, capsys):
    texts = [
        f"the {noun} {number} is {word},{word}" for noun in ("film", "plot") for number in range(20) for word in "ab"
    ]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *texts]) + "\n")
    (tmp_path / "other.csv").write_text(
        "\n".join(["text,label", *texts[:6], "the film is c,c", "the plot is c,c"]) + "\n"
    )
    files = {f"data.{name}_file": str(tmp_path / "other.csv") for name in ("validation", "test")}
    overrides = {**FAST, **files, "data.train_file": str(tmp_path / "train.csv"), "train.class_weights": "balanced"}
    overrides |= {"placement.per_device_eval_batch_size": 1, "train.report": True}  # a batch may have no known label
    overrides["train.num_train_epochs"] = 1
    run = tuned("finetune/classification", overrides)
    line = "2 of 8 rows have a class that is not in training: 'c' 2, first in line 8; they count as wrong"
    printed = capsys.readouterr().err
    assert printed.count(f"validation: warning: {line}") == printed.count(f"test: warning: {line}") == 1
    assert run.metrics["eval_accuracy"] <= 6 / 8
    scores = evaluate(run.output_dir, split="test").metrics
    assert scores["eval_accuracy"] == run.metrics["eval_accuracy"]
    assert np.isfinite(run.metrics["eval_loss"])
    assert "(not in training)" in (run.output_dir / "report.html").read_text()
