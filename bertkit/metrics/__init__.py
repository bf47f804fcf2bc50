"""Metrics as plain functions, which need no network: `compute`; and as ``evaluate.Metric``: `load`.

``evaluate.load`` fetches a script from the Hub at call time; these metrics are part of the package. ``glue/sst2`` has
the scores of the configuration ``sst2`` of the evaluate library's ``glue``.

Examples:
    ```python
    metric = bertkit.metrics.load("glue/mrpc")
    metric.compute(predictions=[0, 1], references=[0, 1])  # accuracy, F1 and their mean
    ```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertkit.metrics.scores import (
    CALIBRATION_BINS,
    CLASS_IDS,
    GLUE_SCORES,
    INPUTS,
    LABEL_SETS,
    NUMBERS,
    Floats,
    Integers,
    MetricSettings,
    accuracy,
    check_name,
    checked,
    classification,
    compute,
    counted_pairs,
    expected_calibration_error,
    glue,
    multi_label,
    names,
    pearson,
    regression,
    score_limits,
    score_range,
    spearman,
)

if TYPE_CHECKING:
    import evaluate

__all__ = [
    "CALIBRATION_BINS",
    "CLASS_IDS",
    "GLUE_SCORES",
    "INPUTS",
    "LABEL_SETS",
    "NUMBERS",
    "Floats",
    "Integers",
    "MetricSettings",
    "accuracy",
    "checked",
    "classification",
    "compute",
    "counted_pairs",
    "expected_calibration_error",
    "glue",
    "load",
    "multi_label",
    "names",
    "pearson",
    "regression",
    "score_limits",
    "score_range",
    "spearman",
]


def load(name: str) -> evaluate.Metric:
    """Returns the metric of that name, which keeps its inputs in memory, so that several can be in use at once.

    Raises:
        RecipeError: the name is unknown.
    """
    check_name(name)
    from bertkit.metrics.adapter import Metric

    return Metric(name)
