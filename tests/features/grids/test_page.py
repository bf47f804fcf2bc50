"""The report of a grid: what it shows, and what it refuses."""

from __future__ import annotations

import re

import pytest

from bertkit import report_grid
from bertkit.features.grids.definition import RUNS, define, store
from bertkit.runtime.errors import DataError, OutputError
from bertkit.runtime.progress import duration
from bertkit.training.runs.listing import RECORDS

from .conftest import write_record


def test_a_grid_is_drawn_with_all_its_runs(grid, tmp_path):
    results = grid(grid=["train.learning_rate=1e-3,2e-3"], seeds=2)
    page = report_grid(tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    source = page.read_text()
    assert "learning_rate 0.001" in source
    assert "learning_rate 0.002 (best)" in source or "learning_rate 0.001 (best)" in source
    titles = dict(re.findall(r"<title>(\S+): 0\.\d{4}(, collapsed)?</title>", source))
    assert titles.keys() == results.runs.keys()
    collapsed = {name for row in results.settings for name in row.collapsed}
    assert {name for name, is_collapsed in titles.items() if is_collapsed} == collapsed
    for row in results.settings:
        assert f"{row.mean:.4f}" in source
        assert row.low is None or f"{row.low:.4f} to {row.high:.4f}" in source
    assert "http" not in source.replace("http-equiv", "")
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        report_grid(tmp_path / "out", output=tmp_path / "mine.html")


def test_an_interval_below_zero_is_in_the_drawing(tmp_path, monkeypatch):
    definition = define("finetune/glue/stsb", {}, (), (), None, 2, None)
    with pytest.raises(OutputError, match="contains no grid"):
        report_grid(tmp_path)
    store(definition, tmp_path, {})
    with pytest.raises(DataError, match="no run of this grid has finished"):
        report_grid(tmp_path)
    [setting] = definition.settings()
    for cell, score in zip(definition.cells(setting), (0.05, 0.4), strict=True):
        write_record(tmp_path, cell, score, metrics={"eval_pearson": score, "eval_spearmanr": score})
    source = report_grid(tmp_path).read_text()
    [line] = re.findall(r'<line x1="(-?[\d.]+)" y1="(?:[\d.]+)" x2="([\d.]+)" y2="(?:[\d.]+)"/>', source)
    assert 20 <= float(line[0]) < float(line[1])
    monkeypatch.chdir(tmp_path)
    assert f"<title>{tmp_path.name}: grid</title>" in report_grid(".").read_text()


def test_large_scores_have_no_exponent_and_errors_one_full_stop(tmp_path):
    """A score of another package, which may be larger than those of bertkit."""
    definition = define("finetune/glue/stsb", {}, (), (), None, 2, None)
    store(definition, tmp_path, {})
    [setting] = definition.settings()
    finished, failed = definition.cells(setting)
    write_record(tmp_path, finished, 40_000.0)
    (tmp_path / RECORDS / f"{failed.name}.json").write_text('{"error": "TrainingError: the loss is nan."}')
    for cell, seconds in ((finished, 600.0), (failed, 60.0)):  # that of a failed run is the time up to its first step
        (tmp_path / RUNS / cell.name).mkdir(parents=True)
        (tmp_path / RUNS / cell.name / "run.json").write_text(f'{{"wall_time": {seconds}}}')
    source = report_grid(tmp_path).read_text()
    assert f'<td class="n">{duration(600)}</td>' in source
    assert re.findall(r'text-anchor="middle">([^<]+)<', source) == ["0", "10,000", "20,000", "30,000", "40,000"]
    assert "the loss is nan.</p>" in source
    assert "the loss is nan..</p>" not in source
