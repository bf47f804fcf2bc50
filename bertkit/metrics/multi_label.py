"""Classification with any number of labels per example."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import LABEL_SETS, Integers, NumericMetric, metric_info


class MultiLabel(NumericMetric):
    """``f1_micro``, ``f1_macro`` and ``accuracy``, all in [0, 1].

    ``f1_micro`` is F1 over all labels of all examples; ``f1_macro`` the mean F1 of the labels, 0 for a label that is
    never predicted and never true; ``accuracy`` the fraction of examples with all labels right. ``predictions`` and
    ``references`` are (N, C) int64, 1 if the example has the label, else 0.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("Micro F1, macro F1, and the fraction of examples with all labels correct.", LABEL_SETS)

    def _scores(self, predictions: Integers, references: Integers) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        # scikit-learn reads a single column as two classes, 0 and 1, whose mean would count the absence of the label.
        average = "macro" if references.shape[1] > 1 else "binary"
        return {
            # All labels together are the binary labels of N · C cells.
            "f1_micro": float(f1_score(references.ravel(), predictions.ravel(), zero_division=0)),
            "f1_macro": float(f1_score(references, predictions, average=average, zero_division=0)),
            "accuracy": float(accuracy_score(references, predictions)),
        }


METRIC = MultiLabel
