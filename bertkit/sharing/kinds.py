"""Cards and exports by kind of task; bertkit's own are in `classification`, `ner`, …, beside this module."""

from __future__ import annotations

from typing import Any

from bertkit.tasks.base import Task
from bertkit.tasks.rooms import by_kind_of_task


class Shared:
    """Limits of a task outside of bertkit, and its way with long texts.

    Args:
        task: the task, with the values learnt from its data.
    """

    def __init__(self, task: Any):
        self.task = task

    def stock_note(self) -> str | None:
        """Returns how plain transformers differs from bertkit for an exported checkpoint; ``None`` if it does not."""
        return None

    def window_note(self) -> str | None:
        """Returns a sentence on the windows of texts that are too long for one; ``None`` if they are cut."""
        return None

    def onnx_obstacle(self) -> str | None:
        """Returns why the task cannot be exported to ONNX; ``None`` if it can."""
        return None


@by_kind_of_task
def shared(task: Task) -> Shared:
    """Returns what cards and exports say of a task; other packages register their own class."""
    return Shared(task)
