"""Options of grids."""

from __future__ import annotations

import pytest

from bertkit.cli.training import Grid


def test_no_option_is_one_run():
    assert not Grid().is_given


@pytest.mark.parametrize("given", [{"seeds": 0}, {"folds": 0}, {"trials": 0}, {"worker": True}, {"grid": ["paper"]}])
def test_any_grid_option_makes_a_grid(given):
    assert Grid(**given).is_given
