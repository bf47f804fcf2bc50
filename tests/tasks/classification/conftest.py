"""Tasks of classification, and contents of their files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bertkit.tasks.classification.task import ClassificationTask
from tests.tasks.conftest import json_lines


@pytest.fixture
def task(task_of_files: Callable[..., Any]) -> Callable[..., ClassificationTask]:
    """Builds a task of files, each given by its content: ``task(train_csv=…, test_jsonl=…, stride=…, problem=…)``."""
    return partial(task_of_files, ClassificationTask)


def many(classes: str = "pos neg", count: int = 40) -> str:
    names = classes.split()
    return "text,label\n" + "".join(f"text {row},{names[row % len(names)]}\n" for row in range(count))


SEVERAL = json_lines(text=["a", "b", "c", "d"], labels=[["x"], ["x", "y"], [], ["y"]])
