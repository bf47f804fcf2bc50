"""GLUE's metrics."""

from __future__ import annotations

from typing import Any

import evaluate

from bertkit.metrics import GLUE_SCORES, formulas
from bertkit.metrics.numeric import CLASS_IDS, NUMBERS, NumericMetric, metric_info

_CITATION = """@inproceedings{wang2018glue,
  title={GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  author={Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  booktitle={Proceedings of the EMNLP Workshop BlackboxNLP},
  year={2018}
}"""

_FORMULAS = {
    "accuracy": formulas.accuracy,
    "f1": formulas.f1,
    "matthews_correlation": formulas.matthews_correlation,
    "pearson": formulas.pearson,
    "spearmanr": formulas.spearman,
}


class Glue(NumericMetric):
    """The scores of one task, ``config_name``, named as in the evaluate library's ``glue``: see ``GLUE_SCORES``.

    Where there are two, ``combined_score`` is their mean, as in transformers' ``run_glue.py`` and in GLUE's own average
    over its tasks. ``predictions`` and ``references`` are class ids, (N,) int64; those of STS-B are similarities, (N,)
    float64.

    Raises:
        KeyError: ``config_name`` is no task of GLUE.
    """

    def _info(self) -> evaluate.MetricInfo:
        scores = GLUE_SCORES[self.config_name]
        inputs = NUMBERS if "pearson" in scores else CLASS_IDS
        return metric_info(f"GLUE's {self.config_name}: {', '.join(scores)}.", inputs, _CITATION)

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        names = GLUE_SCORES[self.config_name]
        scores = {name: _FORMULAS[name](predictions, references) for name in names}
        return scores if len(names) == 1 else {**scores, "combined_score": sum(scores.values()) / len(names)}


METRIC = Glue
