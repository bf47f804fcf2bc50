"""Options of the campaign, and its figures at the end of the session.

pytest -m hostile tests/hostile                                             # .ci/run takes four seeds in turn
pytest -m hostile tests/hostile --hostile-seconds 3600 --hostile-seed 1     # longer, other cases
pytest -m hostile tests/hostile --hostile-case tables:17                    # one case
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .campaign import CASES, Attack, Campaign
from .materials import Materials
from .running import Runner

SECONDS = 160.0  # of all families, by default; fast machines need less for `CASES` of each
FAMILIES = ("checkpoints", "disks", "environment", "recipes", "resume", "signals", "stores", "tables", "together")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hostile")
    group.addoption("--hostile-seconds", type=float, help="Run cases for that many seconds in all, however many.")
    group.addoption("--hostile-seed", type=int, default=0, help="Other cases: case n of a seed is always the same.")
    group.addoption("--hostile-case", metavar="FAMILY:N", help="Run this case alone.")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Materials]:
    """Whole data and checkpoints, and the process that runs the commands."""
    folder = tmp_path_factory.mktemp("made")
    materials = Materials(folder, Runner(folder / "home"))
    yield materials
    materials.close()


@pytest.fixture
def hostile(
    request: pytest.FixtureRequest, made: Materials, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Callable[[str, Attack], None]:
    """``hostile(family, attack)``: runs the cases that the options ask for."""
    option = request.config.getoption
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = (option("--hostile-seconds") or SECONDS) * min(workers, os.cpu_count() or 1) / len(FAMILIES)
    most = math.inf if option("--hostile-seconds") else CASES

    def run(family: str, attack: Attack) -> None:
        assert family in FAMILIES
        wanted, _, number = (option("--hostile-case") or family).partition(":")
        if wanted != family:
            pytest.skip("--hostile-case names another family")
        only = int(number) if number else None
        Campaign(option("--hostile-seed"), seconds, most, only, tmp_path, made, record_property).run(family, attack)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the figures that docs/explanation/reliability.md quotes."""
    reports = [report for group in ("passed", "failed") for report in terminalreporter.stats.get(group, [])]
    rows = sorted(value for report in reports for name, value in report.user_properties if name == "hostile")
    if not rows:
        return
    terminalreporter.section(f"hostile cases, seed {config.getoption('--hostile-seed')}")
    total = ["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])]
    titles = ["family", "cases", "answered", "refused", "faulty cases", "distinct faults"]
    for row in (titles, ["---"] * len(titles), *rows, total):
        terminalreporter.write_line(f"| {' | '.join(map(str, row))} |")
