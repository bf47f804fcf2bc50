"""Numbers in README and docs are those of RESULTS.json, whose rows are complete, SCORES.json and FEW_ROWS.json."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import render  # noqa: E402
from rows import DEFAULT, ROWS  # noqa: E402
from run_all import compared  # noqa: E402

RESULTS = render.read_results()
SPEED = re.compile(
    r"\d[\d.,]* (times as fast|(examples|tokens|requests|rows|texts|sentences)(/s| (a|per) second)|[GT]FLOP/s)"
)
OUTPUT = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LIMITS = re.compile(
    r"more than 8 MiB a sample is read: parts of 1 MiB|would take more\sthan 1\.7 MB|units of 4 to 256 MB|at most"
    r" 64 GiB"
)  # of the code
TEXTS = {
    path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


@pytest.mark.parametrize("page", render.pages(), ids=lambda page: page.name)
def test_pages_are_generated(page: Path):
    assert page.read_text(encoding="utf-8") == render.pages()[page], "run python benchmarks/run_all.py --render"


def test_an_altered_number_is_found(monkeypatch: pytest.MonkeyPatch):
    page = ROOT / "README.md"
    own = RESULTS["rows"]["sst2"]["sides"]["bertkit"]
    monkeypatch.setitem(own, "median", own["median"] + 10)
    assert render.filled(TEXTS[page], RESULTS) != TEXTS[page]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_speed_stands_outside_of_the_blocks(page: Path):
    assert not SPEED.search(render.BLOCK.sub("", TEXTS[page]))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_memory_stands_outside_of_the_blocks(page: Path):
    text = LIMITS.sub("", OUTPUT.sub("", render.BLOCK.sub("", TEXTS[page])))
    assert not re.search(r"\d[\d.,]* ?[KMGT]i?B\b", text)


@pytest.mark.parametrize("name", [name for name, row in RESULTS["rows"].items() if "sides" in row])
def test_ratios_are_those_of_the_rounds(name: str):
    row = RESULTS["rows"][name]
    of_rounds = compared(ROWS[name], row["sides"])
    assert of_rounds == {key: row[key] for key in of_rounds}


def test_rows_are_of_one_commit_and_complete():
    assert set(DEFAULT) <= set(RESULTS["rows"]) <= set(ROWS)
    assert len({row["commit"] for row in RESULTS["rows"].values()}) == 1
