"""Classification with any number of labels an example."""

from __future__ import annotations

from typing import Any

import evaluate

from bertkit.metrics import formulas
from bertkit.metrics.numeric import LABEL_SETS, NumericMetric, metric_info


class MultiLabel(NumericMetric):
    """``f1_micro``, ``f1_macro`` and ``accuracy``, all in [0, 1].

    F1 of all occurrences of labels together; the mean of the F1 of each label, 0 for one that is never predicted and
    never true; the share of examples with all labels right. ``predictions`` and ``references`` are (N, C) int64, 1
    where the example has the label, else 0.
    """

    def _info(self) -> evaluate.MetricInfo:
        return metric_info("F1 of all labels together, mean of the F1 of each, and examples all right.", LABEL_SETS)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {
            "f1_micro": formulas.multi_label_f1_micro(predictions, references),
            "f1_macro": formulas.multi_label_f1_macro(predictions, references),
            "accuracy": formulas.subset_accuracy(predictions, references),
        }


METRIC = MultiLabel
