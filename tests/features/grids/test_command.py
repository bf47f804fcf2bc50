"""Options of grids."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.cli.commands import Settings
from bertkit.cli.groups import Options
from bertkit.cli.training import FineTuning, Training
from bertkit.features.grids.command import Grid


def command(grid: Grid, folds: int | None = None) -> Training:
    """A fine-tuning with the options of a grid."""
    run = FineTuning(output_dir=Path("run"), settings=Settings(), of_features=Options([grid]))
    return Training(run=run, recipes=lambda: {"": "classification"}, folds=folds)


@pytest.mark.parametrize("given", [{"seeds": 0}, {"trials": 0}, {"worker": True}, {"grid": ["paper"]}])
def test_any_grid_option_makes_a_grid(given):
    assert command(Grid(**given)).many is not None
    assert command(Grid(), folds=0).many["folds"] == 0
    assert command(Grid()).many is None
