"""Each task of GLUE, from files in its own layout: read, scored and written for the leaderboard."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertkit.data.tables import Table, read_table
from bertkit.recipe.files import list_recipes
from bertkit.runtime.errors import DataError
from bertkit.tasks.classification.glue import DataSettings, GlueTask
from bertkit.tasks.registry import load_recipe, task_of_recipe

TASKS = [name.removeprefix("finetune/glue/") for name in list_recipes() if name.startswith("finetune/glue/")]

# Two examples in GLUE's own layout of every task: header, or none, and a row; what is read from it.
LAYOUTS = {
    "cola": ("", 'gj04\t0\t*\tThe film good.\nbc81\t1\t\tNA is "it.\n', [["The film good.", 'NA is "it.']], [0, 1]),
    "sst2": ("sentence\tlabel\n", "a good film \t1\nbad\t0\n", [["a good film ", "bad"]], [1, 0]),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
        '1\t7\t8\tHe said " so .\tHe said .\n0\t7\t9\tNo\tYes\n',
        [['He said " so .', "No"], ["He said .", "Yes"]],
        [1, 0],
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n",
        "0\tg\tf\ty\t1\ts\ts\tA man.\tA boy.\t3.250\n1\tg\tf\ty\t2\ts\ts\tOne\tTwo\t0.000\n",
        [["A man.", "One"], ["A boy.", "Two"]],
        [3.25, 0.0],
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
        "5\t1\t2\tWhy?\tHow?\t0\nbroken\n9\t3\t4\tWho?\tWho is?\t1\n",
        [["Why?", "Who?"], ["How?", "Who is?"]],
        [0, 1],
    ),
    "mnli": (
        "index\tpairID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n",
        "0\tp\t( a )\tIt rains.\tIt is wet.\tneutral\tentailment\n1\tp\t( b )\tA\tB\tneutral\tcontradiction\n",
        [["It rains.", "A"], ["It is wet.", "B"]],
        [0, 2],
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n",
        "0\tWho?\tHe did.\tentailment\n1\tWhy?\tNo.\tnot_entailment\n",
        [["Who?", "Why?"], ["He did.", "No."]],
        [0, 1],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n",
        "0\tA long text.\tA text.\tnot_entailment\n1\tA\tB\tentailment\n",
        [["A long text.", "A"], ["A text.", "B"]],
        [1, 0],
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n",
        "0\tI put it in.\tI put a pin in.\t1\n1\tA\tB\t0\n",
        [["I put it in.", "A"], ["I put a pin in.", "B"]],
        [1, 0],
    ),
}


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


def glue_task(name: str, data_dir: Path | None = None) -> GlueTask:
    made = task_of_recipe(load_recipe(f"finetune/glue/{name}", {"data.data_dir": data_dir and str(data_dir)}))
    assert isinstance(made, GlueTask)
    return made


def test_every_task_of_glue_has_a_recipe_and_a_layout_here():
    assert set(TASKS) == set(LAYOUTS) == {"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"}


@pytest.mark.parametrize("name", TASKS)
def test_each_task_reads_its_own_layout(name, tmp_path):
    header, rows, texts, labels = LAYOUTS[name]
    glue = glue_task(name, tmp_path)
    folder = tmp_path / glue.settings.folder
    folder.mkdir()
    for split, file in glue.settings.files.items():
        if split == "train" or split.startswith("validation"):
            (folder / file).write_text(header + rows, encoding="utf-8")
    _, splits = glue.load()
    assert set(splits) == {split for split in glue.splits if split == "train" or split.startswith("validation")}
    for split in splits.values():
        assert [split.examples[column][:] for column in glue.settings.text_columns] == texts
        assert split.examples["labels"][:] == labels
    assert splits["train"].notes == (("1 broken rows skipped",) if name == "qqp" else ())


@pytest.mark.parametrize("name", TASKS)
def test_each_task_is_scored_as_glue_does(name):
    """Two right, one wrong: what the metric makes of it stands in its main metric too."""
    glue = glue_task(name)
    if glue.settings.label_names:
        width = len(glue.settings.label_names)
        logits, labels = np.eye(width)[[0, 1, 1]], np.array([0, 1, 0])
    else:
        logits, labels = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0])
    scores = glue.score(logits, {"labels": labels}, {})
    expected = {
        "cola": {"matthews_correlation": 0.5},
        "mrpc": {"accuracy": 2 / 3, "f1": 2 / 3, "combined_score": 2 / 3},
        "qqp": {"accuracy": 2 / 3, "f1": 2 / 3, "combined_score": 2 / 3},
        # r of (1, 2, 4) with (1, 2, 3): 3 / sqrt(2 · 14 / 3)
        "stsb": {"pearson": 3 / (28 / 3) ** 0.5, "spearmanr": 1.0, "combined_score": (3 / (28 / 3) ** 0.5 + 1) / 2},
    }.get(name, {"accuracy": 2 / 3})
    assert scores == pytest.approx(expected)
    assert glue.main_metric in scores


@pytest.mark.parametrize(
    ("name", "split", "file", "written"),
    [
        ("cola", "test", "predict_results_cola.tsv", ["0", "1"]),
        ("qqp", "test", "predict_results_qqp.tsv", ["0", "1"]),
        ("qnli", "test", "predict_results_qnli.tsv", ["entailment", "not_entailment"]),
        ("wnli", "test", "predict_results_wnli.tsv", ["0", "1"]),
        ("mnli", "test_mm", "predict_results_mnli_mm.tsv", ["entailment", "neutral"]),
        ("mnli", "ax", "predict_results_ax.tsv", ["entailment", "neutral"]),
        ("stsb", "test", "predict_results_stsb.tsv", ["1.000", "0.000"]),
    ],
)
def test_predictions_are_written_as_the_leaderboard_takes_them(name, split, file, written, tmp_path):
    glue = glue_task(name)
    logits = np.eye(max(2, len(glue.settings.label_names)))[:2]
    path = glue.write_predictions(split, logits, {}, {"idx": ["7", "3"]}, tmp_path)
    assert path.name == file
    assert path.read_text() == f"index\tprediction\n7\t{written[0]}\n3\t{written[1]}\n"


def test_numbers_stay_within_what_the_leaderboard_takes(tmp_path):
    path = glue_task("stsb").write_predictions(
        "test", np.array([[-0.2], [5.4], [2.34567]]), {}, {"idx": ["0", "1", "2"]}, tmp_path
    )
    assert path.read_text() == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n"


def test_the_diagnostic_set_lies_beside_mnli(tmp_path):
    header, rows, *_ = LAYOUTS["mnli"]
    write(tmp_path / "MNLI", train=header + rows, dev_matched=header + rows, dev_mismatched=header + rows)
    write(tmp_path / "AX", diagnostic="index\tsentence1\tsentence2\n0\tThe cat sat.\tIt sat not.\n")
    ax = glue_task("mnli", tmp_path).load()[1]["ax"].examples
    assert ax["premise"][:] == ["The cat sat."]
    assert "labels" not in ax.column_names


def test_a_number_that_is_none_is_named(tmp_path):
    header, rows, *_ = LAYOUTS["stsb"]
    write(tmp_path, train=header + rows.replace("3.250", "much"), dev=header + rows)
    with pytest.raises(DataError, match=r"train\.tsv, line 2: 'score' is 'much'; expected a number"):
        glue_task("stsb", tmp_path).load()


def test_a_table_for_prediction_may_have_either_names():
    mnli = glue_task("mnli")
    for names in (("premise", "hypothesis"), ("sentence1", "sentence2")):
        table = Table({names[0]: ["a"], names[1]: ["b"], "more": ["c"]}, "t", "")
        assert mnli.columns_of(table) == {"premise": ["a"], "hypothesis": ["b"]}


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "sizes", "labels"),
    [
        ("mrpc", (3_668, 408, 1_725), {0: 129, 1: 279}),
        ("rte", (2_490, 277, 3_000), {0: 146, 1: 131}),
        ("stsb", (5_749, 1_500, 1_379), None),
    ],
)
def test_the_published_files_of_other_tasks_are_read_whole(real_data, name, sizes, labels):
    _, splits = glue_task(name, real_data / "glue").load()
    assert tuple(len(split.examples) for split in splits.values()) == sizes
    found = splits["validation"].examples["labels"][:]
    if labels is None:
        assert (min(found), max(found)) == (0.0, 5.0)
    else:
        assert Counter(found) == labels


@pytest.mark.real
def test_the_published_sample_of_qqp_and_the_diagnostic_set_are_read(real_data):
    qqp = GlueTask(
        replace(load_recipe("finetune/glue/qqp").task, folder="QQP-sample"),
        DataSettings(data_dir=str(real_data / "glue")),
    )
    _, splits = qqp.load(["train", "validation"])
    assert [len(split.examples) for split in splits.values()] == [9, 9]
    ax = read_table(real_data / "glue" / "AX" / "diagnostic.tsv")
    assert len(glue_task("mnli").columns_of(ax)["premise"]) == 1_104
