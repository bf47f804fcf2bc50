"""GLUE's metrics."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

_CITATION = """@inproceedings{wang2018glue,
  title={GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  author={Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  booktitle={Proceedings of the EMNLP Workshop BlackboxNLP},
  year={2018}
}"""


class Glue(evaluate.Metric):
    """``accuracy``: the share of predictions that equal their reference, in [0, 1].

    ``predictions`` and ``references`` are class ids, (N,) int64.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Accuracy, the metric of GLUE's SST-2, MNLI, QNLI, RTE and WNLI.",
            citation=_CITATION,
            inputs_description="predictions, references: class ids (int64), one an example",
            features=datasets.Features({name: datasets.Value("int64") for name in ("predictions", "references")}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {"accuracy": float(np.mean(np.asarray(predictions) == np.asarray(references)))}
