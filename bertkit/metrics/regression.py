"""Regression: one number an example."""

from __future__ import annotations

from typing import Any

import evaluate

from bertkit.metrics import formulas
from bertkit.metrics.numeric import NUMBERS, NumericMetric, metric_info


class Regression(NumericMetric):
    """``mse``, at least 0, and the correlations ``pearson`` and ``spearmanr``, in [-1, 1].

    A correlation is NaN where predictions or references are all the same. ``predictions`` and ``references`` are
    numbers, (N,) float64.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Mean squared error, linear correlation and rank correlation.", NUMBERS)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {
            "mse": formulas.mean_squared_error(predictions, references),
            "pearson": formulas.pearson(predictions, references),
            "spearmanr": formulas.spearman(predictions, references),
        }


METRIC = Regression
