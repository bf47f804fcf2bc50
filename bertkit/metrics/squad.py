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
"""What both versions are scored against: of each question its answers, and where in the context they begin."""


class Squad(InMemoryMetric):
    """``exact_match`` and ``f1`` in per cent, as SQuAD 1.1's official scorer computes them.

    ``predictions`` are ``{"id", "prediction_text"}``, ``references`` ``{"id", "answers": {"text", "answer_start"}}``,
    in any order. A question counts with the answer that suits its prediction best; one without a prediction
    counts 0. ``compute`` raises ``DataError`` where a reference has no answers, or nothing can be scored.
    """

    def _info(self) -> evaluate.MetricInfo:
        prediction = {"id": datasets.Value("string"), "prediction_text": datasets.Value("string")}
        return evaluate.MetricInfo(
            description="Share of answers that are exactly right, and their mean F1 over words.",
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
    """Warns of questions that no prediction has the id of.

    Args:
        texts: predicted, by id.
        references: the questions.
        consequence: what the scorer does with such questions.

    Raises:
        DataError: all questions are such.
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
