"""GLUE's metrics."""

from __future__ import annotations

import evaluate

from bertkit.metrics import GLUE_SCORES
from bertkit.metrics.numeric import NumericMetric, metric_info

_CITATION = """@inproceedings{wang2018glue,
  title={GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  author={Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  booktitle={Proceedings of the EMNLP Workshop BlackboxNLP},
  year={2018}
}"""


class Glue(NumericMetric):
    """Scores of one task, ``config_name``, named as in the evaluate library's ``glue``: see ``GLUE_SCORES``.

    If there are two, ``combined_score`` is their mean, as in transformers' ``run_glue.py`` and in GLUE's average over
    its tasks. ``predictions`` and ``references`` are class ids, (N,) int64, for STS-B similarities, (N,) float64.

    Raises:
        KeyError: ``config_name`` is not a GLUE task.
    """

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"glue/{self.config_name}"

    def _info(self) -> evaluate.MetricInfo:
        scores = GLUE_SCORES[self.config_name]
        return metric_info(self.key, f"GLUE's {self.config_name}: {', '.join(scores)}.", _CITATION)


METRIC = Glue
