"""Single-label classification of any table."""

from __future__ import annotations

from typing import Any

import evaluate

from bertkit.metrics import formulas
from bertkit.metrics.numeric import CLASS_IDS, NumericMetric, metric_info


class Classification(NumericMetric):
    """``accuracy`` and ``f1_macro``, both in [0, 1].

    The mean of F1 is over the classes that occur in the predictions or the references, so that frequent and rare
    classes count alike. ``predictions`` and ``references`` are class ids, (N,) int64.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Accuracy, and the mean of the F1 of the classes that occur.", CLASS_IDS)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {
            "accuracy": formulas.accuracy(predictions, references),
            "f1_macro": formulas.f1_macro(predictions, references),
        }


METRIC = Classification
