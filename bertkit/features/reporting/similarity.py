"""Reports of similarity and of rankings: the pairs and the queries with the largest errors."""

from __future__ import annotations

import numpy as np

from bertkit.features.reporting.reported import Mistake, Reported, reported
from bertkit.inference.outcome import Outcome
from bertkit.tasks.similarity.task import SimilarityTask


class ReportedRankings(Reported):
    """Mistakes are queries whose ranking is not the best one."""

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        """Returns the first row of each query with an nDCG below 1, the lowest first."""
        rows, _ = outcome.predictions_and_references()
        return self.mistakes_of(
            outcome,
            (
                (row, 1 - ndcg, "nDCG@10 1.000", f"{ndcg:.3f}")
                for row, (weight, ndcg, *_) in enumerate(rows)
                if weight and ndcg < 1
            ),
            measure="error",
        )


class ReportedPairs(Reported):
    """Mistakes are pairs whose rank by the cosine is far from that by the score."""

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        """Returns pairs by the difference of both ranks, as a part of the largest possible one."""
        from scipy.stats import rankdata

        cosines, scores = map(np.asarray, outcome.predictions_and_references())
        errors = np.abs(rankdata(cosines) - rankdata(scores)) / max(len(scores) - 1, 1)
        return self.mistakes_of(
            outcome,
            (
                (row, errors[row], f"score {scores[row]:g}", f"cosine {cosines[row]:.3f}")
                for row in np.flatnonzero(errors).tolist()
            ),
            measure="error",
        )


reported.register(
    SimilarityTask, lambda task: (ReportedPairs if task.main_metric == "spearmanr" else ReportedRankings)(task)
)
