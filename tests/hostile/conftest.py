"""Options of the campaign, and its figures at the end of the session.

pytest -m hostile tests/hostile                                             # .ci/run takes four seeds in turn
pytest -m hostile tests/hostile --hostile-seconds 3600 --hostile-seed 1     # longer, other cases
pytest -m hostile tests/hostile --hostile-case tables:17                    # one case
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .materials import Materials
from .running import Runner


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
