"""Classification with any number of labels per example."""

from __future__ import annotations

import evaluate

from bertkit.metrics.numeric import NumericMetric, metric_info


class MultiLabel(NumericMetric):
    """``f1_micro``, ``f1_macro`` and ``accuracy``, all in [0, 1].

    ``f1_micro`` is F1 over all labels of all examples; ``f1_macro`` the mean F1 of the labels, 0 for a label that is
    never predicted and never true; ``accuracy`` the fraction of examples with all labels right. ``predictions`` and
    ``references`` are (N, C) int64, 1 if the example has the label, else 0.
    """

    key = "multi_label"

    def _info(self) -> evaluate.MetricInfo:
        return metric_info(self.key, "Micro F1, macro F1, and the fraction of examples with all labels correct.")


METRIC = MultiLabel
