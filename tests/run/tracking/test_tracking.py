"""Records of runs, read back from the files of TensorBoard and trackio; a run is the same with and without them."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from transformers import TrainerCallback

from bertkit import finetune, finetune_glue, pretrain
from bertkit.errors import RecipeError, TrainingError
from bertkit.progress import is_score
from bertkit.run.tracking import names, trackers, tracking
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


def test_trackers_change_no_number(tune, trackio, events):
    """Weights and scores are the same, bit for bit."""
    without = tune("without")
    tracked = tune("with", report_to=["tensorboard", "trackio"], project="no-number")
    weights = [load_file(run.output_dir / "model.safetensors") for run in (without, tracked)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert scores(without.metrics) == scores(tracked.metrics)
    assert losses(without) == losses(tracked)


def test_tensorboard_has_the_curves_the_scores_and_the_recipe(tune, events, glue, checkpoint):
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


def test_trackio_has_the_curves_the_scores_and_the_recipe(tune, records, glue, checkpoint):
    run = tune("curves", report_to=["trackio"], project="curves")
    [(name, (config, logged))] = records("curves").items()
    assert name == "curves"
    steps = {entry["train/global_step"]: entry["train/loss"] for entry in logged if "train/loss" in entry}
    assert steps == pytest.approx(losses(run), rel=1e-6)
    last = {key: value for entry in logged for key, value in entry.items()}
    assert last["eval/accuracy"] == run.metrics["eval_accuracy"]
    assert config["train.max_steps"] == 6
    assert config["task.name"] == "sst2"
    assert str(checkpoint.parent) not in json.dumps(config)
    assert str(glue) not in json.dumps(config)


def test_a_resumed_run_continues_its_records(tune, records, events, tmp_path):
    """Killed at step 5, it continues from the checkpoint of step 4; each step is shown once by TensorBoard."""
    chosen = {"report_to": ["tensorboard", "trackio"], "project": "resumed"}
    with pytest.raises(Stopped):
        tune("run", callbacks=[StopAfter(5)], **chosen)
    other = tune("elsewhere/run", **chosen)  # the same name, in between
    run = tune("run", resume=True, **chosen)
    assert {each.step: each.value for each in events(run.output_dir / "tensorboard").Scalars("train/loss")} == (
        pytest.approx(losses(run), rel=1e-6)
    )
    found = records("resumed")
    assert set(found) == {"run", "run-2"}
    seen = [entry["train/global_step"] for entry in found["run"][1] if "train/loss" in entry]
    assert sorted(set(seen)) == [1, 2, 3, 4, 5, 6]
    assert other.output_dir != run.output_dir


def test_a_record_can_begin_with_the_resumption(tune, records):
    with pytest.raises(Stopped):
        tune("late", callbacks=[StopAfter(5)])
    tune("late", resume=True, report_to="trackio", project="late", run_name="second half")
    [(name, (_, logged))] = records("late").items()
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
    [(_, logged)] = records("drawn").values()
    assert {key for entry in logged for key in entry if key.startswith("figures/")} == figures


def test_the_tasks_of_a_suite_are_a_group(glue, checkpoint, tmp_path, records):
    finetune_glue(
        ["sst2"],
        output_dir=tmp_path / "suite",
        model=str(checkpoint),
        data_dir=glue,
        overrides={**QUICK, "train.report_to": "trackio", "train.project": "suite"},
    )
    [(name, (config, _))] = records("suite").items()
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
def test_a_missing_tracker_is_named_before_anything_is_written(tune, tmp_path, monkeypatch, given, expected):
    monkeypatch.setattr(names, "find_spec", lambda name: None)
    with pytest.raises(RecipeError, match=r"train\.report_to: ") as caught:
        tune("missing", report_to=given)
    assert expected in str(caught.value)
    assert not (tmp_path / "missing").exists() or not list((tmp_path / "missing").iterdir())


class Broken(trackers.Tracker):
    """A tracker whose connection breaks; it has no figures either."""

    closed: list[str]

    def new_callback(self):
        return TrainerCallback()

    def begin(self, *args, **kwargs):
        raise ConnectionError("nobody\nthere")

    def abandon(self):
        self.closed.append(self.name)


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(names, "find_spec", lambda name: object())
    monkeypatch.setitem(trackers._CLASSES, "wandb", Broken)
    monkeypatch.setattr(Broken, "closed", [], raising=False)
    return Broken


def test_a_tracker_that_fails_does_not_end_the_run(tune, broken, capfd):
    run = tune(report_to="wandb")
    assert "warning: wandb fails, and gets no more of this run: ConnectionError: nobody there" in capfd.readouterr().err
    assert run.metrics["eval_samples"] == 24


def test_a_tracker_that_does_not_open_ends_the_run_before_it_writes(tune, broken, tmp_path, monkeypatch):
    def no_login(self):
        raise ValueError("No API key configured")

    monkeypatch.setattr(broken, "open", no_login)
    with pytest.raises(TrainingError, match=r"train\.report_to: wandb cannot open a record: ValueError: No API key"):
        tune(report_to="wandb")
    assert [path.name for path in (tmp_path / "run").glob("*")] in ([], [".lock"])


def test_the_records_of_a_failed_run_are_closed(tune, broken, monkeypatch):
    monkeypatch.setattr(broken, "begin", lambda self, *args, **kwargs: None)
    with pytest.raises(Stopped):
        tune(report_to="wandb", callbacks=[StopAfter(1)])
    assert broken.closed == ["wandb"]


def test_only_the_main_process_writes(tune, broken, monkeypatch):
    monkeypatch.setattr(tracking, "is_main_process", lambda: False)
    monkeypatch.setattr(broken, "open", lambda self: pytest.fail("opened"))
    tune(report_to="wandb")


def test_a_print_of_a_tracker_is_no_result(tune, trackio, capfd):
    """trackio prints to stdout, which is for the results of a command."""
    tune("printed", report_to="trackio", project="printed")
    assert capfd.readouterr().out == ""
