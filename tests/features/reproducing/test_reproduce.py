"""`bertkit.reproduce` and its command."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bertkit import BertConfig, reproduce
from bertkit.features.grids.results import GridResults, SettingResult
from bertkit.features.reproducing.paper import paper_table
from bertkit.features.reproducing.scores import Reproduction, average_of, candidate_of, reproduction_table, row_of
from bertkit.runtime.errors import BertkitError

BASE = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}


@pytest.fixture
def configured(tmp_path):
    """Writes a checkpoint's configuration, and the objective of its pre-training."""

    def write(name, objective=None, **fields):
        folder = tmp_path / name
        BertConfig(**{**BASE, **fields}).save_pretrained(folder)
        if objective is not None:
            (folder / "recipe.yaml").write_text(f"task: {{kind: pretraining, pair_objective: {objective}}}\n")
        return str(folder)

    return write


def test_a_checkpoint_is_compared_with_the_model_of_its_size(configured):
    base, small = configured("base"), configured("small", num_hidden_layers=6)
    assert candidate_of(base, paper_table("table-1")).system == "BERT-base"
    assert candidate_of(base, paper_table("table-6")).system == "L=12 H=768 A=12"
    assert candidate_of(small, paper_table("table-6")).system == "L=6 H=768 A=12"
    assert candidate_of(base, paper_table("table-3")).system is None  # the paper has BERT-large only
    candidate = candidate_of(small, paper_table("table-1"))
    assert candidate.system is None
    assert "small has 6 layers of 768 with 12 heads" in candidate.note


def test_a_checkpoint_of_another_family_is_compared_with_none(tmp_path):
    fields = {"model_type": "roberta", "architectures": ["RobertaModel"], "vocab_size": 100, **BASE}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    candidate = candidate_of(str(tmp_path), paper_table("table-1"))
    assert candidate.system is None
    assert "roberta and not BERT" in candidate.note


@pytest.mark.parametrize(
    ("objective", "attention", "expected"),
    [
        ("nsp", "bidirectional", "BERT-base"),
        ("none", "bidirectional", "No NSP"),
        ("none", "left_to_right", "LTR & No NSP"),
        (None, "bidirectional", "BERT-base"),
        (None, "left_to_right", "LTR & No NSP"),
        ("sop", "bidirectional", None),
        ("nsp", "left_to_right", None),
    ],
)
def test_variants_of_pre_training_are_told_apart(configured, objective, attention, expected):
    path = configured("variant", objective, attention=attention)
    candidate = candidate_of(path, paper_table("table-5"))
    assert candidate.system == expected
    assert ("taken to be" in candidate.note) == (objective is None)
    assert ("pre-trained as" in candidate.note) == (expected is None)
    within = configured("variant/checkpoint-5", attention=attention)  # of the run, which has the recipe
    assert candidate_of(within, paper_table("table-5")).system == expected


@pytest.fixture
def scored(tmp_path):
    """Makes a grid of finished runs with these results."""

    def make(*results, train=2490, validation=277, collapsed=False):
        data = {"train": {"examples": train}, "validation": {"examples": validation}}
        names = [f"02-x-seed={number}" for number in range(len(results))]
        for name, each in zip(names, results, strict=True):
            place = tmp_path / "grid" / "runs" / name
            place.mkdir(parents=True)
            (place / "all_results.json").write_text(json.dumps(each))
            record = {"hardware": {"device": "cpu"}, "wall_time": 60.0, "data": data}
            (place / "run.json").write_text(json.dumps(record))
        values = {"train.learning_rate": 2e-5}
        best = SettingResult("02-x", values, 1, *[0.5] * 7, tuple(names) if collapsed else (), ())
        runs = {name: {"score": 0.5} for name in ("01-y-seed=0", *names)}  # the other setting has no folder
        return GridResults(
            tmp_path / "grid", "task", "accuracy", (best,), runs, "02-x", names[0] if names else None, ""
        )

    return make


def of_row(configured, grid, table="table-1", name="RTE", missing="", **size):
    paper = paper_table(table)
    row = next(row for row in paper.rows if row.name == name)
    return row_of(candidate_of(configured("model", **size), paper), row, grid, missing)


def test_the_difference_from_the_paper_by_eye(configured, scored):
    """RTE: 66.4 in the paper; ours 66.0 ± 1.4, Student's t with one degree of freedom."""
    row = of_row(configured, scored({"eval_accuracy": 0.65}, {"eval_accuracy": 0.67}))
    assert (row.n, row.mean, row.difference) == (2, pytest.approx(66.0), pytest.approx(-0.4))
    assert row.sd == pytest.approx(2**0.5)
    assert (row.low, row.high) == (pytest.approx(66 - 12.706, abs=0.01), pytest.approx(66 + 12.706, abs=0.01))
    assert (row.seconds, row.note) == ({"cpu": 120.0}, "")


def text_of(row, width=100, table="table-1", notes=()):
    """The table of a row."""
    paper = paper_table(table)
    facts = (paper.name, paper.title, paper.page, paper.section, "Devlin et al.", tuple(paper.systems))
    return reproduction_table(Reproduction(Path("out"), *facts, (row,), {}, notes), width)


def test_the_time_of_runs_counts_once_whichever_rows_have_scores(configured, scored):
    """Table 7 has a dev and a test score of the same runs; here the data have no test set."""
    paper, grid = paper_table("table-7"), scored({"eval_overall_f1": 0.9}, train=14041, validation=3250)
    candidate = candidate_of(configured("model"), paper)
    rows = tuple(row_of(candidate, row, grid, "") for row in paper.rows[:2])
    assert [row.mean for row in rows] == [pytest.approx(90), None]
    facts = (paper.name, paper.title, paper.page, paper.section, "Devlin et al.", tuple(paper.systems))
    text = reproduction_table(Reproduction(Path("out"), *facts, rows, {}, ()), 100)
    assert "time on cpu of the runs of the best settings: 1m00s" in text


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"train": 64}, "trained on 64 examples, the published set has 2,490"),
        ({"validation": 60}, "evaluated on 60 examples, the published set has 277"),
        ({"train": 4000}, "trained on 4,000 examples"),
        ({}, ""),
    ],
)
def test_other_data_and_another_size_have_no_difference(configured, scored, sizes, expected):
    row = of_row(configured, scored({"eval_accuracy": 0.65}, **sizes), **({} if sizes else {"num_hidden_layers": 6}))
    assert row.mean == pytest.approx(65.0)
    assert row.difference is None
    assert row.low is None  # one run
    assert expected in row.note
    assert bool(row.note) == bool(sizes)


def test_scores_of_squad_are_per_cent_already(configured, scored):
    results = {"eval_f1": 88.0, "eval_exact_match": 80.0}
    row = of_row(configured, scored(results, train=87599, validation=10570), "table-2", "F1")
    assert (row.mean, row.difference) == (88.0, pytest.approx(-0.5))


def test_intervals_end_at_100_per_cent(configured, scored):
    """Those of SQuAD 2.0, of Student's t with one degree of freedom."""
    runs = [{"eval_exact": 50.0, "eval_best_exact": best} for best in (80.0, 84.0)]
    row = of_row(configured, scored(*runs), "table-3", "EM")
    assert (row.mean, row.high) == (82.0, 100.0)


def test_runs_without_the_score_say_so(configured, scored):
    row = of_row(configured, scored({"eval_overall_f1": 0.9}), "table-1", "RTE")
    assert (row.mean, row.note) == (None, "no score: the runs have no dev score")
    assert of_row(configured, scored(), "table-1", "RTE").note == "no score: every run failed"
    assert of_row(configured, None, missing="no data").note == "not run: no data"


@pytest.mark.parametrize(
    ("other", "mean", "number", "note"), [(None, None, 0, "undefined in every run"), (0.5, 50, 1, "no difference")]
)
def test_an_undefined_score_is_none(configured, scored, other, mean, number, note):
    row = of_row(configured, scored({"eval_spearmanr": None}, {"eval_spearmanr": other}), name="STS-B")
    assert (row.mean, row.n) == (mean, number)
    assert note in row.note


def test_collapsed_runs_are_counted(configured, scored):
    row = of_row(configured, scored({"eval_accuracy": 0.5}, {"eval_accuracy": 0.5}, collapsed=True))
    assert row.collapsed == 2
    assert "2 collapsed" in text_of(row)
    assert "collapsed: a run that predicts the same for all examples" in text_of(row)


def test_the_average_needs_all_rows(configured, scored):
    paper = paper_table("table-1")
    candidate = candidate_of(configured("model"), paper)
    grid = scored(dict.fromkeys({row.key for row in paper.rows}, 0.8))
    rows = [replace(row_of(candidate, row, grid, ""), difference=1.0) for row in paper.rows]
    found = average_of(candidate, paper, rows)
    assert (found.mean, found.difference) == (pytest.approx(80.0), pytest.approx(0.4))
    assert average_of(candidate, paper, [*rows[1:], replace(rows[0], difference=None)]).difference is None
    assert average_of(candidate, paper, rows[1:]) is None


def test_the_table_by_eye(configured, scored):
    row = of_row(configured, scored({"eval_accuracy": 0.65}, {"eval_accuracy": 0.67}))
    title, *lines = text_of(row, notes=("a note",)).splitlines()
    assert title.startswith("Table 1 of the BERT paper (page 4176, section 4.1): ")
    assert lines == [
        "row  metric    paper  ours        95 % interval  difference  n  time   setting",
        "RTE  accuracy  66.4   66.0 ± 1.4  53.3–78.7      -0.4        2  2m00s  learning_rate=2e-05",
        "time on cpu of the runs of the best settings: 2m00s",
        "note: a note",
    ]


def test_all_models_of_a_table_stand_beside_another_size(configured, scored):
    row = of_row(configured, scored({"eval_accuracy": 0.65}), "table-5", "MRPC", num_hidden_layers=1)
    heading = text_of(row, 120, "table-5").splitlines()[1]
    assert all(name in heading for name in paper_table("table-5").systems)


@pytest.mark.slow
def test_a_table_is_run_written_and_continued(checkpoint, data, tmp_path, quick):
    def run(max_steps=1):
        out = tmp_path / "out"
        return reproduce(
            "table-1", model=str(checkpoint), data_dir=data, tasks=["rte", "cola"], seeds=2, output_dir=out,
            overrides={**quick, "train.max_steps": max_steps},
        )  # fmt: skip

    results = run()
    cola, rte = results.rows
    assert (cola.row, cola.mean) == ("CoLA", None)
    assert "no CoLA/train.tsv" in cola.note
    assert (rte.n, rte.difference) == (2, None)
    assert 0 <= rte.mean <= 100
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "grids", "table-1.json", "table-1.txt", "table-1.tex", "table-1.md",
    }  # fmt: skip
    assert json.loads((tmp_path / "out" / "table-1.json").read_text())["rows"][1]["mean"] == rte.mean
    weights = list((tmp_path / "out" / "grids").glob("*/rte/runs/*/model.safetensors"))
    written = [path.stat().st_mtime_ns for path in weights]
    assert len(weights) == 2
    assert run() == results
    with pytest.raises(BertkitError, match=r"holds another grid: train\.max_steps was 1 and is now 2"):
        run(max_steps=2)
    assert [path.stat().st_mtime_ns for path in weights] == written


@pytest.mark.slow
def test_a_grid_has_its_own_values_in_the_place_of_the_paper_s(checkpoint, data, tmp_path, quick):
    overrides = {key: value for key, value in quick.items() if key != "train.learning_rate"}
    results = reproduce(
        "table-7", model=str(checkpoint), data_dir=data, tasks=["ner"], seeds=1, output_dir=tmp_path / "out",
        grid="train.learning_rate=1e-3,2e-3", overrides=overrides,
    )  # fmt: skip
    assert results.rows[0].setting in ({"train.learning_rate": 1e-3}, {"train.learning_rate": 2e-3})


@pytest.mark.slow
def test_entities_are_fine_tuned_and_read_from_layers(checkpoint, data, tmp_path, quick):
    tasks = ["ner", "ner-embeddings", "ner-concatenation", "ner-sum-of-all"]
    results = reproduce(
        "table-7", model=str(checkpoint), data_dir=data, tasks=tasks, seeds=1, output_dir=tmp_path / "out",
        overrides=quick,
    )  # fmt: skip
    by_row = {(row.row, row.our_set): row for row in results.rows}
    assert by_row["fine-tuning", "dev"].n == by_row["fine-tuning", "test"].n == 1
    assert by_row["embeddings", "dev"].n == by_row["sum of all", "dev"].n == 1
    assert "has only 2 layers" in by_row["last four", "dev"].note
    [config] = (tmp_path / "out" / "grids").glob("*/ner-sum-of-all/runs/*/config.json")
    assert json.loads(config.read_text())["feature_layers"] == [1, 2]
    [recipe] = (tmp_path / "out" / "grids").glob("*/ner/runs/*/recipe.yaml")
    assert "context: document" in recipe.read_text()


WRONG = {
    "table": ({"table": "table-9"}, "unknown table 'table-9'; expected one of table-1, "),
    "task": ({"tasks": ["rte", "rtee"]}, "table-1 has no task 'rtee'; expected mnli, "),
    "twice": ({"tasks": ["rte", "rte"]}, "each once"),
    "no tasks": ({"tasks": []}, "expected one or more of mnli"),
    "seeds": ({"seeds": 0}, "--seeds: 0 is not at least 1"),
    "no model": ({"model": []}, "--model: give a checkpoint"),
    "model": ({"model": "nowhere"}, "nowhere"),
    "data": ({"data_dir": "nowhere"}, "--data-dir nowhere: no such folder"),
    "no data": ({"tasks": ["cola"]}, "nothing to reproduce:"),
    "value": ({"overrides": {"train.learning_rate": "fast"}}, "train.learning_rate: expected a number"),
    "context": (
        {"table": "table-7", "tasks": ["ner"], "overrides": {}},
        "(from the paper: data.context=document, data.max_seq_length=512, train.learning_rate=5e-05, "
        "train.num_train_epochs=3; --set changes it)",
    ),
    "positions": ({"overrides": {}}, "64 positions"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused(checkpoint, data, tmp_path, case, quick):
    changes, expected = WRONG[case]
    usual = {"table": "table-1", "model": str(checkpoint), "data_dir": data, "tasks": ["rte"], "overrides": quick}
    with pytest.raises(BertkitError) as caught:
        reproduce(output_dir=tmp_path / "out", **{**usual, **changes})
    assert expected in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("names", "folders"),
    [("a/b c/b", ["b"]), ("a/best a_best", ["a_best"]), ("模型 类型", []), ("a/best b/best", [])],
)
def test_checkpoints_of_one_folder_and_other_files_are_refused(configured, names, folders, tmp_path, data):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(BertkitError) as caught:
        reproduce("table-1", model=list(map(configured, names.split())), data_dir=data, output_dir=tmp_path / "out")
    assert "contains notes.txt" in str(caught.value)
    assert re.findall(r"two checkpoints have the folder grids/(\S+)", str(caught.value)) == folders


@pytest.mark.slow
def test_the_command_prints_the_table(bertkit, checkpoint, data, tmp_path, quick):
    settings = [part for key, value in quick.items() for part in ("--set", f"{key}={value}")]
    command = ["reproduce", "table-1", "--model", checkpoint, "--data-dir", data, "--tasks", "rte,mrpc", "--seeds", 1]
    command += ["--output-dir", tmp_path / "out", *settings]
    outcome = bertkit(*command)
    assert outcome.code == 0, outcome.err
    assert "Table 1 of the BERT paper (page 4176, section 4.1): GLUE, in per cent" in outcome.out
    assert "MRPC: not run: no MRPC/train.tsv" in outcome.out
    assert [row["row"] for row in json.loads(bertkit(*command, "--json").out)["rows"]] == ["MRPC", "RTE"]
    rows = list(csv.DictReader(io.StringIO(bertkit(*command, "--format", "csv").out)))
    assert [(row["row"], row["n"], row["device"] != "") for row in rows] == [("MRPC", "0", False), ("RTE", "1", True)]
