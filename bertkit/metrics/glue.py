"""GLUE's metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import evaluate
import numpy as np

from bertkit.metrics import GLUE_SCORES
from bertkit.metrics.correlation import pearson, spearman
from bertkit.metrics.numeric import CLASS_IDS, NUMBERS, Integers, NumericMetric, metric_info

_CITATION = """@inproceedings{wang2018glue,
  title={GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  author={Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  booktitle={Proceedings of the EMNLP Workshop BlackboxNLP},
  year={2018}
}"""


def _accuracy(predictions: Integers, references: Integers) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(references, predictions))


def _f1(predictions: Integers, references: Integers) -> float:
    """Computes F1 of class 1, in [0, 1]; 0 where it is neither predicted nor true."""
    from sklearn.metrics import f1_score

    return float(f1_score(references == 1, predictions == 1, zero_division=0))


def _matthews_correlation(predictions: Integers, references: Integers) -> float:
    """Computes the correlation of classes (Gorodkin 2004), in [-1, 1]; 0 where either side has one class only."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(references) == 0:  # scikit-learn warns if both sides have the same single class
        return 0.0
    return float(matthews_corrcoef(references, predictions))


_SCORES: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews_correlation": _matthews_correlation,
    "pearson": pearson,
    "spearmanr": spearman,
}


class Glue(NumericMetric):
    """Scores of one task, ``config_name``, named as in the evaluate library's ``glue``: see ``GLUE_SCORES``.

    If there are two, ``combined_score`` is their mean, as in transformers' ``run_glue.py`` and in GLUE's average over
    its tasks. ``predictions`` and ``references`` are class ids, (N,) int64, for STS-B similarities, (N,) float64.

    Raises:
        KeyError: ``config_name`` is not a GLUE task.
    """

    def _info(self) -> evaluate.MetricInfo:
        scores = GLUE_SCORES[self.config_name]
        inputs = NUMBERS if "pearson" in scores else CLASS_IDS
        return metric_info(f"GLUE's {self.config_name}: {', '.join(scores)}.", inputs, _CITATION)

    def _scores(self, predictions: Any, references: Any) -> dict[str, float]:
        names = GLUE_SCORES[self.config_name]
        scores = {name: _SCORES[name](predictions, references) for name in names}
        return scores if len(names) == 1 else {**scores, "combined_score": sum(scores.values()) / len(names)}


METRIC = Glue
