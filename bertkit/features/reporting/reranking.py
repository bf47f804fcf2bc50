"""Reports of rerankers: rankings, without the charts of numbers, since a relevance is no scale."""

from __future__ import annotations

from bertkit.features.reporting.reported import Reported, reported
from bertkit.features.reporting.similarity import ReportedRankings
from bertkit.tasks.reranking import RerankingTask


@reported.register
def _(task: RerankingTask) -> Reported:
    return ReportedRankings(task)
