"""A table and a tiny BERT on which a grid of several runs takes seconds, and files of predictions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertkit.training.runs.listing import RECORDS


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Thirty texts by five authors, two thirds of them good; each text contains its number."""
    draw = random.Random(0)
    words = "a film story the plot is lovely or awful".split()
    rows = [
        {
            "text": f"{' '.join(draw.choices(words, k=4))} {number}",
            "label": "bad" if number % 3 == 0 else "good",
            "author": f"author {number % 5}",
        }
        for number in range(30)
    ]
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def grid(tmp_path: Path, table: Path, checkpoint: Path, quick: dict[str, Any]) -> Callable[..., Any]:
    """Runs a grid of quick runs on the table into the folder ``out``."""
    from bertkit.features.grids.grid import finetune_grid

    def call(out: str = "out", overrides: dict[str, Any] | None = None, **arguments: Any) -> Any:
        many = " ".join([*arguments.get("grid", ()), *arguments.get("search", ())])
        single = {key: value for key, value in quick.items() if key not in many}
        return finetune_grid(
            "finetune/classification",
            output_dir=tmp_path / out,
            model=str(checkpoint),
            overrides={**single, "data.train_file": str(table), **(overrides or {})},
            **arguments,
        )

    return call


def write_record(folder: Path, cell: Any, score: float, **more: Any) -> None:
    """Writes the record of a finished run of a grid."""
    (folder / RECORDS).mkdir(exist_ok=True)
    record = {"score": score, "metrics": {}, "collapsed": False, **more}
    (folder / RECORDS / f"{cell.name}.json").write_text(json.dumps(record))


@pytest.fixture
def predictions(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of predictions, of which "yes" is right everywhere unless ``gold`` is given."""

    def write(name: str, values: Sequence[Any], gold: Sequence[Any] | None = None) -> Path:
        path = tmp_path / name
        gold = ["yes"] * len(values) if gold is None else gold
        rows = [{"prediction": value, "gold": each} for value, each in zip(values, gold, strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write
