"""Metrics of the evaluate library: inputs of any type, several instances, no files written, inputs unchanged."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial

import datasets
import evaluate
import numpy as np
import pandas as pd
import pytest
import torch

from bertkit import metrics
from bertkit.metrics import CLASS_IDS, LABEL_SETS, NUMBERS, checked
from bertkit.runtime.errors import DataError, RecipeError

KINDS = ("glue/sst2", "classification", "multi_label", "regression")


def inputs(name: str) -> dict[str, list]:
    """Three examples that the metric of that name takes."""
    rows = {"predictions": [0, 1, 1], "references": [0, 1, 0]}
    if name.startswith("squad"):
        odds = {"no_answer_probability": 0.5} if name == "squad_v2" else {}
        keys, answers = ("p", "q", "r"), [{"text": [text], "answer_start": [0]} for text in "010"]
        predictions = [{"id": key, "prediction_text": text, **odds} for key, text in zip(keys, "011", strict=True)]
        references = [{"id": key, "answers": each} for key, each in zip(keys, answers, strict=True)]
        return {"predictions": predictions, "references": references}
    if name == "seqeval":
        return {key: [[("O", "B-PER")[value], "B-LOC"] for value in row] for key, row in rows.items()}
    return {key: [[value, 1] for value in row] for key, row in rows.items()} if name == "multi_label" else rows


@pytest.mark.parametrize("name", metrics.names())
def test_every_name_gives_a_reusable_metric(name):
    metric = metrics.load(name)
    assert isinstance(metric, evaluate.Metric)
    first = metric.compute(**inputs(name))
    assert first == metrics.compute(name, **inputs(name))
    assert {type(score) for score in first.values()} <= {float, int, dict}  # of seqeval one for each type
    assert metric.compute(**inputs(name)) == first
    assert metrics.load(name).compute(**{key: row[:2] for key, row in inputs(name).items()}) != first


def test_unknown_metric_is_refused():
    with pytest.raises(
        RecipeError, match=r"unknown metric 'glue/sst3'; expected one of .*; did you mean 'glue/sst2'\?"
    ):
        metrics.load("glue/sst3")


def test_what_a_metric_does_not_take_is_refused():
    with pytest.raises(TypeError, match="accuracy has no argument 'normalize'"):
        metrics.compute("accuracy", [0], [0], normalize=False)
    rows = inputs("squad") | {"predictions": [{"id": "p"}] * 3}
    for compute in (partial(metrics.compute, "squad"), metrics.load("squad").compute):
        with pytest.raises(ValueError, match="an example has no 'prediction_text'"):
            compute(**rows)
    with pytest.raises(ValueError, match="squad: an example is 'a film'; expected a dictionary with its id"):
        metrics.compute("squad", ["a film"], ["a film"])
    question, answer = {"id": "p", "answers": {"text": ["a"]}}, {"id": "p", "prediction_text": "a"}
    for answers in ({"text": "a"}, {"text": None}, {"text": [1]}, ["a"], None):
        with pytest.raises(ValueError, match=r"squad: answers are .*; expected {'text': \[a text, ...\]}"):
            metrics.compute("squad", [answer], [question | {"answers": answers}])
    with pytest.raises(ValueError, match="squad: a prediction_text is nan; expected a text"):
        metrics.compute("squad", [answer | {"prediction_text": math.nan}], [question])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, np.float32, np.float64])
def test_arrays_and_tensors_score_like_lists(name, dtype):
    arrays = {key: np.array(row, dtype) for key, row in inputs(name).items()}
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    expected = metrics.load(name).compute(**inputs(name))
    assert metrics.load(name).compute(**arrays) == expected
    assert metrics.load(name).compute(**tensors) == expected
    columns = {key: pd.Series(list(array)) for key, array in arrays.items()}  # of several labels, an array in each cell
    assert metrics.load(name).compute(**columns) == expected
    if dtype == np.float32:  # as a model gives them
        learnt = {key: values.to(torch.bfloat16).requires_grad_() for key, values in tensors.items()}
        assert metrics.load(name).compute(**learnt) == expected
        assert metrics.load(name).compute(**{key: list(values) for key, values in learnt.items()}) == expected
        metric = metrics.load(name)
        for prediction, reference in zip(*learnt.values(), strict=True):
            metric.add(prediction=prediction, reference=reference)
        assert metric.compute() == expected


@pytest.mark.parametrize("name", metrics.names())
def test_batches_of_two_metrics_do_not_mix(name):
    rows = inputs(name)
    expected = metrics.load(name).compute(**rows)
    one, other = metrics.load(name), metrics.load(name)
    one.add_batch(**{key: row[:2] for key, row in rows.items()})
    other.add_batch(**{key: row[:2] for key, row in rows.items()})
    one.add(prediction=rows["predictions"][2], reference=rows["references"][2])
    assert one.compute() == expected
    assert other.compute() != expected


@pytest.mark.parametrize("name", KINDS)
def test_no_file_and_no_folder_is_made(name, tmp_path, monkeypatch):
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(no_folder / "metrics"))
    assert metrics.load(name).compute(**inputs(name))
    assert list(tmp_path.iterdir()) == [no_folder]


@pytest.mark.parametrize("name", ["glue/sst2", "classification", "multi_label"])
@pytest.mark.parametrize("wrong", [0.7, float("nan"), float("inf")])
def test_probabilities_are_refused_not_cut_to_integers(name, wrong):
    metric, rows = metrics.load(name), inputs(name)
    floats = np.array(rows["predictions"], np.float64)
    floats[1] = wrong
    with pytest.raises(ValueError, match=f"predictions contain {wrong}; expected .*int64, not probabilities"):
        metric.compute(predictions=floats, references=rows["references"])
    assert metric.compute(**rows) == metrics.load(name).compute(**rows)  # what was refused has left nothing behind


def test_names_of_classes_are_refused():
    for predictions in (["1", "good"], pd.Series(["1", "good"], dtype=object)):
        with pytest.raises(ValueError, match=r"predictions are no numbers \(.*'good'\); expected one class id"):
            metrics.load("accuracy").compute(predictions=predictions, references=[1, 0])
    with pytest.raises(ValueError, match=r"predictions are no numbers \(.*NoneType'\); expected one number"):
        metrics.load("regression").compute(predictions=[0.5, None], references=[0.5, 1])
    assert metrics.load("accuracy").compute(predictions=["1", "0"], references=[1, 1]) == {"accuracy": 0.5}


@pytest.mark.parametrize("name", metrics.names())
def test_what_is_missing_is_named(name):
    metric, rows = metrics.load(name), inputs(name)
    with pytest.raises(DataError, match="nothing to score"):
        metric.compute()
    with pytest.raises(DataError, match="nothing to score"):
        metric.compute(predictions=[], references=[])
    with pytest.raises(ValueError, match="references are None; expected"):
        metric.compute(predictions=rows["predictions"])
    with pytest.raises(ValueError, match=r"number of predictions \(2\) and references \(3\)"):
        metric.compute(predictions=rows["predictions"][:2], references=rows["references"])
    assert metric.compute(**rows) == metrics.load(name).compute(**rows)


def test_label_sets_of_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match=r"references have rows of different lengths; expected .*\(N, C\)"):
        metrics.load("multi_label").compute(predictions=[[0, 1], [1, 1]], references=[[0], [0, 1]])


@pytest.mark.parametrize(
    ("predictions", "references", "form", "message"),
    [
        ([1], [1, 0], CLASS_IDS, r"predictions are \(1,\), references \(2,\); expected .*\(N,\)"),
        ([[1], [0]], [[1], [0]], NUMBERS, r"predictions are int64 of shape \(2, 1\); expected .*\(N,\)"),
        ([0.7, 1.0], [1, 1], CLASS_IDS, "predictions are float64 of shape .* expected one class id per example"),
        ([1, 1], [1, None], CLASS_IDS, "references are object of shape"),
        ([[0, 1], [1, 1]], [[0, 1], [2, 1]], LABEL_SETS, r"references\[1, 0\] is 2; expected 0 or 1"),
        ([[0, 1]], [[0, 1, 1]], LABEL_SETS, r"predictions are \(1, 2\), references \(1, 3\)"),
    ],
)
def test_values_of_another_form_are_refused(predictions, references, form, message):
    with pytest.raises(ValueError, match=message):
        checked(predictions, references, form)


def test_names_and_scores_import_only_what_they_need():
    code = (
        "import sys; from bertkit import metrics; metrics.names()\n"
        "for name, value in (('glue/sst2', 1), ('seqeval', ['O']), ('glue/mrpc', 1)):\n"
        "    metrics.compute(name, [value], [value])\n"
        "    print(*sorted({'evaluate', 'datasets', 'scipy', 'sklearn'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "", "scipy sklearn"]


def test_the_types_are_those_declared():
    whole, number = datasets.Value("int64"), datasets.Value("float64")
    expected = {"glue/sst2": whole, "glue/stsb": number, "multi_label": datasets.List(whole), "regression": number}
    for name, feature in expected.items():
        assert metrics.load(name).features == {"predictions": feature, "references": feature}
