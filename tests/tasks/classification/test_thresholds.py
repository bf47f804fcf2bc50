"""Thresholds, temperatures and the metric that decides: given or fitted, kept, and refused where they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.classification.settings import TaskSettings
from bertkit.tasks.classification.task import ClassificationTask

from .conftest import SEVERAL, many


def decided(task: ClassificationTask, logits: list[list[float]]) -> list[Any]:
    predictions = task.decode(np.array(logits, dtype=np.float32), {}, {})
    return [prediction.get("label", prediction.get("labels")) for prediction in predictions]


def loaded(task: ClassificationTask) -> ClassificationTask:
    return task.load(["train"])[0]


def test_a_threshold_of_two_classes_is_that_of_the_second(task):
    logits = [[0.0, 0.1], [0.0, 3.0], [1.0, 0.0]]  # the second has 0.52, 0.95 and 0.27
    assert decided(loaded(task(train_csv=many("neg pos"))), logits) == ["pos", "pos", "neg"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold=0.9)), logits) == ["neg", "pos", "neg"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold={"pos": 0.2})), logits) == ["pos", "pos", "pos"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold={"neg": 0.6})), logits) == ["pos", "pos", "neg"]
    stricter = loaded(task(train_csv=many("neg pos"))).with_threshold(0.9)
    assert decided(stricter, logits) == ["neg", "pos", "neg"]
    prediction = stricter.decode(np.array(logits[:1]), {}, {})[0]
    assert prediction["probability"] == prediction["probabilities"]["neg"] < 0.5


def test_thresholds_of_several_labels(task):
    logits = [[0.0, 0.0], [2.0, -1.0]]  # 0.5 and 0.5; 0.88 and 0.27
    assert decided(loaded(task(train_jsonl=SEVERAL)), logits) == [["x", "y"], ["x"]]
    assert decided(loaded(task(train_jsonl=SEVERAL, threshold={"y": 0.2})), logits) == [["x", "y"], ["x", "y"]]
    assert decided(loaded(task(train_jsonl=SEVERAL, threshold=0.6)), logits) == [[], ["x"]]


def test_thresholds_of_several_labels_are_tuned_unless_given(task):
    logits, labels = np.array([[-2.0, -3.0], [-1.0, -3.0], [-3.0, -1.0]]), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    scores = loaded(task(train_jsonl=SEVERAL)).score(logits, {"labels": labels}, {})
    assert scores["f1_micro"] == 1
    assert scores["class/y/threshold"] < 0.5
    scores = loaded(task(train_jsonl=SEVERAL, threshold=0.5)).score(logits, {"labels": labels}, {})
    assert scores["f1_micro"] == 0
    assert "class/y/threshold" not in scores


def test_labels_share_a_tuned_threshold_unless_each_counts_alike(task):
    logits = np.array([[1.0, -3.0], [0.9, -3.5], [-1.0, -4.0], [-1.1, -1.5]])
    features = {"labels": [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]}
    scores = loaded(task(train_jsonl=SEVERAL)).score(logits, features, {})
    assert scores["class/x/threshold"] == scores["class/y/threshold"]
    assert scores["f1_micro"] == pytest.approx(0.8)  # two of three labels, and no other
    scores = loaded(task(train_jsonl=SEVERAL, main_metric="f1_macro")).score(logits, features, {})
    assert scores["class/x/threshold"] > scores["class/y/threshold"]
    assert scores["f1_macro"] == 1


BOTH = pytest.mark.parametrize("table", [{"train_csv": many("neg pos")}, {"train_jsonl": SEVERAL}])


@BOTH
def test_what_is_fitted_to_the_validation_set_is_kept_in_the_checkpoint(task, through_checkpoint, table):
    fitting = loaded(task(**table, threshold="tuned", calibrate=True))
    rng = np.random.default_rng(0)
    several = fitting.settings.problem == "multi_label"
    labels = rng.integers(0, 2, (50, 2)) if several else rng.integers(0, 2, 50)
    of_second = (labels if several else np.stack([1 - labels, labels], 1)) - 0.8
    logits = 4 * (of_second + rng.normal(size=(50, 2)))
    features = {"labels": labels.astype(float).tolist() if several else labels.tolist()}
    scores = fitting.score(logits, features, {})
    assert scores["ece"] < scores["ece_uncalibrated"]
    fitted, message = fitting.learn_from({f"eval_{name}": value for name, value in scores.items()})
    assert message.startswith("fitted to the validation set: temperature ")
    assert set(fitted.settings.threshold) == ({"x", "y"} if several else {"pos"})
    again = through_checkpoint(fitted)
    same = again.score(logits, features, {})
    assert same == {name: pytest.approx(scores[name]) for name in same}
    assert again.learn_from({}) == (again, None)
    assert "temperature" in pytest.importorskip("bertkit.features.sharing.kinds").shared(again).stock_note()
    assert scores["f1_macro"] >= loaded(task(**table)).score(logits, features, {})["f1_macro"] - 0.05


def test_of_weights_with_the_temperature_no_error_before_calibration_is_told(task):
    logits, features = np.array([[3.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), {"labels": [0, 1, 1]}
    calibrating = loaded(task(train_csv=many("neg pos"), calibrate=True))
    assert {"ece", "ece_uncalibrated"} <= calibrating.score(logits, features, {}).keys()
    scores = calibrating.with_settings(temperature=1.0).score(logits, features, {})
    assert "ece" in scores
    assert "ece_uncalibrated" not in scores


@BOTH
def test_a_temperature_changes_probabilities_and_no_prediction_at_one_half(task, table):
    logits, plain = np.random.default_rng(0).normal(size=(50, 2)), loaded(task(**table))
    warm = plain.with_settings(calibrate=True, temperature=3.0)
    assert decided(warm, logits.tolist()) == decided(plain, logits.tolist())
    assert not np.allclose(warm.probabilities(logits), plain.probabilities(logits))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"threshold": 0.3}, "task.threshold: for two classes, or for several labels per row; this task has 3 classes"),
        ({"threshold": "tuned"}, "task.threshold: for two classes"),
        (
            {"main_metric": "f1"},
            "task.main_metric: 'f1' is not a score of this task; expected one of accuracy",
        ),
        ({"main_metric": "class/d/f1"}, "did you mean"),
    ],
)
def test_settings_that_do_not_fit_the_classes_are_refused(task, settings, expected, refusal):
    assert expected in refusal(task(train_csv=many("a b c"), **settings))


def test_settings_that_do_not_fit_other_problems_are_refused(task, refusal):
    numbers = "text,label\n" + "".join(f"text {row},{row / 7}\n" for row in range(30))
    for name, value in (("threshold", 0.4), ("calibrate", True), ("temperature", 0.4)):
        assert f"task.{name}: numbers have no labels" in refusal(task(train_csv=numbers, **{name: value}))
    wrong = refusal(task(train_jsonl=SEVERAL, threshold={"z": 0.4}, temperature={"w": 2.0}))
    assert "task.threshold: 'z' is no label of the training data" in wrong
    assert "task.temperature: 'w' is no" in wrong
    both = refusal(task(train_csv=many("neg pos"), threshold={"neg": 0.4, "pos": 0.3}))
    assert "of two classes, only one has a threshold" in both


@pytest.mark.parametrize("threshold", [0, 1, -0.1, "low", {"x": 1.5}, float("nan")])
def test_thresholds_lie_between_0_and_1(threshold):
    with pytest.raises(ValueError, match=r"^threshold: expected"):
        TaskSettings(threshold=threshold)


def test_the_threshold_of_a_prediction_is_checked(task):
    with pytest.raises(RecipeError, match=r"^--threshold: expected numbers between 0 and 1, got 2"):
        loaded(task(train_csv=many("neg pos"))).with_threshold(2)
    for threshold in (0.3, 0.5):  # also what is the default for others
        with pytest.raises(RecipeError, match=r"^--threshold: for two classes"):
            loaded(task(train_csv=many("a b c"))).with_threshold(threshold)


def test_the_metric_that_decides_may_be_any_score(task):
    assert loaded(task(train_csv=many())).main_metric == "accuracy"
    assert loaded(task(train_csv=many(), main_metric="class/pos/f1")).main_metric == "class/pos/f1"
    assert loaded(task(train_csv=many(), main_metric="pos_f1")).main_metric == "class/pos/f1"  # as it was called
    average = loaded(task(train_csv=many("average pos"), main_metric="average_precision"))
    assert average.main_metric == "average_precision"
    assert loaded(task(train_jsonl=SEVERAL)).main_metric == "average_precision"


def test_calibration_and_thresholds_are_fitted_to_known_classes(task):
    both = task(calibrate=True, threshold="tuned", train_csv=many())
    logits, labels = np.eye(2)[[1, 1, 0, 0, 1]] * 3, [1, 0, 0, 1, 1]
    found, _ = both.load(["train"])
    known = found.score(logits, {"labels": labels}, {})
    more = found.score(np.concatenate([logits, [[0.0, 9.0]]]), {"labels": [*labels, -100]}, {})
    for fitted in ("temperature", "class/pos/threshold"):
        assert more[fitted] == known[fitted]
    none = found.score(logits, {"labels": [-100] * 5}, {})
    assert none["balanced_accuracy"] == 0
    assert "temperature" not in none
