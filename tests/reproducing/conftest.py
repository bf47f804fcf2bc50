"""Small data in the layout that `bertkit.reproduce` looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

QUICK = {
    "data.max_seq_length": 16,
    "train.max_steps": 1,
    "train.eval_strategy": "no",
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
    "train.global_train_batch_size": 4,
    "train.report": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.fixture
def quick() -> dict[str, Any]:
    """Overrides for runs of one step on the CPU, in float32."""
    return dict(QUICK)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """RTE, and entities in two documents; nothing else."""
    folder = tmp_path / "data"
    (folder / "glue" / "RTE").mkdir(parents=True)
    rows = [
        f"{row}\ta good film\tthe plot is lovely\t{'entailment' if row % 2 else 'not_entailment'}" for row in range(6)
    ]
    for split in ("train", "dev"):
        (folder / "glue" / "RTE" / f"{split}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]))
    (folder / "conll2003").mkdir()
    document = "-DOCSTART- O\n\na B-PER\nfilm O\n\nthe O\nplot B-LOC\n\n"
    for split in ("train", "valid", "test"):
        (folder / "conll2003" / f"{split}.txt").write_text(document * 3)
    return folder
