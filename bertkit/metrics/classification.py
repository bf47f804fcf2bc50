"""Single-label classification of any table."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import CLASS_IDS, Integers, NumericMetric, metric_info


class Classification(NumericMetric):
    """``accuracy`` and ``f1_macro``, both in [0, 1].

    ``f1_macro`` is the mean over the classes that occur in the predictions or the references, each
    with equal weight. ``predictions`` and ``references`` are class ids, (N,) int64.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Accuracy, and the mean F1 of the classes that occur.", CLASS_IDS)

    def _scores(self, predictions: Integers, references: Integers) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        return {
            "accuracy": float(accuracy_score(references, predictions)),
            "f1_macro": float(f1_score(references, predictions, average="macro", zero_division=0)),
        }


METRIC = Classification
