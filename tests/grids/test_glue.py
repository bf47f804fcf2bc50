"""Grids of several GLUE tasks: one grid each, the table, and the zip file from the best runs."""

from __future__ import annotations

import json
import zipfile

import pytest

from bertkit.errors import BertkitError
from bertkit.grids.glue import finetune_glue_grid, glue_grid_table


@pytest.fixture
def data(tmp_path):
    """Six rows of RTE and SST-2 for each split."""
    labels = {"RTE": ("entailment", "not_entailment"), "SST-2": ("0", "1")}
    texts = {"RTE": ("sentence1", "sentence2"), "SST-2": ("sentence",)}
    for folder, names in texts.items():
        (tmp_path / "glue" / folder).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            columns = ["index", *names, *([] if split == "test" else ["label"])]
            rows = [
                [str(row), *(f"a good film {row}" for _ in names), labels[folder][row % 2]][: len(columns)]
                for row in range(6)
            ]
            lines = ["\t".join(row) for row in (columns, *rows)]
            (tmp_path / "glue" / folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "glue"


@pytest.mark.slow
def test_each_task_has_a_grid_and_the_best_runs_are_packed(tmp_path, data, checkpoint, quick):
    quick["train.max_steps"] = 1

    def run():
        return finetune_glue_grid(
            ["rte", "sst2"],
            output_dir=tmp_path / "out",
            model=str(checkpoint),
            data_dir=data,
            overrides=quick,
            seeds=2,
        )

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


def test_faults_of_all_tasks_are_reported_before_any_run(tmp_path, data, checkpoint, quick):
    (data / "RTE" / "train.tsv").unlink()
    with pytest.raises(BertkitError) as refused:
        finetune_glue_grid(
            ["rte", "sst2", "cola"],
            output_dir=tmp_path / "out",
            model=str(checkpoint),
            data_dir=data,
            overrides=quick,
            seeds=2,
        )
    assert "rte: " in str(refused.value)
    assert "cola: " in str(refused.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(BertkitError, match="each once"):
        finetune_glue_grid([], output_dir=tmp_path / "out")
