"""Small data in the layout that `bertkit.reproduce` looks for."""

from __future__ import annotations

from pathlib import Path

import pytest


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
