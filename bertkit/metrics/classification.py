"""Single-label classification of any table."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import NumericMetric, metric_info


class Classification(NumericMetric):
    """``accuracy`` and ``f1_macro``, both in [0, 1].

    ``f1_macro`` is the mean over the classes that occur in the predictions or the references, each
    with equal weight. ``predictions`` and ``references`` are class ids, (N,) int64.
    """

    key = "classification"

    def _info(self) -> evaluate.MetricInfo:
        return metric_info(self.key, "Accuracy, and the mean F1 of the classes that occur.")


METRIC = Classification
