"""Regression: one number per example."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import NumericMetric, metric_info


class Regression(NumericMetric):
    """``mse``, at least 0, and the correlations ``pearson`` and ``spearmanr``, in [-1, 1].

    A correlation is NaN if predictions or references are all equal. ``predictions`` and ``references`` are
    numbers, (N,) float64.
    """

    key = "regression"

    def _info(self) -> evaluate.MetricInfo:
        return metric_info(self.key, "Mean squared error, linear correlation and rank correlation.")


METRIC = Regression
