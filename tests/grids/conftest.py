"""A table and a tiny BERT on which a grid of several runs takes seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

QUICK = {
    "data.max_seq_length": 16,
    "train.max_steps": 2,
    "train.eval_strategy": "no",
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
    "train.global_train_batch_size": 4,
    "train.learning_rate": 1e-3,
    "train.report": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.fixture
def quick() -> dict[str, Any]:
    """Overrides for runs of two steps on the CPU, in float32."""
    return dict(QUICK)


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
    from bertkit.grids.grid import finetune_grid

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
