"""Several GLUE tasks, one run or one grid each: what is run, what is kept, table and zip, and what is refused."""

from __future__ import annotations

import json
import subprocess
import zipfile
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertkit.features.grids.glue import finetune_glue, finetune_glue_grid, glue_grid_table, glue_table
from bertkit.recipe.files import GLUE, recipes_in
from bertkit.recipe.load import with_absolute_paths
from bertkit.runtime.errors import BertkitError, OutputError, RecipeError
from bertkit.tasks.registry import load_recipe

ALL = ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
# The names that gluebenchmark.com asks for.
LEADERBOARD = """CoLA.tsv SST-2.tsv MRPC.tsv STS-B.tsv QQP.tsv MNLI-m.tsv MNLI-mm.tsv QNLI.tsv RTE.tsv WNLI.tsv
    AX.tsv""".split()
TEXTS = ["a good film", "the plot is awful", "lovely story", "bad", "good or bad", "is the film lovely"]


def write_task(root: Path, name: str, tests: bool = True) -> None:
    """Six rows for each split of a task, in the layout that its recipe describes."""
    task = load_recipe(f"finetune/glue/{name}").task
    texts = task.file_text_columns or task.text_columns
    label = task.file_label_column or task.label_column
    labels = task.file_labels or task.label_names or ["0.5", "1.0", "4.25"]
    for split, file in task.files.items():
        labelled = split == "train" or split.startswith("validation")
        if not labelled and not tests:
            continue
        without_header = task.file_columns.get(split)
        columns = without_header or ["index", *texts, *([label] if labelled else [])]
        rows = []
        for row in range(6):
            cells = dict.fromkeys(columns, str(row)) | {column: TEXTS[(row + n) % 6] for n, column in enumerate(texts)}
            rows.append({**cells, label: labels[row % len(labels)]})
        lines = [] if without_header else ["\t".join(columns)]
        lines += ["\t".join(row[column] for column in columns) for row in rows]
        path = root / task.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def quick(quick):
    """Overrides for runs of two steps with a checkpoint of each."""
    return {**quick, "train.save_strategy": "steps", "train.save_steps": 1}


@pytest.fixture
def data(tmp_path):
    for name in ("rte", "mrpc", "sst2"):
        write_task(tmp_path / "glue", name)
    return tmp_path / "glue"


@pytest.fixture
def run(tmp_path, data, checkpoint, quick):
    """Runs tasks on the made-up data into one folder."""

    def call(*tasks, **changes):
        given = {"model": str(checkpoint), "data_dir": data, "overrides": {**quick, **changes}}
        return finetune_glue(tasks, output_dir=tmp_path / "out", **given)

    return call


def interrupt(folder: Path) -> None:
    """Returns the directory of a run whose process was killed after its first step."""
    for path in (folder / "checkpoint-2").iterdir():
        path.unlink()
    for name in ("model.safetensors", "eval_results.json", "README.md"):
        (folder / name).unlink()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "finished": False}))


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_all_of_glue_gives_the_leaderboard_s_files(tmp_path, checkpoint, quick):
    assert recipes_in(GLUE) == ALL
    for name in ALL:
        write_task(tmp_path / "glue", name)
    overrides = {**quick, "train.max_steps": 1, "train.save_strategy": "no"}
    out = tmp_path / "out"
    results = finetune_glue(ALL, output_dir=out, model=str(checkpoint), data_dir=tmp_path / "glue", overrides=overrides)
    assert {path.name for path in out.iterdir()} == {*ALL, "glue_results.json", "glue_submission.zip"}
    with zipfile.ZipFile(out / "glue_submission.zip") as bundle:
        assert sorted(bundle.namelist()) == sorted(LEADERBOARD)
        assert bundle.read("RTE.tsv") == (out / "rte" / "predict_results_rte.tsv").read_bytes()
        assert bundle.read("MNLI-mm.tsv") == (out / "mnli" / "predict_results_mnli_mm.tsv").read_bytes()
        assert bundle.read("AX.tsv") == (out / "mnli" / "predict_results_ax.tsv").read_bytes()
        for file in LEADERBOARD:
            lines = bundle.read(file).decode().splitlines()
            assert lines[0] == "index\tprediction"
            assert [line.split("\t")[0] for line in lines[1:]] == list("012345")
    assert results.missing == ()
    assert list(results.scores) == list(results.tasks) == ALL
    assert json.loads((out / "glue_results.json").read_text()) == {
        "tasks": results.tasks,
        "scores": results.scores,
        "average": results.average,
        "collapsed": results.collapsed,
    }
    for name in ALL:
        scores = json.loads((out / name / "eval_results.json").read_text())
        assert results.tasks[name].items() <= scores.items()
    assert list(results.tasks["mnli"]) == ["eval_accuracy", "eval_accuracy_mm"]


def test_the_table_by_hand(tmp_path, checkpoint):
    """Finished runs with scores of our own: MNLI (80 + 90) / 2, MRPC (70 + 80) / 2, RTE 61; (85 + 75 + 61) / 3."""
    given = {
        "mnli": {"eval_accuracy": 0.8, "eval_accuracy_mm": 0.9, "eval_loss": 1.0, "eval_loss_mm": 2.0},
        "mrpc": {"eval_accuracy": 0.7, "eval_f1": 0.8, "eval_combined_score": 0.75, "eval_runtime": 3.0},
        "rte": {"eval_accuracy": 0.61, "epoch": 3.0},
    }
    for name, scores in given.items():
        folder = tmp_path / name
        folder.mkdir()
        collapse = "all predictions are '1'" if name == "mrpc" else None
        (folder / "run.json").write_text(json.dumps({"finished": True, "collapse": collapse}))
        (folder / "eval_results.json").write_text(json.dumps(scores))
        recipe = load_recipe(f"finetune/glue/{name}", {"model.name_or_path": str(checkpoint)})
        with_absolute_paths(recipe).save(folder / "recipe.yaml", "")
    (tmp_path / "mnli" / "predict_results_mnli.tsv").write_text("index\tprediction\n")
    results = finetune_glue(list(given), output_dir=tmp_path, model=str(checkpoint))
    assert results.scores == pytest.approx({"mnli": 85.0, "mrpc": 75.0, "rte": 61.0})
    assert results.average == pytest.approx(221 / 3)
    assert glue_table(results).splitlines() == [
        "task     score  metrics",
        "mnli     85.0   accuracy 0.8000, accuracy_mm 0.9000",
        "mrpc     75.0   accuracy 0.7000, f1 0.8000, combined_score 0.7500, collapsed: all predictions are '1'",
        "rte      61.0   accuracy 0.6100",
        "average  73.7   of 3 tasks, on dev",
        f"for the leaderboard: {tmp_path}/glue_submission.zip; the leaderboard also requires CoLA.tsv, MNLI-mm.tsv, "
        "AX.tsv, MRPC.tsv, QNLI.tsv, QQP.tsv, RTE.tsv, SST-2.tsv, STS-B.tsv, WNLI.tsv",
    ]

    # A call with one of them packs the others too.
    assert finetune_glue(["rte"], output_dir=tmp_path, model=str(checkpoint)).missing == results.missing
    with zipfile.ZipFile(tmp_path / "glue_submission.zip") as bundle:
        assert bundle.namelist() == ["MNLI-m.tsv"]


def test_without_a_test_set_nothing_is_packed(tmp_path, checkpoint, quick):
    write_task(tmp_path / "glue", "rte", tests=False)
    given = {"model": str(checkpoint), "data_dir": tmp_path / "glue", "overrides": quick}
    results = finetune_glue(["rte"], output_dir=tmp_path / "out", **given)
    assert results.submission is None
    assert not (tmp_path / "out" / "glue_submission.zip").exists()
    assert glue_table(results).splitlines()[-1].endswith("of 1 task, on dev")


@pytest.mark.slow
def test_repeated_it_runs_only_what_is_not_finished(run, capfd):
    first = run("rte", "mrpc")
    finished, broken = first.output_dir / "rte", first.output_dir / "mrpc"
    before, then = weights(broken), (finished / "model.safetensors").stat().st_mtime_ns
    interrupt(broken)
    capfd.readouterr()
    again = run("rte", "mrpc", "sst2")
    said = capfd.readouterr().err
    assert f"1/3 rte: already finished; {finished}" in said
    assert f"resuming from {broken}/checkpoint-1" in said
    assert (finished / "model.safetensors").stat().st_mtime_ns == then
    assert weights(broken) == before
    assert again.tasks["mrpc"] == pytest.approx(first.tasks["mrpc"])
    assert list(again.scores) == ["rte", "mrpc", "sst2"]


@pytest.mark.parametrize("left", ["an empty folder", "a recipe alone", "a checkpoint cut off"])
def test_a_run_that_left_nothing_begins_again(run, left):
    first = run("rte")
    folder = first.output_dir / "rte"
    before = weights(folder)
    kept = (folder / "recipe.yaml").read_bytes()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if left != "an empty folder":
        (folder / "recipe.yaml").write_bytes(kept)
    if left == "a checkpoint cut off":
        (folder / "checkpoint-1").mkdir()
        (folder / "checkpoint-1" / "trainer_state.json").write_text('{"global_st')
    assert run("rte").tasks == first.tasks
    assert weights(folder) == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"train.learning_rate": 5e-3}, "train.learning_rate was 0.001 and is now 0.005"),
        ({"train.max_steps": 3}, "this run is finished, but train.max_steps was 2 and is now 3; give another folder"),
    ],
)
def test_other_values_for_a_finished_run_are_refused(run, changes, expected):
    out = run("rte").output_dir
    with pytest.raises(RecipeError) as caught:
        run("mrpc", "rte", **changes)
    assert expected in str(caught.value)
    assert f"{out}/rte" in str(caught.value)
    assert "--resume" not in str(caught.value)
    assert not (out / "mrpc").exists()


def test_foreign_files_are_refused_and_left_alone(run, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"contains thesis\.txt; give another folder"):
        run("rte", "mrpc")
    (out / "thesis.txt").unlink()
    (out / "rte").mkdir()
    (out / "rte" / "notes.txt").write_text("mine")
    with pytest.raises(BertkitError, match=r"rte: .*/rte: contains notes\.txt and no run; remove it") as caught:
        run("rte", "mrpc")
    assert "the other tasks have no faults: --task mrpc" in str(caught.value)
    assert sorted(path.name for path in out.rglob("*")) == ["notes.txt", "rte"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="a file of that name exists"):
        finetune_glue(["rte"], output_dir=tmp_path / "file")
    (out / "rte" / "notes.txt").rename(out / "grid.json")
    with pytest.raises(OutputError, match=r"contains grid\.json; give another folder"):  # that of a single task
        finetune_glue_grid(["rte", "mrpc"], output_dir=out)


@pytest.mark.parametrize("function", [finetune_glue, partial(finetune_glue_grid, seeds=2)], ids=["runs", "grids"])
def test_faults_of_all_data_are_reported_first(function, tmp_path, data, checkpoint, quick):
    """One set is missing, another lacks its training set, a third has a wrong label; the fourth is right."""
    (data / "MRPC" / "train.tsv").unlink()
    path = data / "SST-2" / "dev.tsv"
    path.write_text(path.read_text().replace("\t1\n", "\tgood\n", 1))
    tasks = ["rte", "cola", "mrpc", "sst2"]
    with pytest.raises(RecipeError) as caught:
        function(tasks, output_dir=tmp_path / "out", model=str(checkpoint), data_dir=data, overrides=quick)
    message = str(caught.value)
    assert f"cola: {data}: contains neither CoLA/dev.tsv nor dev.tsv" in message
    assert f"mrpc: {data}/MRPC/train.tsv: no such file" in message
    assert f"sst2: {path}, line 3: label 'good' is not one of '0', '1'" in message
    assert message.endswith("the other tasks have no faults: --task rte")
    assert not (tmp_path / "out").exists()


def test_a_finished_task_needs_its_data_no_more(run, data):
    first = run("rte")
    (data / "RTE" / "train.tsv").unlink()
    assert run("rte", "mrpc").tasks["rte"] == first.tasks["rte"]


@pytest.mark.parametrize("function", [finetune_glue, finetune_glue_grid])
@pytest.mark.parametrize(("tasks", "expected"), [([], "got []"), (["rte", "rte"], "each once"), (["rt"], "rt")])
def test_a_list_of_tasks_that_is_none(function, tmp_path, tasks, expected):
    with pytest.raises(RecipeError) as caught:
        function(tasks, output_dir=tmp_path / "out")
    assert expected in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_best_runs_of_the_grids_are_packed(tmp_path, data, checkpoint, quick):
    def run():
        given = {"model": str(checkpoint), "data_dir": data, "overrides": quick, "seeds": 2}
        return finetune_glue_grid(["rte", "sst2"], output_dir=tmp_path / "out", **given)

    results = run()
    assert list(results.tasks) == ["rte", "sst2"]
    means = [each.settings[0].mean for each in results.tasks.values()]
    assert results.average == pytest.approx(50 * sum(means))
    best = tmp_path / "out" / "rte" / "runs" / results.tasks["rte"].best_run
    with zipfile.ZipFile(results.submission) as bundle:
        assert sorted(bundle.namelist()) == ["RTE.tsv", "SST-2.tsv"]
        assert bundle.read("RTE.tsv") == (best / "predict_results_rte.tsv").read_bytes()
    stored = json.loads((tmp_path / "out" / "glue_results.json").read_text())
    assert stored["average"] == results.average
    text = glue_grid_table(results)
    assert "mean ± sd" in text
    assert f"average  {results.average:.1f}" in text
    assert run() == results


@pytest.mark.multiprocess
def test_two_processes_train_and_say_what_one_does(tmp_path, data, checkpoint, run, forks, quick):
    quick["train.global_train_batch_size"] = 6
    quick |= {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}
    alone = run("rte", "mrpc", **quick)
    launcher = [forks.python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "bertkit"]
    command = ["finetune", "glue", "--task", "rte,mrpc", "--model", str(checkpoint), "--data-dir", str(data), "--json"]
    command += ["--output-dir", str(tmp_path / "two")]
    command += [part for key, value in quick.items() for part in ("--set", f"{key}={value}")]
    done = subprocess.run([*launcher, *command], capture_output=True, text=True, env=forks.environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("1/2 rte") == 1
    results = json.loads(done.stdout)  # one process speaks
    assert results["scores"] == pytest.approx(alone.scores)
    for task in ("rte", "mrpc"):
        one, two = (load_file(tmp_path / way / task / "model.safetensors") for way in ("out", "two"))
        for name, values in one.items():
            if name.endswith("key.bias"):  # no score depends on it, so its gradient is noise, which Adam scales up
                continue
            torch.testing.assert_close(two[name], values, rtol=1e-5, atol=1e-6)
    assert sorted(zipfile.ZipFile(results["submission"]).namelist()) == ["MRPC.tsv", "RTE.tsv"]
