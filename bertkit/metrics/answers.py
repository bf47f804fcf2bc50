"""How SQuAD compares answers: the rules of its official scorers (Rajpurkar et al. 2016, 2018).

The rules of the two versions are the same but for answers of which the normalisation leaves nothing: in 1.1 two such
answers have no word in common and F1 0, in 2.0 they are equal and have F1 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # of ASCII; “ and – remain


def normalized(text: str) -> str:
    r"""An answer as it is compared: lower case, without ASCII punctuation, articles and excess white space.

    Punctuation goes first, so that it can join words, and only then what are articles: ``\b`` is Unicode's.

    >>> normalized("The  Eiffel-Tower, a sight!"), normalized("an"), normalized("“A” Été")
    ('eiffeltower sight', '', '“ ” été')
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, answer: str) -> float:
    """1 where two answers are the same after normalisation, else 0."""
    return float(normalized(prediction) == normalized(answer))


def f1(prediction: str, answer: str) -> float:
    """The harmonic mean of precision and recall of a prediction's words, in [0, 1]; 0 where no word is in common.

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
    """`f1`, but 1 where nothing is left of both answers: the rule of 2.0, where no answer is one.

    >>> f1_or_both_empty("the", ""), f1_or_both_empty("x", "")
    (1.0, 0.0)
    """
    return f1(prediction, answer) or float(not normalized(prediction) and not normalized(answer))


def best(score: Callable[[str, str], float], prediction: str, answers: Sequence[str]) -> float:
    """The score of a prediction against the answer that suits it best; there is at least one answer."""
    return max(score(prediction, answer) for answer in answers)
