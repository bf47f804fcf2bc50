"""Rerankers, whose score is of the queries as a whole, and not of single pairs."""

from __future__ import annotations

from bertkit.features.choosing.frozen import FrozenTask, frozen_task, refusal
from bertkit.tasks.reranking import RerankingTask


@frozen_task.register
def _(task: RerankingTask) -> FrozenTask:
    raise refusal(task)
