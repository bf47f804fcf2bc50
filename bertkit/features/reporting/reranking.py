"""Reports of rerankers: rankings, without the charts of numbers, since a relevance is no scale."""

from __future__ import annotations

from bertkit.features.reporting.reported import reported
from bertkit.features.reporting.similarity import ReportedRankings
from bertkit.tasks.reranking import RerankingTask

reported.register(RerankingTask, ReportedRankings)
