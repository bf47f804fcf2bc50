"""SQuAD 2.0's metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate

from bertkit.metrics.answers import best, exact, f1_or_both_empty, normalized
from bertkit.metrics.in_memory import InMemoryMetric
from bertkit.metrics.squad import REFERENCES, check_ids

_CITATION = """@inproceedings{rajpurkar2018know,
  title={Know What You Don't Know: Unanswerable Questions for SQuAD},
  author={Rajpurkar, Pranav and Jia, Robin and Liang, Percy},
  booktitle={Proceedings of ACL},
  year={2018}
}"""

Scores = dict[str, float]
"""One score per question, by its id."""


class SquadV2(InMemoryMetric):
    """SQuAD 2.0's scores in per cent, as computed by its official scorer.

    ``predictions`` are ``{"id", "prediction_text", "no_answer_probability"}``, ``references`` ``{"id", "answers":
    {"text", "answer_start"}}``, in any order. A question without answers is unanswerable, and an empty text predicts
    that. The "probability" may be any number that grows with the odds of there being no answer. If it is above
    ``no_answer_threshold``, an argument of ``compute``, the prediction counts as "no answer" whatever its text.

    The scores are ``exact``, ``f1`` and ``total``, the number of questions; the same for the answerable questions
    (``HasAns_exact`` …) and the unanswerable ones (``NoAns_exact`` …), if there are any; and ``best_exact`` and
    ``best_f1``, the highest that any threshold gives, with ``best_exact_thresh`` and ``best_f1_thresh``.
    """

    def _info(self) -> evaluate.MetricInfo:
        prediction = {
            "id": datasets.Value("string"),
            "prediction_text": datasets.Value("string"),
            # The evaluate library's float32 would change thresholds.
            "no_answer_probability": datasets.Value("float64"),
        }
        return evaluate.MetricInfo(
            description="Exact match and F1 where questions may have no answer, and the best thresholds for no answer.",
            citation=_CITATION,
            inputs_description="predictions: id, prediction_text and no_answer_probability; references: id and answers "
            "(text, answer_start)",
            features=datasets.Features({"predictions": prediction, "references": REFERENCES}),
        )

    def _compute(
        self,
        predictions: Sequence[Mapping[str, Any]],
        references: Sequence[Mapping[str, Any]],
        no_answer_threshold: float = 1.0,
    ) -> dict[str, float]:
        texts = {each["id"]: each["prediction_text"] for each in predictions}
        odds = {each["id"]: each["no_answer_probability"] for each in predictions}
        answerable = {each["id"]: bool(each["answers"]["text"]) for each in references}
        check_ids(texts, references, "they are left out")
        raw: dict[str, Scores] = {"exact": {}, "f1": {}}
        for each in references:
            if each["id"] in texts:
                # An answer of articles and punctuation only is empty after normalization: no words are right.
                answers = [text for text in each["answers"]["text"] if normalized(text)] or [""]
                raw["exact"][each["id"]] = best(exact, texts[each["id"]], answers)
                raw["f1"][each["id"]] = best(f1_or_both_empty, texts[each["id"]], answers)
        scores = {
            name: {
                key: float(not answerable[key]) if odds[key] > no_answer_threshold else value
                for key, value in of_questions.items()
            }
            for name, of_questions in raw.items()
        }
        results = _means(scores, list(raw["exact"]))
        for prefix, kind in (("HasAns", True), ("NoAns", False)):
            of_kind = [key for key in raw["exact"] if answerable[key] is kind]
            if of_kind:
                results |= {f"{prefix}_{name}": value for name, value in _means(scores, of_kind).items()}
        for name, of_questions in raw.items():
            value, threshold = best_threshold(of_questions, texts, odds, answerable)
            results |= {f"best_{name}": value, f"best_{name}_thresh": threshold}
        return results


def _means(scores: Mapping[str, Scores], keys: Sequence[str]) -> dict[str, float]:
    means = {name: 100 * sum(map(values.__getitem__, keys)) / len(keys) for name, values in scores.items()}
    return {**means, "total": len(keys)}


def best_threshold(
    scores: Scores, texts: Mapping[str, str], odds: Mapping[str, float], answerable: Mapping[str, bool]
) -> tuple[float, float]:
    """Returns the highest mean score that any threshold gives, in per cent, and the smallest such threshold.

    Starts without an answer to any question, then adds the predicted texts in order of increasing odds. As in the
    official scorer, questions with equal odds are added one by one in their order, and the threshold is 0 if predicting
    no answer at all is best.

    Args:
        scores: scores of the texts, in [0, 1].
        texts: predicted texts; empty ones change nothing.
        odds: the larger, the likelier there is no answer.
        answerable: whether the question has an answer.
    """
    current = highest = float(sum(not has_answer for has_answer in answerable.values()))
    threshold = 0.0
    for key in sorted(odds, key=odds.__getitem__):
        if key not in scores:
            continue
        if answerable[key]:
            current += scores[key]
        elif texts[key]:
            current -= 1
        if current > highest:
            highest, threshold = current, odds[key]
    return 100 * highest / len(scores), threshold


METRIC = SquadV2
