"""Grids: the same runs as single commands, results, failures, continuation, folds, and what is refused beforehand."""

from __future__ import annotations

import csv
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import bertkit
from bertkit.features.grids import workers
from bertkit.features.grids.definition import GRID_FILE, define, read
from bertkit.features.grids.table import grid_table
from bertkit.metrics.intervals import mean_interval
from bertkit.runtime.errors import BertkitError, OutputError, RecipeError, TrainingError
from bertkit.runtime.locks import FolderInUseError, RunLock
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.registry import load_recipe
from tests.training.conftest import same_weights

RATES = {"train.learning_rate": [1e-3, 2e-3]}


def scores(folder: Path) -> dict[str, float]:
    found = json.loads((folder / "eval_results.json").read_text())
    return {key: value for key, value in found.items() if "per_second" not in key and "runtime" not in key}


def test_a_cell_is_the_single_command_s_run(grid, tmp_path, checkpoint, table, quick):
    results = grid(grid=["train.learning_rate=1e-3,2e-3"], seeds=2)
    runs = results.output_dir / "runs"
    assert sorted(path.name for path in runs.iterdir()) == [
        f"{setting}-seed={seed}"
        for setting in ("01-learning_rate=0.001", "02-learning_rate=0.002")
        for seed in (42, 43)
    ]
    of_cell = {"train.learning_rate": 2e-3, "train.seed": 43}
    alone = bertkit.finetune(
        "finetune/classification",
        output_dir=tmp_path / "alone",
        model=str(checkpoint),
        overrides={**quick, "data.train_file": str(table), "data.folds": 0, **of_cell},
    )
    cell = runs / "02-learning_rate=0.002-seed=43"
    assert same_weights(alone.output_dir, cell)
    assert scores(alone.output_dir) == scores(cell)
    assert (alone.output_dir / "recipe.yaml").read_bytes() == (cell / "recipe.yaml").read_bytes()
    assert {path.name for path in alone.output_dir.iterdir()} == {path.name for path in cell.iterdir()}

    # The files of the results agree with each other and with the runs.
    names = {"best", "grid.json", "grid_results.csv", "grid_results.json", "records", "runs"}
    assert {path.name for path in results.output_dir.iterdir()} == names
    stored = json.loads((results.output_dir / "grid_results.json").read_text())
    rows = list(csv.DictReader((results.output_dir / "grid_results.csv").read_text().splitlines()))
    for row, setting, of_file in zip(rows, results.settings, stored["settings"], strict=True):
        of_runs = [scores(runs / f"{setting.name}-seed={seed}")["eval_accuracy"] for seed in (42, 43)]
        assert setting.n == int(row["n"]) == of_file["n"] == 2
        assert setting.mean == float(row["mean"]) == of_file["mean"] == pytest.approx(sum(of_runs) / 2)
        assert setting.sd == pytest.approx(abs(of_runs[0] - of_runs[1]) / math.sqrt(2))
        assert (setting.low, setting.high) == (mean_interval(of_runs) or (None, None))
    assert stored["best"] == max(results.settings, key=lambda row: row.mean).name
    best = results.output_dir / "best"
    assert same_weights(best, runs / results.best_run)
    assert bertkit.load(best).predict("a lovely film")[0]["label"] in ("good", "bad")
    assert "no score of a test set was used" in stored["note"]

    # Repeating the command runs nothing, and a changed grid is refused; a killed process may have left half a record.
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    (results.output_dir / "records" / ".unfinished-01").touch()
    assert grid(grid=RATES, seeds=2) == results
    assert not (results.output_dir / "records" / ".unfinished-01").exists()
    assert before == {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    with pytest.raises(RecipeError) as refused:
        grid(grid=["train.learning_rate=1e-3,3e-3"], seeds=3, overrides={"train.weight_decay": 0.1})
    message = str(refused.value)
    assert "--grid train.learning_rate was [0.001, 0.002] and is now [0.001, 0.003]" in message
    assert "--seeds was [42, 43] and is now [42, 43, 44]" in message
    assert "train.weight_decay was 0.01 and is now 0.1" in message


@pytest.mark.slow
def test_a_failed_cell_is_recorded(grid, monkeypatch, capfd):
    original = workers.prepare_finetuning

    def diverging(recipe, place, **arguments):
        if recipe.train["learning_rate"] == 2e-3:
            raise torch.OutOfMemoryError("out of memory")
        return original(recipe, place, **arguments)

    monkeypatch.setattr(workers, "prepare_finetuning", diverging)
    results = grid(grid=RATES, overrides={"train.max_steps": 1})
    assert results.failed == {"02-learning_rate=0.002-seed=42": "OutOfMemoryError: out of memory"}
    assert [row.n for row in results.settings] == [1, 0]
    assert results.best == "01-learning_rate=0.001"
    assert "1 of 2 runs failed; repeat the command to try again" in grid_table(results)
    assert "failed: OutOfMemoryError: out of memory" in capfd.readouterr().err
    record = json.loads((results.output_dir / "records" / "02-learning_rate=0.002-seed=42.json").read_text())
    assert "diverging" in record["traceback"]
    assert "traceback" not in (results.output_dir / "grid_results.json").read_text()
    monkeypatch.undo()
    again = grid(grid=RATES, overrides={"train.max_steps": 1})
    assert again.failed == {}
    assert [row.n for row in again.settings] == [1, 1]


@pytest.mark.slow
def test_an_interrupted_cell_is_resumed(grid, monkeypatch, capfd):
    """A process that ends in the second cell; the next call resumes it."""
    saving = {"train.save_strategy": "steps", "train.save_steps": 1}
    undisturbed = grid("whole", seeds=2, overrides=saving)
    from bertkit.training import trainer

    original, steps = trainer.BertkitTrainer.training_step, []

    def killed(self, *args, **kwargs):
        steps.append(None)
        if len(steps) == 4:  # the second step of the second run
            raise SystemExit(137)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(trainer.BertkitTrainer, "training_step", killed)
    with pytest.raises(SystemExit):
        grid(seeds=2, overrides=saving)
    monkeypatch.undo()
    capfd.readouterr()
    results = grid(seeds=2, overrides=saving, worker=True)
    assert "resuming from" in capfd.readouterr().err
    for seed in (42, 43):
        name = f"01-recipe-seed={seed}"
        assert same_weights(undisturbed.output_dir / "runs" / name, results.output_dir / "runs" / name)
    assert results.settings == undisturbed.settings


def test_a_second_command_without_worker_is_refused(grid, tmp_path):
    with RunLock(tmp_path / "out"), pytest.raises(FolderInUseError, match="another run is writing here"):
        grid(seeds=2)


def test_a_held_cell_is_left_to_its_worker(grid, tmp_path, monkeypatch):
    """The worker waits; when the other one ends without a record, it takes the cell."""
    held = RunLock(tmp_path / "out" / "runs" / "01-recipe-seed=42")
    held.__enter__()
    waits = []

    def released(seconds):
        waits.append(seconds)
        held.__exit__()

    monkeypatch.setattr(workers.time, "sleep", released)
    assert grid(seeds=2).settings[0].n == 2
    assert waits


@pytest.mark.slow
def test_out_of_fold_predictions_are_of_unseen_rows(grid, table, monkeypatch):
    results = grid(folds=2, seeds=2)
    assert results.settings[0].n == 4
    rows = [json.loads(line) for line in (results.output_dir / "out_of_fold.jsonl").read_text().splitlines()]
    given = [json.loads(line) for line in table.read_text().splitlines()]
    assert [row["index"] for row in rows] == list(range(30))
    assert [row["line"] for row in rows] == list(range(1, 31))
    assert [row["gold"] for row in rows] == [row["label"] for row in given]
    right = sum(row["label"] == row["gold"] for row in rows)
    assert results.out_of_fold["accuracy"] == pytest.approx(right / 30)
    assert results.out_of_fold["examples"] == 30

    # A cell evaluates on its own fold again. The probabilities in the file are the means over its seeds.
    runs = [results.output_dir / "runs" / f"01-recipe-seed={seed}-fold=1" for seed in (42, 43)]
    again = bertkit.evaluate(runs[0], train_file=str(table))
    assert again.metrics["eval_accuracy"] == scores(runs[0])["eval_accuracy"]
    assert again.examples == 15
    row = next(row for row in rows if row["fold"] == 1)
    found = bertkit.load(runs[0]), bertkit.load(runs[1])
    logits = [math.log(each.predict(given[row["index"]]["text"])[0]["probabilities"]["good"]) for each in found]
    other = [math.log(each.predict(given[row["index"]]["text"])[0]["probabilities"]["bad"]) for each in found]
    expected = 1 / (1 + math.exp(sum(other) / 2 - sum(logits) / 2))
    assert row["probabilities"]["good"] == pytest.approx(expected, rel=1e-5)

    # Numbers of NumPy and whole ones are scores, as in the results of a run.
    monkeypatch.setattr(
        ClassificationTask, "compute_metrics", lambda *_: {"accuracy": np.float32(0.5), "hits": 15, "of_row": []}
    )
    assert grid(folds=2, seeds=2).out_of_fold == {"examples": 30, "accuracy": 0.5, "hits": 15.0}


REFUSED = {
    "an unknown key": ({"grid": ["train.lerning_rate=1,2"]}, "train.lerning_rate: unknown key"),
    "a key without a block": ({"grid": ["nope=1"]}, "error: --grid nope: expected block.key"),
    "a range without a block": ({"search": ["nope=1..2"], "trials": 2}, "error: --search nope: expected block.key"),
    "a value of the wrong type": ({"grid": ["train.learning_rate=fast"]}, "train.learning_rate: expected a number"),
    "a value out of range": ({"grid": ["train.global_train_batch_size=0,4"]}, "expected 1 to 1048576, got 0"),
    "no values": ({"grid": ["train.learning_rate="]}, "--grid train.learning_rate: no values"),
    "a word": ({"grid": ["papr"]}, "--grid papr: expected paper, or KEY=VALUE"),
    "a value twice": ({"grid": ["train.learning_rate=1e-3,1e-3"]}, "0.001 is given twice"),
    "a key twice": ({"grid": ["train.weight_decay=0", "train.weight_decay=0.1"]}, "given twice; list all values once"),
    "a single value too": (
        {"grid": {"train.weight_decay": [0, 0.1]}, "overrides": {"train.weight_decay": 0}},
        "train.weight_decay: is given twice, in the grid and as a single value",
    ),
    "folds too": ({"folds": 3, "overrides": {"data.folds": 5}}, "data.folds: is a single value, and --folds has it"),
    "seeds as values": ({"grid": ["train.seed=1,2"]}, "--grid train.seed: use --seeds"),
    "a report": ({"grid": ["train.report=true,false"]}, "train.report: does not change the scores"),
    "a placement": ({"grid": ["placement.device=cpu,gpu"]}, "a placement does not change the scores"),
    "an empty range": ({"search": ["train.learning_rate=1e-3..1e-4"], "trials": 2}, "from 0.001 to 0.0001 is empty"),
    "a logarithm of zero": ({"search": ["train.weight_decay=0..1:log"], "trials": 2}, "starts above 0"),
    "a range without end": ({"search": ["train.weight_decay=0.."], "trials": 2}, "expected a number, got '0..'"),
    "a range of three ends": ({"search": ["train.max_steps=1..2..3"], "trials": 2}, "two numbers, got 1 and '2..3'"),
    "no trials": ({"search": ["train.learning_rate=1e-5..1e-4"]}, "--trials"),
    "trials alone": ({"trials": 3}, "--trials: is for --search"),
    "both": ({"grid": ["train.weight_decay=0"], "search": ["train.adam_beta1=0..1"], "trials": 2}, "give one of them"),
    "a part of a fold": ({"folds": 2.0}, "expected integers, of seeds also a list; got None, 2.0, 1"),
    "None for seeds": ({"seeds": None}, "expected integers, of seeds also a list; got None, None, None"),
    "no seeds": ({"seeds": 0}, "--seeds: expected 1 to"),
    "too many runs": ({"seeds": 10_000, "folds": 20}, "the grid has 200000 runs"),
    "one fold": ({"folds": 1}, "--folds: expected at least 2"),
    "more folds than rows": ({"folds": 31}, "31 folds of 30 training examples; give at most 30"),
    "an unknown group": (
        {"folds": 3, "overrides": {"data.group_column": "autor"}},
        "no column 'autor'; available: 'text', 'label', 'author'; did you mean 'author'?",
    ),
    "groups without folds": ({"overrides": {"data.group_column": "author"}}, "give --folds"),
    "a model field": ({"grid": ["model.hidden_dropout=0,1"]}, "model.hidden_dropout"),
    "epochs beside steps": ({"grid": ["paper"]}, "train.max_steps: takes precedence over the train.num_train_epochs"),
    "a weight": ({"grid": {"train.class_weights": ["balanced", "even"]}}, "expected balanced, focal"),
    "a column": ({"grid": {"task.text_columns": [["text"], ["texts"]]}}, "no column 'texts'"),
    "processes": ({"seeds": 2, "overrides": {"placement.strategy": "ddp"}}, "a grid trains each run in one process"),
    "no data": ({"overrides": {"data.train_file": "no such file.csv"}, "seeds": 2}, "no such file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_before_any_run(grid, tmp_path, case):
    arguments, expected = REFUSED[case]
    with pytest.raises(BertkitError) as refused:
        grid(**{"overrides": {}, **arguments})
    assert expected in f"error: {refused.value}"
    assert not (tmp_path / "out").exists()


def test_all_faults_are_reported_together(grid, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(BertkitError) as refused:
        grid(grid=["train.weight_decay=fast,0.1", "train.no_such=1", "paper"], seeds=-1, folds=1, trials=0)
    message = str(refused.value)
    for expected in ("thesis.txt", "fast", "train.no_such", "--seeds", "--folds", "--trials", "train.max_steps"):
        assert expected in message
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_other_files_are_refused(grid, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BertkitError, match="a file of that name exists"):
        grid("file", seeds=2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "grid.json").write_text('{"grid": ')
    with pytest.raises(OutputError, match=r"grid\.json: damaged"):
        grid(seeds=2)


def test_the_paper_s_grid():
    found = define("finetune/glue/rte", {}, ["paper"], (), None, 5, None)
    assert found.number_of_cells == 90
    assert [dict(setting.values) for setting in found.settings()][:2] == [
        {"train.global_train_batch_size": 16, "train.learning_rate": 5e-5, "train.num_train_epochs": epochs}
        for epochs in (2, 3)
    ]


def test_each_gpu_gets_a_worker_of_its_own(grid, tmp_path, monkeypatch):
    """With two GPUs, two worker processes; their environment differs in the GPU. Here none of them does anything."""
    from bertkit.features.grids import grid as module

    started = []

    class Process:
        def __init__(self, command, env, start_new_session):
            started.append((command[1:], env["CUDA_VISIBLE_DEVICES"]))

        def poll(self):
            return 0

    monkeypatch.setattr(module, "visible_gpus", lambda: 2)
    monkeypatch.setattr(workers.subprocess, "Popen", Process)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with pytest.raises(TrainingError, match="2 runs have not ended; repeat the command"):
        grid(seeds=2, overrides={"placement.device": "auto"})
    command = ["-P", "-m", "bertkit.features.grids.workers", str(tmp_path / "out")]
    assert started == [(command, "4"), (command, "7")]
    pytest.importorskip("optuna", reason="needs the extra search")
    search = {"search": ["train.learning_rate=1e-4..1e-3"], "trials": 3}
    with pytest.raises(TrainingError, match="6 runs have not ended"):  # also those of trials that have not begun
        grid("searched", **search, seeds=2, overrides={"placement.device": "auto"})


def test_all_faults_of_a_grid_are_told_at_once(grid, tmp_path):
    """Also those of values that do not fit each other, as one list."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    values = ["data.stride=32,100", "data.max_seq_length=64,200"]
    with pytest.raises(RecipeError) as error:
        grid(grid=values, overrides={"data.long_text": "chunk", "data.train_file": "missing.csv"})
    message = str(error.value)
    for fault in ("already contains mine", "data.stride", "missing.csv"):
        assert fault in message
    assert message.count("faults:") == 1


_WORKERS = """
import sys
from pathlib import Path
from bertkit.features.grids import workers
worker = '''
import signal, sys, time
from pathlib import Path
mine = Path(sys.argv[1], str(time.monotonic_ns()))
def save(number, frame):
    time.sleep(1)
    mine.with_suffix(".saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
mine.touch()
time.sleep(60)
'''
workers.module_command = lambda module, *arguments: [sys.executable, "-c", worker, *arguments]
workers.work_on_gpus(Path(sys.argv[1]), 2)
"""


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_workers_save_before_an_interrupted_command_ends(tmp_path, number, code):
    command = subprocess.Popen([sys.executable, "-c", _WORKERS, tmp_path], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2:
        assert time.monotonic() < until
        time.sleep(0.1)
    command.send_signal(number)
    said = command.communicate(timeout=30)[1]
    assert command.returncode == code, said
    assert len(list(tmp_path.glob("*.saved"))) == 2
    assert ("repeat the command to continue" in said) == (number == signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_killed_workers_change_no_result(grid, forks, tmp_path, checkpoint, table, quick, rng):
    """Two workers, six times killed with SIGKILL; then the command is given until the grid is complete."""
    saving = {"train.save_strategy": "steps", "train.save_steps": 1, "train.max_steps": 6, "train.report": False}
    expected = grid("whole", grid=RATES, seeds=2, overrides=saving)
    values = {**quick, **saving, "data.train_file": str(table)}
    command = [forks.python, "-m", "bertkit", "finetune", "classification", "--model", str(checkpoint), "--json"]
    command += ["--output-dir", str(tmp_path / "out"), "--grid", "train.learning_rate=1e-3,2e-3", "--seeds", "2"]
    command += [
        part for key, value in values.items() if key != "train.learning_rate" for part in ("--set", f"{key}={value}")
    ]

    def start(*more):
        return subprocess.Popen(
            [*command, *more], env=forks.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    processes = [start(), start("--worker")]
    for kill in range(6):
        time.sleep(rng.uniform(0.2, 2))
        victim = kill % 2
        processes[victim].send_signal(signal.SIGKILL)
        processes[victim].wait()
        processes[victim].stdout.close()
        processes[victim] = start("--worker") if victim else start()
    for process in processes:
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        found = json.loads(output)
        assert found["settings"] == json.loads(json.dumps([vars(row) for row in expected.settings]))
    first, second = ((tmp_path / out / "grid_results.csv").read_text() for out in ("whole", "out"))
    assert first == second
    for name in expected.runs:
        assert same_weights(tmp_path / "whole" / "runs" / name, tmp_path / "out" / "runs" / name)


@pytest.mark.parametrize("seed", ["../../outside", "/tmp", 1.5, None])
def test_seeds_of_a_grid_are_numbers(tmp_path, seed):
    recipe = load_recipe("finetune/glue/sst2").to_dict()
    stored = {"recipe": recipe, "recipe_name": "a", "grid": {}, "search": {}, "trials": None, "folds": None, "data": {}}
    (tmp_path / GRID_FILE).write_text(json.dumps({**stored, "seeds": [1]}))
    assert read(tmp_path).seeds == (1,)
    (tmp_path / GRID_FILE).write_text(json.dumps({**stored, "seeds": [seed]}))
    with pytest.raises(BertkitError, match=r"grid\.json: damaged"):
        read(tmp_path)
