"""The notebooks: saved without outputs, and run from the first cell to the last without network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {"quickstart", "own_table", "ner"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_has_no_outputs(path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # those of Jupyter's packages are not ours
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    for name, value in {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.get("outputs") for cell in notebook["cells"])
    last_run = {"quickstart": "quickstart/finetuned", "own_table": "own-table/topics", "ner": "ner/entities"}[path.stem]
    assert json.loads((tmp_path / last_run / "run.json").read_text())["finished"]
    for cell in notebook["cells"]:  # for a look at what was printed: pytest -rP
        for output in cell.get("outputs", []):
            print(output.get("text", output.get("data", {}).get("text/plain", ""))[-1500:])
