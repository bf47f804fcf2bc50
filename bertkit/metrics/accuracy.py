"""Accuracy alone, for tasks whose classes mean nothing by themselves, such as the positions of endings."""

from __future__ import annotations

from typing import Any

import evaluate

from bertkit.metrics import formulas
from bertkit.metrics.numeric import CLASS_IDS, NumericMetric, metric_info


class Accuracy(NumericMetric):
    """``accuracy``, in [0, 1]. ``predictions`` and ``references`` are class ids, (N,) int64."""

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("The share of predictions that equal their reference.", CLASS_IDS)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {"accuracy": formulas.accuracy(predictions, references)}


METRIC = Accuracy
