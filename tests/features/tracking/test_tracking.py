"""Records of runs, read back from the files of TensorBoard and trackio; a run is the same with and without them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import TrainerCallback

from bertkit import finetune, finetune_glue, pretrain
from bertkit.features.tracking import tracking
from bertkit.runtime.errors import RecipeError, TrainingError
from bertkit.runtime.progress import is_score
from tests.training.conftest import TINY

QUICK = {
    "data.max_seq_length": 16,
    "train.max_steps": 6,
    "train.logging_steps": 1,
    "train.save_steps": 2,
    "train.eval_strategy": "no",
    "train.save_strategy": "steps",
    "train.load_best_model_at_end": False,
    "train.global_train_batch_size": 8,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.fixture(scope="session")
def trackio(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library, with a folder of its own; it reads the variable at its first import."""
    os.environ["TRACKIO_DIR"] = str(tmp_path_factory.mktemp("trackio"))
    return pytest.importorskip("trackio", reason="the extra trackio is not installed")


@pytest.fixture
def records(trackio: Any) -> Callable[[str], list[tuple[str, dict[str, Any], list[dict[str, Any]]]]]:
    """``records(project)``: name, configuration and logged values of all runs of a project."""
    from trackio.sqlite_storage import SQLiteStorage

    def read(project: str) -> list[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
        runs = trackio.Api().runs(project)
        return [(run.name, run.config, SQLiteStorage.get_logs(project, run.name, run_id=run.id)) for run in runs]

    return read


@pytest.fixture
def events() -> Callable[[Path], Any]:
    """``events(folder)``: the event files of TensorBoard in a folder."""
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder: Path) -> Any:
        return EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0, "tensors": 0}).Reload()

    return read


class Stopped(Exception):
    pass


class StopAfter(TrainerCallback):
    """Ends the run with an exception, as a kill does, after a step."""

    def __init__(self, step: int):
        self.step = step

    def on_log(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise Stopped


@pytest.fixture
def tune(glue, checkpoint, tmp_path):
    """Fine-tunes into a folder of this name, with overrides."""

    def run(name="run", *, resume=False, callbacks=(), **overrides):
        given = {f"train.{key}": value for key, value in overrides.items()}
        return finetune(
            "sst2",
            model=str(checkpoint),
            data_dir=glue,
            output_dir=tmp_path / name,
            overrides={**QUICK, **given},
            resume=resume,
            callbacks=callbacks,
        )

    return run


def losses(run):
    history = json.loads((run.output_dir / "trainer_state.json").read_text())["log_history"]
    return {entry["step"]: entry["loss"] for entry in history if "loss" in entry}


def scores(metrics):
    return {key: value for key, value in metrics.items() if is_score(key)}


def test_trackers_change_no_number_and_print_no_result(tune, trackio, events, capfd):
    """Weights and scores are the same, bit for bit; trackio prints to stdout, which is for the results of a command."""
    without = tune("without")
    tracked = tune("with", report_to=["tensorboard", "trackio"], project="no-number")
    weights = [load_file(run.output_dir / "model.safetensors") for run in (without, tracked)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert scores(without.metrics) == scores(tracked.metrics)
    assert losses(without) == losses(tracked)
    assert capfd.readouterr().out == ""


def test_tensorboard_has_curves_scores_and_recipe(tune, events, glue, checkpoint):
    run = tune(report_to="tensorboard")
    found = events(run.output_dir / "tensorboard")
    assert {each.step: each.value for each in found.Scalars("train/loss")} == pytest.approx(losses(run), rel=1e-6)
    [final] = found.Scalars("eval/accuracy")
    assert (final.step, final.value) == (6, pytest.approx(run.metrics["eval_accuracy"]))
    written = found.Tensors("args/text_summary")[0].tensor_proto.string_val[0].decode()
    recipe = json.loads(written)
    assert recipe["train.max_steps"] == 6
    assert recipe["task.name"] == "sst2"
    for place in (glue, checkpoint, run.output_dir):
        assert str(place) not in written
    assert "model_config/text_summary" not in found.Tags()["tensors"]  # it has the path of the checkpoint


def test_trackio_has_curves_scores_and_recipe(tune, records, glue, checkpoint):
    run = tune("curves", report_to=["trackio"], project="curves")
    [(name, config, logged)] = records("curves")
    assert name == "curves"
    steps = {entry["train/global_step"]: entry["train/loss"] for entry in logged if "train/loss" in entry}
    assert steps == pytest.approx(losses(run), rel=1e-6)
    last = {key: value for entry in logged for key, value in entry.items()}
    assert last["eval/accuracy"] == run.metrics["eval_accuracy"]
    assert config["train.max_steps"] == 6
    assert config["task.name"] == "sst2"
    assert str(checkpoint.parent) not in json.dumps(config)
    assert str(glue) not in json.dumps(config)


def test_a_resumed_run_continues_its_records(tune, records, events):
    """Killed at step 5, it continues from the checkpoint of step 4; another run of its name has a record of its own."""
    selected = {"report_to": ["tensorboard", "trackio"], "project": "resumed"}
    tune("elsewhere/run", **selected)
    with pytest.raises(Stopped):
        tune("run", callbacks=[StopAfter(5)], **selected)
    run = tune("run", resume=True, **selected)
    assert {each.step: each.value for each in events(run.output_dir / "tensorboard").Scalars("train/loss")} == (
        pytest.approx(losses(run), rel=1e-6)
    )
    [first, second] = records("resumed")
    for name, _, logged in (first, second):
        assert name == "run"
        assert {entry["train/global_step"] for entry in logged if "train/loss" in entry} == {1, 2, 3, 4, 5, 6}


def test_a_record_can_begin_with_the_resumption(tune, records):
    with pytest.raises(Stopped):
        tune("late", callbacks=[StopAfter(5)])
    tune("late", resume=True, report_to="trackio", project="late", run_name="second half")
    [(name, _, logged)] = records("late")
    assert name == "second half"
    assert min(entry["train/global_step"] for entry in logged) == 5


def test_pre_training_has_a_record_too(corpus, tmp_path, events):
    run = pretrain(
        "bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides={**TINY, "train.report_to": "tensorboard"}
    )
    found = events(run.output_dir / "tensorboard")
    assert [each.step for each in found.Scalars("train/loss")] == [2, 4, 6]
    text = found.Tensors("args/text_summary")[0].tensor_proto.string_val[0].decode()
    assert str(tmp_path) not in text
    assert json.loads(text)["data.corpus"] == ["…/corpus"]


@pytest.mark.slow
def test_figures_of_the_report_are_logged(tune, events, records):
    run = tune("drawn", report_to=["tensorboard", "trackio"], report=True, project="drawn")
    figures = {f"figures/{path.stem}" for path in (run.output_dir / "figures").glob("*.png")}
    assert figures
    assert set(events(run.output_dir / "tensorboard").Tags()["images"]) == figures
    [(_, _, logged)] = records("drawn")
    assert {key for entry in logged for key in entry if key.startswith("figures/")} == figures


def test_the_tasks_of_a_suite_are_a_group(glue, checkpoint, tmp_path, records):
    finetune_glue(
        ["sst2"],
        output_dir=tmp_path / "suite",
        model=str(checkpoint),
        data_dir=glue,
        overrides={**QUICK, "train.report_to": "trackio", "train.project": "suite"},
    )
    [(name, config, _)] = records("suite")
    assert (name, config["_Group"]) == ("sst2", "suite")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("trackio", "trackio is not installed: pip install 'bertkit[trackio]'"),
        (["tensorboard", "trackio"], "tensorboard is not installed: pip install 'bertkit[tensorboard]'"),
        ("wandb", "wandb is not installed: pip install wandb"),
        ("comet_ml", "comet_ml is not installed: pip install comet-ml"),
        ("tensorbord", "unknown tracker 'tensorbord'; expected azure_ml, "),
    ],
)
def test_a_missing_tracker_is_named_first(tune, tmp_path, monkeypatch, given, expected):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(RecipeError, match=r"train\.report_to: ") as caught:
        tune("missing", report_to=given)
    assert expected in str(caught.value)
    assert not (tmp_path / "missing").exists() or not list((tmp_path / "missing").iterdir())


def test_kubeflow_needs_no_package(tune):
    with pytest.raises(TrainingError, match=r"kubeflow cannot open a record: .* requires KUBEFLOW_TRAINER_SERVER_URL"):
        tune(report_to="kubeflow")


class Broken(TrainerCallback):
    """A tracker whose connection breaks; it has no figures either."""

    ended: list[str]

    def on_train_begin(self, args, state, control, **kwargs):
        pass

    def on_log(self, args, state, control, **kwargs):
        raise ConnectionError("nobody\nthere")

    def on_train_end(self, args, state, control, **kwargs):
        self.ended.append("comet_ml")


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    monkeypatch.setitem(tracking.INTEGRATION_TO_CALLBACK, "comet_ml", Broken)
    monkeypatch.setattr(Broken, "ended", [], raising=False)
    return Broken


def test_a_failing_tracker_does_not_end_the_run(tune, broken, capfd):
    run = tune(report_to="comet_ml")
    warning = "warning: comet_ml fails, and gets no more of this run: ConnectionError: nobody there"
    assert capfd.readouterr().err.count(warning) == 1
    assert run.metrics["eval_samples"] == 24


@pytest.mark.parametrize("event", ["__init__", "on_train_begin"])
def test_a_refused_record_ends_the_run_first(tune, broken, tmp_path, monkeypatch, event):
    def no_login(*args, **kwargs):
        raise ValueError("No API key configured")

    monkeypatch.setattr(broken, event, no_login)
    with pytest.raises(TrainingError, match=r"train\.report_to: comet_ml cannot open a record: ValueError: No API key"):
        tune(report_to=["tensorboard", "comet_ml"])
    assert not (tmp_path / "run").exists()


def test_the_records_of_a_failed_run_are_closed(tune, broken, monkeypatch):
    monkeypatch.setattr(broken, "on_log", lambda *args, **kwargs: None)
    with pytest.raises(Stopped):
        tune(report_to="comet_ml", callbacks=[StopAfter(1)])
    assert broken.ended == ["comet_ml"]


def test_only_the_main_process_writes(tune, broken, monkeypatch):
    monkeypatch.setattr(tracking, "is_main_process", lambda: False)
    monkeypatch.setattr(broken, "on_train_begin", lambda *_, **__: pytest.fail("opened"))
    tune(report_to="comet_ml")


@pytest.mark.parametrize("library", ["wandb", "mlflow"])
def test_records_elsewhere_are_continued(tune, monkeypatch, library):
    """With a stand-in for the library, and for the callback of transformers that uses it."""
    calls: list[Any] = []

    class Callback(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            calls.append((args.run_name, os.environ.get("MLFLOW_RUN_ID")))

    module: Any = ModuleType(library)
    module.run = SimpleNamespace(id="abc")
    module.active_run = lambda: SimpleNamespace(info=SimpleNamespace(run_id="abc"))
    module.init = lambda **settings: calls.append(settings)
    module.finish = lambda exit_code: calls.append(exit_code)
    module.end_run = calls.append
    monkeypatch.setitem(sys.modules, library, module)
    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    monkeypatch.setitem(tracking.INTEGRATION_TO_CALLBACK, library, Callback)
    with pytest.raises(Stopped):
        tune(report_to=library, project="reviews", callbacks=[StopAfter(5)])
    tune(report_to=library, project="reviews", resume=True)
    new = {"project": "reviews", "name": "run", "group": None}
    assert (
        calls
        == {
            "wandb": [new, ("run", None), 1, {**new, "id": "abc", "resume": "allow"}, ("run", None), 0],
            "mlflow": [("run", None), "FAILED", ("run", "abc")],
        }[library]
    )
