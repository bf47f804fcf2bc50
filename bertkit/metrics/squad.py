"""SQuAD 1.1's metric."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate

from bertkit.errors import DataError
from bertkit.metrics.answers import best, exact, f1
from bertkit.metrics.in_memory import InMemoryMetric

_CITATION = """@inproceedings{rajpurkar2016squad,
  title={SQuAD: 100,000+ Questions for Machine Comprehension of Text},
  author={Rajpurkar, Pranav and Zhang, Jian and Lopyrev, Konstantin and Liang, Percy},
  booktitle={Proceedings of EMNLP},
  year={2016}
}"""

REFERENCES = datasets.Features(
    {
        "id": datasets.Value("string"),
        "answers": datasets.Features(
            {"text": datasets.List(datasets.Value("string")), "answer_start": datasets.List(datasets.Value("int32"))}
        ),
    }
)
"""References of both versions: the answers of each question, and where they begin in the context."""


class Squad(InMemoryMetric):
    """``exact_match`` and ``f1`` in per cent, as SQuAD 1.1's official scorer computes them.

    ``predictions`` are ``{"id", "prediction_text"}``, ``references`` ``{"id", "answers": {"text", "answer_start"}}``,
    in any order. The score of a question is the highest over its answers, 0 without a prediction. ``compute`` raises
    ``DataError`` if a reference has no answers, or no prediction has the id of a question.
    """

    def _info(self) -> evaluate.MetricInfo:
        prediction = {"id": datasets.Value("string"), "prediction_text": datasets.Value("string")}
        return evaluate.MetricInfo(
            description="Fraction of answers that match exactly, and their mean F1 over words.",
            citation=_CITATION,
            inputs_description="predictions: id and prediction_text; references: id and answers (text, answer_start)",
            features=datasets.Features({"predictions": prediction, "references": REFERENCES}),
        )

    def _compute(
        self, predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        texts = {each["id"]: each["prediction_text"] for each in predictions}
        check_ids(texts, references, "they count as wrong")
        unanswerable = [each["id"] for each in references if not each["answers"]["text"]]
        if unanswerable:
            raise DataError(
                f"{len(unanswerable)} of {len(references)} questions have no answer to compare with, the first is "
                f"{unanswerable[0]!r}; squad_v2 scores such questions"
            )
        pairs = [(texts[each["id"]], each["answers"]["text"]) for each in references if each["id"] in texts]
        return {
            name: 100 * sum(best(score, text, answers) for text, answers in pairs) / len(references)
            for name, score in (("exact_match", exact), ("f1", f1))
        }


def check_ids(texts: Mapping[str, str], references: Sequence[Mapping[str, Any]], consequence: str) -> None:
    """Warns about questions without a prediction.

    Args:
        texts: predicted texts by id.
        references: the questions.
        consequence: effect on the score, for the warning.

    Raises:
        DataError: no question has a prediction.
    """
    missing = [each["id"] for each in references if each["id"] not in texts]
    if len(missing) == len(references):
        raise DataError("nothing to score: no prediction has the id of a question")
    if missing:
        warnings.warn(
            f"{len(missing)} of {len(references)} questions have no prediction, {consequence}; the first is "
            f"{missing[0]!r}: compare the ids of predictions and references",
            stacklevel=2,
        )


METRIC = Squad
