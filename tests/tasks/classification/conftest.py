"""Tasks of classification, and contents of their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bertkit.tasks.classification.task import ClassificationTask


@pytest.fixture
def task(task_of_files: Callable[..., Any]) -> Callable[..., ClassificationTask]:
    """Builds a task of files, each given by its content: ``task(train_csv=…, test_jsonl=…, stride=…, problem=…)``."""
    return partial(task_of_files, ClassificationTask)


def rows(**columns: list[Any]) -> str:
    """JSON lines."""
    return "".join(
        json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
    )


def many(classes: str = "pos neg", count: int = 40) -> str:
    names = classes.split()
    return "text,label\n" + "".join(f"text {row},{names[row % len(names)]}\n" for row in range(count))


SEVERAL = rows(text=["a", "b", "c", "d"], labels=[["x"], ["x", "y"], [], ["y"]])
