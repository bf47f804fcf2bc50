"""A table and a tiny BERT on which a grid of several runs takes seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
