"""Metrics of the evaluate library, and of the user's own, among the scores of a task."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import bertkit
from bertkit.cli.app import main
from bertkit.inference.outcome import Outcome, further_metrics, task_inference
from bertkit.inference.predictor import load_task
from bertkit.metrics.adapter import FurtherMetrics
from bertkit.runtime.errors import RecipeError
from bertkit.training.runs.evaluate import score_split

CODE = """
import datasets
import evaluate


class Own(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int64")
        features = datasets.Features({{"predictions": number, "references": number}})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        {body}
"""


@pytest.fixture
def metric(tmp_path, monkeypatch):
    """Returns a function that writes a metric of class ids, the body of whose ``_compute`` is given."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))

    def write(body, name="own"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(textwrap.dedent(CODE).format(body=body))
        return str(folder)

    return write


def test_numbers_are_added_under_free_names(metric):
    body = (
        "import numpy; return {'level': numpy.array(2), 'accuracy': numpy.float32(0.25), 'loss': 1.5, "
        "'by_class': [0.5], 'text': 'x', 'is_good': True}"
    )
    further = FurtherMetrics([metric(body), "glue/cola"])
    scores = further.scores([1, 0, 1, 0], [1, 0, 1, 0], own=["accuracy"])
    assert scores == {"level": 2, "own_accuracy": 0.25, "own_loss": 1.5, "matthews_correlation": 1.0}
    assert [type(value) for value in scores.values()] == [int, float, float, float]
    assert further.computed == tuple(scores)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return {'text': 'x'}", "'.*own' returned {'text': 'x'}; expected a mapping with at least one number"),
        ("return None", "returned None; expected a mapping"),
        ("raise KeyError('labels')", "'.*own' failed .KeyError: 'labels'.; mend the metric, or remove it"),
    ],
)
def test_a_metric_without_scores_is_refused(metric, body, message):
    further = FurtherMetrics([metric(body)])
    with pytest.raises(RecipeError, match=message):
        further.scores([1, 0], [1, 0], own=[])


def test_a_metric_that_fails_on_a_test_set_does_not_end_a_run_that_is_trained(fine_tuned, metric, capsys):
    task, _ = load_task(str(fine_tuned("film")), {})
    labels = {"labels": np.array([1, 1, 1])}
    outcome = Outcome(task, np.eye(2)[[0, 1, 1]], labels, labels, "")
    results = score_split(outcome, "test", FurtherMetrics([metric("raise ValueError('one class')")]))
    assert results["predict_accuracy"] == 2 / 3
    assert "warning: test: scores of task.metrics left out: task.metrics: " in capsys.readouterr().err


def test_all_unusable_names_are_listed(metric, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    missing, own = str(tmp_path / "missing"), metric("return {'level': 1}")
    with pytest.raises(RecipeError) as caught:
        FurtherMetrics([missing, own, own])
    assert f"task.metrics: {missing!r} cannot be loaded" in str(caught.value)
    assert f"{own!r} is given twice" in str(caught.value)


def test_two_metrics_with_the_same_names_are_refused(metric):
    further = FurtherMetrics([metric("return {'own_accuracy': 1, 'accuracy': 0.5}")])
    with pytest.raises(RecipeError, match="another score 'own_accuracy'; rename it"):
        further.scores([1], [1], own=["accuracy"])


ANSWERS = [{"id": "0", "answers": {"text": ["red"], "answer_start": [0]}}]


@pytest.mark.parametrize(
    ("kind", "predictions", "references", "expected"),
    [
        ("film", [0, 1], [0, 2], ([0, 1], [0, 2])),
        ("choices", [0, 1], [0, 0], ([0, 1], [0, 0])),
        ("entities", [[1, 2, 0]], [[1, 0, 0]], ([["B-FILM", "I-FILM", "O"]], [["B-FILM", "O", "O"]])),
        ("answers", [{"id": "0", "prediction_text": "a"}], ANSWERS, ([{"id": "0", "prediction_text": "a"}], ANSWERS)),
        (
            "maybe",
            [
                {"id": "0", "prediction_text": "a", "no_answer_probability": 0.0},
                {"id": "1", "prediction_text": "b", "no_answer_probability": 800.0},
            ],
            ANSWERS * 2,
            (
                [
                    {"id": "0", "prediction_text": "a", "no_answer_probability": 0.5},
                    {"id": "1", "prediction_text": "", "no_answer_probability": 1.0},
                ],
                ANSWERS * 2,
            ),
        ),
    ],
)
def test_kinds_of_task_give_the_usual_forms(fine_tuned, kind, predictions, references, expected):
    task, _ = load_task(str(fine_tuned(kind)), {})
    assert task_inference(task).for_metrics(predictions, references) == expected


@pytest.mark.parametrize(
    ("kind", "outputs", "labels", "name", "score"),
    [
        ("topics", [[1.0, -2.0], [1.0, 2.0]], [[1, 0], [1, 1]], "multi_label", "multi_label_accuracy"),
        ("pairs", [[1.0], [3.0]], [1.5, 4.0], "regression", "regression_mse"),
    ],
)
def test_label_sets_and_numbers_are_scored(fine_tuned, kind, outputs, labels, name, score):
    task, _ = load_task(str(fine_tuned(kind)), {})
    features = {"labels": np.array(labels)}
    scores = Outcome(task, np.array(outputs), features, features, "").scores(further_metrics([name]))
    assert scores[score] == scores[score.removeprefix(f"{name}_")]


LEVEL = "return {'level': sum(p == r for p, r in zip(predictions, references)) / len(references), 'accuracy': 0.125}"


@pytest.fixture
def run(checkpoint, tmp_path):
    """Returns a function that fine-tunes on a small table for two steps."""
    table = tmp_path / "table.csv"
    rows = [f"a {'good' if number % 2 else 'bad'} film {number},{number % 2}" for number in range(40)]
    table.write_text("\n".join(["text,label", *rows]))
    values = {"data.max_seq_length": 8, "train.max_steps": 2, "placement.device": "cpu"}
    values |= {"data.folds": 2, "train.contrast_steps": 2}

    def finetune(**settings):
        overrides = values | {"data.train_file": str(table)} | {f"task.{key}": each for key, each in settings.items()}
        return bertkit.finetune(
            "finetune/classification", model=str(checkpoint), output_dir=tmp_path / "out", overrides=overrides
        )

    return finetune


def test_a_run_has_the_scores_everywhere(metric, run, tmp_path, monkeypatch):
    folder = metric(LEVEL)
    monkeypatch.chdir(tmp_path)
    result = run(metrics=["own"], main_metric="level")
    assert result.metrics["eval_own_accuracy"] == 0.125
    assert result.metrics["eval_level"] == result.metrics["eval_accuracy"]
    assert '"eval_level"' in (tmp_path / "out" / "all_results.json").read_text()
    assert folder in (tmp_path / "out" / "recipe.yaml").read_text()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| own_accuracy | 0.1250 |" in card
    assert str(tmp_path) not in card
    assert "metrics" not in (tmp_path / "out" / "config.json").read_text()
    again = bertkit.evaluate(tmp_path / "out", metrics=["own"]).metrics  # the folder that the recipe names too
    monkeypatch.chdir("/")
    assert again == bertkit.evaluate(tmp_path / "out").metrics
    assert again["eval_own_accuracy"] == 0.125


def test_code_that_may_come_with_a_checkpoint_is_left_out(metric, run, tmp_path, monkeypatch, capsys):
    run()
    folder = metric(LEVEL)
    recipe = tmp_path / "out" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("metrics: []", "metrics: [own, owner/level]"))
    monkeypatch.chdir(tmp_path)
    assert "eval_level" not in bertkit.evaluate("out").metrics
    assert "task.metrics: own, owner/level left out" in capsys.readouterr().err
    assert "eval_level" in bertkit.evaluate("out", metrics=[folder]).metrics


def test_an_unknown_metric_ends_before_the_run(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "table.csv").write_text("text,label\na,0\nb,1\n")
    command = ["finetune", "classification", "--model", str(checkpoint), "--train-file", str(tmp_path / "table.csv")]
    command += ["--output-dir", str(tmp_path / "out"), "--metric", str(tmp_path / "nope")]
    monkeypatch.setattr("sys.argv", ["bertkit", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "nope' cannot be loaded" in capsys.readouterr().err
    assert not (tmp_path / "out" / "recipe.yaml").exists()


def test_a_main_metric_without_values_is_refused(metric, run):
    with pytest.raises(
        RecipeError, match=r"task\.main_metric: 'height' is not among the scores of .*; expected one of"
    ):
        run(metrics=[metric(LEVEL)], main_metric="height")
