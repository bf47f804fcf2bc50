"""The table of a grid: what fits the terminal, and its other forms."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from bertkit.features.grids.results import GridResults, SettingResult
from bertkit.features.grids.table import grid_table


@pytest.fixture
def results():
    """Two settings of three runs each; one run of each has collapsed."""
    scores = (3, 0.5, 0.01, 0.5, 0.49, 0.51, 0.49, 0.51, ("0-seed=42",), ())
    values = [{"train.global_train_batch_size": 16, "train.learning_rate": rate} for rate in (2e-5, 5e-5)]
    rows = tuple(SettingResult(f"0{number}", each, *scores) for number, each in enumerate(values))
    return GridResults(Path("out"), "rte", "accuracy", rows, {}, "01", "01-seed=42", "chosen")


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_table_fits_the_terminal(results, width):
    lines = grid_table(results, width).splitlines()
    settings = [line for line in lines if "0.5000 ± 0.0100" in line]
    assert len(settings) == 2
    assert max(map(len, settings)) <= width
    assert settings[1].startswith("*")
    assert "1 collapsed" in settings[0]
    assert ("0.4900–0.5100" in settings[0]) == (width >= 80)
    assert ("median" in "".join(lines)) == (width == 140)


def test_the_other_forms(results):
    assert "<b>Grid out: accuracy</b><p>best: 01; chosen</p><table><tr><th>" in results._repr_html_()
    found, _ = csv.DictReader(io.StringIO(grid_table(results, format="csv")))
    assert (found["train.learning_rate"], found["mean"], found["collapsed"]) == ("2e-05", "0.5", "1")
    assert r"2e-05 & 3 & 0.5000 $\pm$ 0.0100" in grid_table(results, format="latex")
    assert "| 2e-05 | 3 | 0.5000 ± 0.0100 |" in grid_table(results, 20, "markdown")
