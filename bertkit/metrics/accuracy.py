"""Accuracy alone, for tasks whose class ids carry no meaning, such as the positions of endings."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import NumericMetric, metric_info


class Accuracy(NumericMetric):
    """``accuracy``, in [0, 1]. ``predictions`` and ``references`` are class ids, (N,) int64."""

    key = "accuracy"

    def _info(self) -> evaluate.MetricInfo:
        return metric_info(self.key, "Fraction of predictions that equal their reference.")


METRIC = Accuracy
