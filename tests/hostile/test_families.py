"""Generated hostile cases of every family; see ``conftest.py`` for the options."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from . import checkpoints, disks, environment, recipes, resume, signals, stores, tables, together
from .campaign import CASES, Campaign
from .materials import Materials

SECONDS = 160.0  # of all families, by default; fast machines need less for `CASES` of each
MODULES = (checkpoints, disks, environment, recipes, resume, signals, stores, tables, together)
FAMILIES = {module.__name__.rpartition(".")[2]: module.attack for module in MODULES}


@pytest.mark.hostile
@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_cases(
    family: str,
    request: pytest.FixtureRequest,
    made: Materials,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
):
    """Runs the cases that the options ask for."""
    option = request.config.getoption
    wanted, _, number = (option("--hostile-case") or family).partition(":")
    if wanted != family:
        pytest.skip("--hostile-case names another family")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = (option("--hostile-seconds") or SECONDS) * min(workers, os.cpu_count() or 1) / len(FAMILIES)
    most = math.inf if option("--hostile-seconds") else CASES
    only = int(number) if number else None
    campaign = Campaign(option("--hostile-seed"), seconds, most, only, tmp_path, made, record_property)
    campaign.run(family, FAMILIES[family])
