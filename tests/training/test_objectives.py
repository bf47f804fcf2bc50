"""Weighted and focal losses: equal to torch's and scikit-learn's, however the global batch is divided."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import Task
from bertkit.tasks.registry import load_recipe
from bertkit.training.objectives import WeightedObjective, check_class_weights, weighted_objective
from tests.training.conftest import logged

pytestmark = pytest.mark.numeric
NAMES = ["bad", "good", "odd"]


class Classes(Task):
    """A task with these classes."""

    load = encode = decode = score = None  # are not called

    def __init__(self, names):
        self.names = names

    def config(self):
        return {"id2label": dict(enumerate(self.names))}


def weighted(value, names, features):
    """The objective of a recipe with these classes."""
    return weighted_objective(recipe(value), Classes(names), features)


def loss_of(task, logits, labels):
    batch = {"labels": labels}
    return task.loss({"logits": logits}, batch, task.count(batch))


def recipe(value, **train):
    made = load_recipe({"task": {"kind": "classification"}}, {f"train.{key}": each for key, each in train.items()})
    return dataclasses.replace(made, train={**made.train, "class_weights": value})


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_class_ids_have_the_loss_of_torch(shape):
    torch.manual_seed(0)
    logits = torch.randn(*shape, 3, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 1, IGNORE_INDEX, 0]).reshape(shape)
    weights = torch.tensor([0.5, 2.0, 3.0])
    ours = weighted({"bad": 0.5, "good": 2, "odd": 3}, NAMES, {})
    loss = loss_of(ours, logits, labels)
    expected = F.cross_entropy(logits.reshape(-1, 3), labels.reshape(-1), weight=weights, ignore_index=IGNORE_INDEX)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.count({"labels": labels}), torch.tensor(0.5 + 2 + 3 + 2 + 0.5))
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, expected)))


def test_several_labels_have_the_loss_of_torch():
    torch.manual_seed(0)
    logits = torch.randn(4, 3)
    labels = torch.tensor([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 0.0]])
    ours = weighted({"good": 5}, NAMES, {})
    weights = torch.where(labels == 1, torch.tensor([1.0, 5.0, 1.0]), 1.0)
    summed = F.binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")
    torch.testing.assert_close(loss_of(ours, logits, labels), summed / weights.sum())
    missing = labels.clone()
    missing[0] = torch.nan
    rest = F.binary_cross_entropy_with_logits(logits[1:], labels[1:], weight=weights[1:], reduction="sum")
    torch.testing.assert_close(loss_of(ours, logits, missing), rest / weights[1:].sum())


def test_balanced_weights_are_those_of_scikit_learn():
    labels = [0, 0, 0, 0, 0, 1, 2, 2]
    ours = weighted("balanced", NAMES, {"labels": labels})
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(ours.weights[1], expected, rtol=1e-6)
    given = {"train.class_weights": dict(zip(np.array(NAMES), expected, strict=True))}  # numbers and names of numpy
    check_class_weights(load_recipe("classification", given), NAMES)
    tokens = weighted("balanced", NAMES, {"labels": [[0, 0, -100, 0], [-100, 0, 0, 1], [2, 2]]})
    np.testing.assert_allclose(tokens.weights[1], expected, rtol=1e-6)


def test_balanced_weights_of_several_labels():
    labels = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    ours = weighted("balanced", ["rare", "never"], {"labels": labels})
    # of 4 rows: the first label is in 1, the second in none, whose presence has weight 1
    np.testing.assert_allclose(ours.weights, [[4 / 6, 0.5], [2.0, 1.0]], rtol=1e-6)


def test_focal_loss_multiplies_by_the_probability_of_error():
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, IGNORE_INDEX])
    probabilities = logits.softmax(-1)[torch.arange(4), labels[:4]]
    for value, focus in (("focal", 2.0), ("focal:0.5", 0.5)):
        loss = loss_of(weighted(value, NAMES, {}), logits, labels)
        torch.testing.assert_close(loss, ((1 - probabilities) ** focus * -probabilities.log()).mean())


def test_the_gradient_of_the_focal_loss_is_finite_where_the_loss_is_zero():
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss_of(WeightedObjective(focus=0.5), logits, torch.tensor([0])).backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("value", "train", "message"),
    [
        ("even", {}, "expected balanced, focal, focal:EXPONENT, or a weight for each label, got 'even'"),
        ("focal:-1", {}, "expected balanced, focal"),
        ("focal:nan", {}, "expected balanced, focal"),
        ({"good": 0}, {}, "good: expected a positive number, got 0"),
        ({"good": True}, {}, "good: expected a positive number, got True"),
        ({"god": 2.0}, {}, "'god' is no label of the training data; did you mean 'good'?"),
        ("balanced", {"label_smoothing_factor": 0.1}, "does not work together with train.label_smoothing_factor"),
    ],
)
def test_wrong_values_are_refused(value, train, message):
    with pytest.raises(RecipeError) as caught:
        check_class_weights(recipe(value, **train), NAMES)
    assert str(caught.value).startswith("recipe classification: train.class_weights: ")
    assert message in str(caught.value)


def test_a_task_without_classes_is_refused():
    with pytest.raises(RecipeError, match="this task has no classes to weight; remove it"):
        check_class_weights(recipe("balanced"), [])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"the {'film' if row % 3 else 'plot'} is {'lovely' if row % 8 == 0 else 'awful'}" for row in range(40)]
    labels = ["good" if row % 8 == 0 else "bad" for row in range(40)]
    path.write_text(
        "text,label\n"
        + "".join(f"{text} {row},{label}\n" for row, (text, label) in enumerate(zip(rows, labels, strict=True)))
    )
    return path


def test_accumulation_does_not_change_a_weighted_run(tuned, table):
    overrides = {
        "data.train_file": str(table),
        "data.folds": 0,
        "data.max_seq_length": 16,
        "train.class_weights": "balanced",
        "train.global_train_batch_size": 16,
        "train.num_train_epochs": 2,
        "train.logging_steps": 1,
        "train.learning_rate": 1e-3,
        "model.hidden_dropout_prob": 0.0,
        "model.attention_probs_dropout_prob": 0.0,
        "placement.device": "cpu",
        "placement.mixed_precision": "no",
    }
    curves = []
    for size in (16, 4):
        given = {**overrides, "placement.per_device_train_batch_size": size}
        out = tuned("finetune/classification", given, str(size)).output_dir
        curves.append([logged(out), logged(out, "grad_norm")])
    np.testing.assert_allclose(*curves, rtol=1e-4)
    # the weights change the loss: without them the same first step has another
    del overrides["train.class_weights"]
    plain = logged(tuned("finetune/classification", overrides, "plain").output_dir)
    assert abs(plain[0] - curves[0][0][0]) > 1e-4


def test_thresholds_are_fitted_to_the_validation_set_only(tuned, table, capsys):
    overrides = {
        "data.train_file": str(table),
        "data.test_file": str(table),
        "data.folds": 2,
        "data.max_seq_length": 16,
        "task.threshold": "tuned",
        "task.calibrate": True,
        "train.max_steps": 1,
        "train.contrast_steps": 2,
        "placement.device": "cpu",
    }
    run = tuned("finetune/classification", overrides)
    assert "Writing" not in capsys.readouterr().err  # no bar of a library
    assert {"eval_class/good/threshold", "eval_temperature"} <= run.metrics.keys()
    assert "predict_ece" in run.metrics
    assert not {"predict_class/good/threshold", "predict_temperature"} & run.metrics.keys()
    stored = json.loads((run.output_dir / "config.json").read_text())["bertkit_task"]["task"]
    assert stored["threshold"] == {"good": run.metrics["eval_class/good/threshold"]}
    assert stored["temperature"] == 1  # the weights of the last layer are divided by it


@pytest.mark.parametrize(
    "labels", [["good", "bad"], [["good", "long"], ["bad", "long"], ["good"], []]], ids=["classes", "several"]
)
def test_all_that_load_the_model_have_its_temperatures(tuned, labels, tmp_path):
    table = tmp_path / "train.jsonl"
    rows = [{"text": f"a film {row}", "label": labels[row % len(labels)]} for row in range(40)]
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    overrides = {"data.max_seq_length": 16, "train.max_steps": 1, "placement.device": "cpu", "train.seed": 1}
    classifiers, metrics = [], {}
    for calibrate in (False, True):
        values = {**overrides, "data.folds": 0, "task.calibrate": calibrate}
        run = tuned("classification", values, str(calibrate), train_file=table)
        assert ("eval_ece" in run.metrics) == calibrate
        classifiers.append(load_file(run.output_dir / "model.safetensors")["classifier.weight"])
        metrics = run.metrics
    if labels[0] == "good":
        temperatures = torch.tensor([metrics["eval_temperature"]])
    else:
        temperatures = torch.tensor([metrics[f"eval_class/{name}/temperature"] for name in ("bad", "good", "long")])
        assert len(set(temperatures.tolist())) == 3
    plain, divided = classifiers
    torch.testing.assert_close(divided * temperatures[:, None], plain)
    assert json.loads((run.output_dir / "config.json").read_text())["bertkit_task"]["task"]["temperature"] == 1


def test_enough_validation_examples_calibrate_by_themselves(tuned, table, tmp_path):
    validation, values = tmp_path / "validation.csv", {"data.max_seq_length": 16, "train.max_steps": 1}
    for rows, calibrates in ((49, False), (50, True)):
        lines = [f"a {('lovely', 'awful')[row % 2]} film {row},{('good', 'bad')[row % 2]}" for row in range(rows)]
        validation.write_text("text,label\n" + "\n".join(lines))
        files = {"train_file": table, "validation_file": validation}
        run = tuned("classification", {**values, "placement.device": "cpu"}, str(rows), **files)
        assert ("eval_temperature" in run.metrics) == calibrates
        assert ("eval_ece" in run.metrics) == calibrates


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_labels_are_smoothed_over_the_choices_there_are(dtype):
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 4).to(dtype), torch.tensor([3, 0, IGNORE_INDEX])
    logits[1, 2:] = torch.finfo(dtype).min  # as multiple choice leaves those that pad
    logits.requires_grad_()
    loss = loss_of(WeightedObjective(smoothing=0.1), logits, labels)
    parts = [(logits[:1], labels[:1]), (logits[1:2, :2], labels[1:2])]
    expected = sum(F.cross_entropy(each.float(), target, label_smoothing=0.1) for each, target in parts) / 2
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert logits.grad.isfinite().all()
