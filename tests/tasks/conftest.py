"""Tasks of small files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertkit.tasks.base import Task


@pytest.fixture
def task_of_files(tmp_path: Path) -> Callable[..., Any]:
    """Returns a function that builds a task; its files are given by their contents, such as ``train_csv="text,…"``."""

    def build(task: type[Task], task_settings: type, data_settings: type, **given: Any) -> Task:
        data, chosen = {}, {}
        for name, value in given.items():
            split, _, kind = name.rpartition("_")
            if kind in ("csv", "tsv", "jsonl", "conll"):
                path = tmp_path / f"{split}.{kind}"
                path.write_text(value, encoding="utf-8")
                data[f"{split}_file"] = str(path)
            else:
                (chosen if name in task_settings.__dataclass_fields__ else data)[name] = value
        return task(task_settings(**chosen), data_settings(**data))

    return build
