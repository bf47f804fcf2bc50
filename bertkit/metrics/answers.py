"""Comparison of SQuAD answers by the rules of the official scorers (Rajpurkar et al. 2016, 2018).

The two versions differ only in answers that are empty after normalization: in 1.1 two such answers share no word and
have F1 0, in 2.0 they are equal and have F1 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only; “ and – remain


def normalized(text: str) -> str:
    r"""Normalizes an answer: lower case, without ASCII punctuation, articles and extra white space.

    Punctuation is removed before articles, so its removal can join words; ``\b`` is Unicode's word boundary.

    >>> normalized("The  Eiffel-Tower, a sight!"), normalized("an"), normalized("“A” Été")
    ('eiffeltower sight', '', '“ ” été')
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, answer: str) -> float:
    """Returns 1 if two answers are equal after normalization, else 0."""
    return float(normalized(prediction) == normalized(answer))


def f1(prediction: str, answer: str) -> float:
    """Computes F1 over the words of a prediction and an answer, in [0, 1]; 0 if they share no word.

    >>> f1("the red house", "a red brick house"), f1("the", "a")
    (0.8, 0.0)
    """
    predicted, expected = normalized(prediction).split(), normalized(answer).split()
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
    return f1(prediction, answer) or float(not normalized(prediction) and not normalized(answer))


def best(score: Callable[[str, str], float], prediction: str, answers: Sequence[str]) -> float:
    """Returns the highest score of a prediction against any of the answers, at least one."""
    return max(score(prediction, answer) for answer in answers)
