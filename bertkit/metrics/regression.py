"""Regression: one number per example."""

from __future__ import annotations

import evaluate
import numpy as np

from bertkit.metrics.correlation import Floats, pearson, spearman
from bertkit.metrics.numeric import NUMBERS, NumericMetric, metric_info


class Regression(NumericMetric):
    """``mse``, at least 0, and the correlations ``pearson`` and ``spearmanr``, in [-1, 1].

    A correlation is NaN if predictions or references are all equal. ``predictions`` and ``references`` are
    numbers, (N,) float64.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Mean squared error, linear correlation and rank correlation.", NUMBERS)

    def _scores(self, predictions: Floats, references: Floats) -> dict[str, float]:
        return {
            # Not scikit-learn's, which refuses the NaN of a model that has diverged.
            "mse": float(np.mean(np.square(predictions - references))),
            "pearson": pearson(predictions, references),
            "spearmanr": spearman(predictions, references),
        }


METRIC = Regression
