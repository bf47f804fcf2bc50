"""Accuracy alone, for tasks whose class ids carry no meaning, such as the positions of endings."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import CLASS_IDS, Integers, NumericMetric, metric_info


class Accuracy(NumericMetric):
    """``accuracy``, in [0, 1]. ``predictions`` and ``references`` are class ids, (N,) int64."""

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Fraction of predictions that equal their reference.", CLASS_IDS)

    def _scores(self, predictions: Integers, references: Integers) -> dict[str, float]:
        from sklearn.metrics import accuracy_score

        return {"accuracy": float(accuracy_score(references, predictions))}


METRIC = Accuracy
