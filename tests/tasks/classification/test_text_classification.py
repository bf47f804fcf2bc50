"""Classification of texts: what logits are decoded to, how they are scored, and what is taken for prediction."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit import metrics
from bertkit.data.tables import read_table
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask


def settled(problem: str, *names: str, texts: tuple[str, ...] = ("text",)) -> ClassificationTask:
    settings = {"problem": problem, "text_columns": list(texts), "label_column": "label", "label_names": list(names)}
    return ClassificationTask(TaskSettings(**settings), DataSettings())


def test_one_label_has_the_worked_probability():
    """Softmax of (0, ln 3, ln 4): 1, 3 and 4 eighths."""
    task = settled("single_label", "a", "b", "c")
    (prediction,) = task.decode(np.log([[1.0, 3.0, 4.0]]), {}, {})
    assert prediction["label"] == "c"
    assert prediction["probability"] == pytest.approx(0.5)
    assert prediction["probabilities"] == pytest.approx({"a": 0.125, "b": 0.375, "c": 0.5})
    assert task_inference(task).format_prediction(prediction) == "c\t0.5000"


def test_several_labels_have_the_worked_probabilities():
    """The logistic function: ln 3 → 3/4, 0 → 1/2, -ln 4 → 1/5."""
    task = settled("multi_label", "a", "b", "c")
    first, none = task.decode(np.array([[np.log(3), 0.0, -np.log(4)], [-9.0, -9.0, -9.0]]), {}, {})
    assert first["labels"] == ["a", "b"]
    assert first["probabilities"] == pytest.approx({"a": 0.75, "b": 0.5, "c": 0.2})
    assert task_inference(task).format_prediction(first) == "a, b\t0.7500, 0.5000"
    assert none["labels"] == []
    assert task_inference(task).format_prediction(none) == "\t"


def test_a_number_is_the_logit():
    task = settled("regression")
    assert task.decode(np.array([[2.5], [-1.0]]), {}, {}) == [{"score": 2.5}, {"score": -1.0}]
    assert task_inference(task).format_prediction({"score": 2.5}) == "2.5000"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits_do_not_overflow(dtype):
    extreme = np.array([[1e4, -1e4]], dtype=dtype)
    assert settled("single_label", "a", "b").decode(extreme, {}, {})[0]["probabilities"] == {"a": 1.0, "b": 0.0}
    assert settled("multi_label", "a", "b").decode(extreme, {}, {})[0] == {
        "labels": ["a"],
        "probabilities": {"a": 1.0, "b": 0.0},
    }


class TestManyLabels:
    NAMES = tuple(f"c{number}" for number in range(200))

    @given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 200), coarse=st.booleans())
    def test_the_ten_most_probable_are_kept_and_always_the_predicted_ones(self, seed, count, coarse):
        """Against sorting all of them; coarse logits have many ties, of which the first label comes first."""
        logits = np.random.default_rng(seed).normal(size=(3, count)) * 3
        logits = (logits.round() if coarse else logits).astype(np.float32)
        for problem in ("single_label", "multi_label"):
            task = settled(problem, *self.NAMES[:count])
            every = task.with_all_probabilities().decode(logits, {}, {})
            for row, full in zip(task.decode(logits, {}, {}), every, strict=True):
                assert list(full["probabilities"]) == list(self.NAMES[:count])
                if count <= 10:
                    assert row == full
                    continue
                labels = row.get("labels", [row.get("label")])
                ranked = sorted(full["probabilities"].items(), key=lambda item: -item[1])
                assert list(row["probabilities"].values()) == [value for _, value in ranked[: max(10, len(labels))]]
                assert row["probabilities"].items() <= full["probabilities"].items()
                assert set(labels) <= row["probabilities"].keys()
                if problem == "single_label":
                    assert (row["label"], row["probability"]) == next(iter(row["probabilities"].items())) == ranked[0]
                assert {**row, "probabilities": None} == {**full, "probabilities": None}
                assert task_inference(task).format_prediction(row) == task_inference(task).format_prediction(full)

    @given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40))
    def test_labels_with_thresholds_of_their_own_are_kept(self, seed, count):
        draw = np.random.default_rng(seed)
        logits = draw.normal(size=(3, count)) * 3
        names = self.NAMES[:count]
        thresholds = {name: float(draw.uniform(0.001, 0.999)) for name in names if draw.random() < 0.7}
        task = settled("multi_label", *names).with_settings(threshold=thresholds)
        every = task.with_all_probabilities().decode(logits, {}, {})
        for row, full in zip(task.decode(logits, {}, {}), every, strict=True):
            assert (
                row["labels"]
                == full["labels"]
                == [n for n in names if full["probabilities"][n] >= thresholds.get(n, 0.5)]
            )
            assert set(row["labels"]) <= row["probabilities"].keys()
            assert row["probabilities"].items() <= full["probabilities"].items()
            assert task_inference(task).format_prediction(row) == task_inference(task).format_prediction(full)

    def test_labels_are_ranked_by_their_calibrated_probabilities(self):
        temperatures = {self.NAMES[0]: 10.0, self.NAMES[1]: 0.5}
        task = settled("multi_label", *self.NAMES[:12]).with_settings(temperature=temperatures)
        logits = np.array([[2.0, 1.0, 0.5, *[-3.0] * 9]])  # 0.55, 0.88 and 0.62
        assert list(task.decode(logits, {}, {})[0]["probabilities"])[:3] == ["c1", "c2", "c0"]


def test_what_is_decoded_is_what_is_scored():
    """Logits around the threshold, also those too small for a probability to differ from one half."""
    task = settled("multi_label", "a", "b")
    logits = np.array([[-1e-30, 1e-30], [0.0, -0.0], [3.0, -3.0]])
    decoded = np.array([[float(name in row["labels"]) for name in "ab"] for row in task.decode(logits, {}, {})])
    assert task.score(logits, {"labels": decoded}, {})["accuracy"] == 1.0


def test_scores_are_those_of_the_metrics():
    logits, labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 0])
    scores = settled("single_label", "a", "b").score(logits, {"labels": labels}, {})
    of_metric = metrics.load("classification").compute(predictions=[0, 1, 1], references=labels)
    assert scores == {**scores, **of_metric}
    marks = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    # Predicted are a and b, b, b: two are right (a of the first, b of the second), two too many, one a is missed.
    scores = settled("multi_label", "a", "b").score(
        np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, 1.0]]), {"labels": marks}, {}
    )
    assert scores["f1_micro"] == pytest.approx(2 * 2 / (2 * 2 + 2 + 1))
    assert settled("regression").score(np.array([[1.0], [2.0], [4.0]]), {"labels": [1.0, 2.0, 3.0]}, {}) == {
        "mse": pytest.approx(1 / 3),
        "pearson": pytest.approx(3 / (28 / 3) ** 0.5),
        "spearmanr": pytest.approx(1.0),
    }


@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_the_main_metric_is_among_the_scores(problem):
    task = settled(problem, *([] if problem == "regression" else "ab"))
    labels = {"single_label": [0, 1], "multi_label": [[1.0, 0.0], [0.0, 1.0]], "regression": [0.5, 1.5]}[problem]
    assert task.main_metric in task.score(np.array([[1.0, -1.0], [-1.0, 1.0]]), {"labels": labels}, {})


@pytest.mark.parametrize(
    ("labels", "dtype"), [([0, 1], torch.int64), ([0.5, 1.5], torch.float32), ([[1.0, 0.0]] * 2, torch.float32)]
)
def test_labels_have_the_type_that_their_loss_takes(labels, dtype, checkpoint):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    task = settled("single_label", "a", "b")
    features = task.encode({"text": ["a good film", "bad"], "labels": labels}, tokenizer)
    examples = [{name: values[row] for name, values in features.items()} for row in range(2)]
    batch = task.collate(examples, tokenizer, ["input_ids", "attention_mask"])
    assert (batch["labels"].dtype, batch["labels"].tolist()) == (dtype, labels)
    assert next(iter(batch)) == "labels"
    assert batch["attention_mask"].sum(dim=1).tolist() == features["length"]


# ---- inputs and outputs of prediction -------------------------------------------------------------------------------


def test_lines_are_texts_or_pairs_with_a_tab():
    assert settled("regression").read_input(["a\tb", ""]) == {"text": ["a\tb", ""]}
    pair = settled("regression", texts=("first", "second"))
    assert pair.read_input(["a\tb", "c\td"]) == {"first": ["a", "c"], "second": ["b", "d"]}
    for wrong in ("a", "a\t", "\tb", "a\tb\tc", "a" * 1000):
        with pytest.raises(DataError, match=r"input 2: expected two texts .* by a tab, none empty, got '.{1,70}'$"):
            pair.read_input(["a\tb", wrong])


def test_tables_give_the_columns_of_training(tmp_path):
    (tmp_path / "x.csv").write_text("label,second,first\n?,b,a\n")
    pair = settled("regression", texts=("first", "second"))
    assert pair.columns_of(read_table(tmp_path / "x.csv")) == {"first": ["a"], "second": ["b"]}
    (tmp_path / "y.csv").write_text("first,secnd\na,b\n")
    with pytest.raises(DataError, match=r"y\.csv: no column 'second'; .* did you mean 'secnd'\?"):
        pair.columns_of(read_table(tmp_path / "y.csv"))


def test_test_predictions_are_json_lines_in_order(tmp_path):
    task = settled("single_label", "no", "über")
    path = task.write_predictions("test", np.log([[1.0, 3.0], [1.0, 1.0]]), {}, {}, tmp_path)
    assert path == tmp_path / "predictions.jsonl"
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert "über" in first
    assert json.loads(first) == {
        "index": 0,
        "label": "über",
        "probability": pytest.approx(0.75),
        "probabilities": {"no": pytest.approx(0.25), "über": pytest.approx(0.75)},
    }
    assert json.loads(second)["index"] == 1
    for split, file in (("test_mm", "predictions_mm.jsonl"), ("diagnostic", "predictions_diagnostic.jsonl")):
        assert task.write_predictions(split, np.zeros((1, 2)), {}, {}, tmp_path).name == file
