"""Trackers whose files are read back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def trackio(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library, with a folder of its own; it reads the variable at its first import."""
    os.environ["TRACKIO_DIR"] = str(tmp_path_factory.mktemp("trackio"))
    return pytest.importorskip("trackio", reason="the extra trackio is not installed")


@pytest.fixture
def records(trackio: Any) -> Callable[[str], dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """``records(project)``: name → configuration and logged values of all runs of a project."""
    from trackio.sqlite_storage import SQLiteStorage

    def read(project: str) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
        runs = list(trackio.Api().runs(project))
        assert len({run.name for run in runs}) == len(runs)
        return {run.name: (run.config, SQLiteStorage.get_logs(project, run.name, run_id=run.id)) for run in runs}

    return read


@pytest.fixture
def events() -> Callable[[Path], Any]:
    """``events(folder)``: the event files of TensorBoard in a folder."""
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder: Path) -> Any:
        return EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0, "tensors": 0}).Reload()

    return read
