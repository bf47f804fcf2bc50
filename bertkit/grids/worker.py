"""Worker process of a grid, for one GPU: ``python -m bertkit.grids.worker FOLDER``; see `workers.work_on_gpus`."""

from __future__ import annotations

import sys
from pathlib import Path

from bertkit.grids.definition import read
from bertkit.grids.workers import work
from bertkit.placement.launched import end_with_launcher
from bertkit.tasks.shared_encoding import sharing_encodings

ENCODED = "encoded"
"""Folder of the tokenized data of a grid."""


def take_part(folder: Path) -> None:
    """Runs cells of the grid in ``folder`` until it is complete."""
    with sharing_encodings(folder / ENCODED):
        work(read(folder), folder)


if __name__ == "__main__":
    end_with_launcher()
    take_part(Path(sys.argv[1]))
