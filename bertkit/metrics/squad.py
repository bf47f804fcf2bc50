"""Scores of SQuAD 1.1 and 2.0 by the rules of the official scorers (Rajpurkar et al. 2016, 2018).

The two versions compare answers alike but for those that are empty after normalization: in 1.1 two such answers share
no word and have F1 0, in 2.0 they are equal and have F1 1.
"""

from __future__ import annotations

import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.runtime.errors import DataError

Scores = dict[str, float]
"""One score per question, by its id."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only; “ and – remain


def normalize_answer(text: str) -> str:
    r"""Normalizes an answer: lower case, without ASCII punctuation, articles and extra white space.

    Punctuation is removed before articles, so its removal can join words; ``\b`` is Unicode's word boundary.

    >>> normalize_answer("The  Eiffel-Tower, a sight!"), normalize_answer("an"), normalize_answer("“A” Été")
    ('eiffeltower sight', '', '“ ” été')
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, answer: str) -> float:
    """Returns 1 if two answers are equal after normalization, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def f1(prediction: str, answer: str) -> float:
    """Computes F1 over the words of a prediction and an answer, in [0, 1]; 0 if they share no word.

    >>> f1("the red house", "a red brick house"), f1("the", "a")
    (0.8, 0.0)
    """
    predicted, expected = normalize_answer(prediction).split(), normalize_answer(answer).split()
    common = sum((Counter(predicted) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def f1_or_both_empty(prediction: str, answer: str) -> float:
    """Computes `f1`, but 1 if both texts are empty after normalization: the rule of 2.0 for unanswerable questions.

    >>> f1_or_both_empty("the", ""), f1_or_both_empty("x", "")
    (1.0, 0.0)
    """
    return f1(prediction, answer) or float(not normalize_answer(prediction) and not normalize_answer(answer))


def best(score: Callable[[str, str], float], prediction: str, answers: Sequence[str]) -> float:
    """Returns the highest score of a prediction against any of the answers, at least one."""
    return max(score(prediction, answer) for answer in answers)


def squad(predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Computes ``exact_match`` and ``f1`` in per cent, as SQuAD 1.1's official scorer does.

    The score of a question is the highest over its answers, 0 without a prediction.

    Args:
        predictions: ``{"id", "prediction_text"}``, in any order.
        references: ``{"id", "answers": {"text", "answer_start"}}``.

    Raises:
        DataError: a reference has no answers, or no prediction has the id of a question.
    """
    texts = {each["id"]: each["prediction_text"] for each in predictions}
    _check_ids(texts, references, "they count as wrong")
    unanswerable = [each["id"] for each in references if len(each["answers"]["text"]) == 0]
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


def squad_v2(
    predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]], no_answer_threshold: float = 1.0
) -> dict[str, float]:
    """Computes SQuAD 2.0's scores in per cent, as its official scorer does.

    A question without answers is unanswerable, and an empty text predicts that. One without a prediction is left out;
    the official scorer leaves it out too, but counts it as right in its best scores if it is unanswerable.

    Args:
        predictions: ``{"id", "prediction_text", "no_answer_probability"}``, in any order. The "probability" may be any
            number that grows with the odds of there being no answer.
        references: ``{"id", "answers": {"text", "answer_start"}}``.
        no_answer_threshold: a prediction whose "probability" is above it counts as "no answer" whatever its text.

    Returns:
        ``exact``, ``f1`` and ``total``, the number of questions; the same for the answerable questions
        (``HasAns_exact`` …) and the unanswerable ones (``NoAns_exact`` …), if there are any; and ``best_exact`` and
        ``best_f1``, the highest that any threshold gives, with ``best_exact_thresh`` and ``best_f1_thresh``.

    Raises:
        DataError: no prediction has the id of a question.
    """
    texts = {each["id"]: each["prediction_text"] for each in predictions}
    odds = {each["id"]: each["no_answer_probability"] for each in predictions}
    _check_ids(texts, references, "they are left out")
    answerable = {each["id"]: len(each["answers"]["text"]) > 0 for each in references if each["id"] in texts}
    raw: dict[str, Scores] = {"exact": {}, "f1": {}}
    for each in references:
        if each["id"] in texts:
            # An answer of articles and punctuation only is empty after normalization: no words are right.
            answers = [text for text in each["answers"]["text"] if normalize_answer(text)] or [""]
            raw["exact"][each["id"]] = best(exact, texts[each["id"]], answers)
            raw["f1"][each["id"]] = best(f1_or_both_empty, texts[each["id"]], answers)
    scores = {
        name: {
            key: float(not answerable[key]) if odds[key] > no_answer_threshold else value
            for key, value in of_questions.items()
        }
        for name, of_questions in raw.items()
    }
    results = _average(scores, list(raw["exact"]))
    for prefix, kind in (("HasAns", True), ("NoAns", False)):
        of_kind = [key for key in raw["exact"] if answerable[key] is kind]
        if of_kind:
            results |= {f"{prefix}_{name}": value for name, value in _average(scores, of_kind).items()}
    for name, of_questions in raw.items():
        value, threshold = best_threshold(of_questions, texts, odds, answerable)
        results |= {f"best_{name}": value, f"best_{name}_thresh": threshold}
    return results


def question_scores(
    texts: Sequence[str], answers: Sequence[Mapping[str, Any]], may_be_unanswerable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Computes exact match and F1 of each question in [0, 1], (N,) each.

    Args:
        texts: predicted texts; empty for no answer.
        answers: the answers of each question, ``text`` empty for none.
        may_be_unanswerable: score by the rules of SQuAD 2.0 instead of 1.1.
    """
    scores = []
    for text, of_question in zip(texts, answers, strict=True):
        known = list(of_question["text"])
        if may_be_unanswerable and not text and known:  # nothing to compare, not even with "the"
            scores.append((0.0, 0.0))
            continue
        if may_be_unanswerable:
            known = [each for each in known if normalize_answer(each)] or [""]
        score = f1_or_both_empty if may_be_unanswerable else f1
        scores.append((best(exact, text, known), best(score, text, known)))
    both = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _check_ids(texts: Mapping[str, str], references: Sequence[Mapping[str, Any]], consequence: str) -> None:
    """Warns about questions without a prediction; raises DataError if none has one."""
    missing = [each["id"] for each in references if each["id"] not in texts]
    if len(missing) == len(references):
        raise DataError("nothing to score: no prediction has the id of a question")
    if missing:
        warnings.warn(
            f"{len(missing)} of {len(references)} questions have no prediction, {consequence}; the first is "
            f"{missing[0]!r}: compare the ids of predictions and references",
            stacklevel=3,
        )


def _average(scores: Mapping[str, Scores], keys: Sequence[str]) -> dict[str, float]:
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
