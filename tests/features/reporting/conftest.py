"""Runs that leave reports, on small tables."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertkit import finetune
from bertkit.features.reporting.reported import Chart
from bertkit.training.runs.record import Run

HOSTILE = "<script>alert(1)</script>"
"""A label and a text that would run if it were not escaped."""

QUICK = {
    "data.max_seq_length": 24,
    "train.max_steps": 6,
    "train.logging_steps": 1,
    "train.eval_strategy": "steps",
    "train.eval_steps": 2,
    "train.save_strategy": "steps",
    "train.save_steps": 2,
    "train.global_train_batch_size": 8,
    "train.learning_rate": 1e-2,  # outputs of different texts differ by more than rounding
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


class Page(HTMLParser):
    """Tables of a page by caption, as lists of rows; its scripts, ids, and headings."""

    def __init__(self, path: Path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tables: dict[str, list[list[str]]] = {}
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.images: list[str] = []
        self.links: list[str] = []
        self._rows: list[list[str]] = []
        self._in: str | None = None
        self._caption = ""
        self.tiles: dict[str, str] = {}
        self._term = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [given[name] or "" for name in ("src", "href", "srcset", "data", "action") if name in given]
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag == "img":
            self.images.append(given.get("alt") or "")
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")
        elif tag == "dt":
            self._term = ""
        if tag in ("caption", "th", "td", "dt", "b"):
            self._in = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self.tables[self._caption.strip()] = [[cell.strip() for cell in row] for row in self._rows]
        if tag in ("caption", "th", "td", "dt", "b"):
            self._in = None

    def handle_data(self, data: str) -> None:
        if self._in == "caption":
            self._caption += data
        elif self._in in ("th", "td"):
            self._rows[-1][-1] += data
        elif self._in == "dt":
            self._term += data
        elif self._in == "b" and self._term:
            self.tiles[self._term] = data


def drawn(chart: Chart) -> Axes:
    """The axes of a chart."""
    axes = Figure().subplots()
    chart.draw(axes)
    return axes


@pytest.fixture(autouse=True)
def without_reports() -> None:
    """Overrides the fixture that turns reports off."""


@pytest.fixture(scope="session")
def hostile_run(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A classifier with a label that is a script, on texts of up to 10,000 characters; the folder is only read."""
    folder = tmp_path_factory.mktemp("hostile")
    draw = random.Random(0)
    words = "a film story the plot is lovely or awful good bad".split()
    labels = ["good", HOSTILE, "a $x_1$ label", "ü<&\\"]
    rows = [
        {"text": " ".join(draw.choices(words, k=draw.randint(2, 12))), "label": draw.choice(labels)} for _ in range(150)
    ]
    rows[0]["text"] = f"{HOSTILE} {'x' * 10_000}"
    rows[1]["text"] = f"<img src=http://example.org/x.png onerror=alert(1)> {'long words ' * 900}"
    for name, chosen in (("train", rows[50:]), ("validation", rows[:50])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
    files = {f"data.{name}_file": str(folder / f"{name}.jsonl") for name in ("train", "validation")}
    return finetune(
        "finetune/classification",
        model=str(checkpoint),
        output_dir=folder / "run",
        overrides={**QUICK, **files, "data.split_seed": 1},
    )


@pytest.fixture
def copied(hostile_run: Run, tmp_path: Path) -> Callable[[str], Path]:
    """Copies the run to a folder of this name, which a test may change."""

    def copy(name: str = "copy") -> Path:
        return Path(shutil.copytree(hostile_run.output_dir, tmp_path / name))

    return copy
