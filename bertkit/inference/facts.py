"""Facts of the predictions for labelled examples, in sentences: how many are right, and what is never predicted.

Each kind of task says its own, by `bertkit.inference.outcome.TaskInference.facts`; `bertkit.inference.verdict` joins
them to the verdict on a run.

Dimension letters: N examples, C classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.metrics.intervals import MeanDecomposition, mean_terms, score_interval
from bertkit.runtime.errors import shown
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, inflected

_MOST_NAMES = 8  # of classes in a sentence
_MOST_PLACES = 3  # that the examples of a class went to
_NEAR_CHANCE = 0.15  # part of the way from chance to certainty
_WIDE = 0.2  # width of the interval of a share from which on it says little
_UNSURE = 0.2  # by which the mean probability is below the share of right predictions of a model that is not done
_RARE = 0.5  # of the mean number of examples of a class
FEW = 5
"""Examples of a class below which its own scores say little."""
NO_BETTER = "That is not more than guessing."


@dataclass(frozen=True)
class Facts:
    """Facts about the predictions of a model for labelled examples.

    Attributes:
        sentences: the facts, a sentence each.
        learnt_little: the probabilities are near chance, or the numbers hardly differ.
        lacks_classes: classes that occur are never predicted.
        is_wide: the interval of the score is too wide to say much.
        is_underfit: the model has not learnt yet what its training examples show, rare classes apart.
        lacks_rare: of the classes that are never predicted, one has far fewer training examples than others.
    """

    sentences: tuple[str, ...] = ()
    learnt_little: bool = False
    lacks_classes: bool = False
    is_wide: bool = False
    is_underfit: bool = False
    lacks_rare: bool = False


def percent(share: float) -> str:
    """Formats a share of 1.

    >>> percent(0.8276)
    '82.8 %'
    """
    return f"{100 * share:.1f} %"


def right_of_all(
    is_right: Sequence[bool] | np.ndarray,
    unit: str = "example",
    guess: tuple[str, float] | None = None,
    right_in: str = "",
    terms: MeanDecomposition | None = None,
    texts: np.ndarray | None = None,
) -> tuple[list[str], bool]:
    """Returns the sentence on the share of right predictions, and whether its interval is wide.

    Args:
        is_right: whether each prediction is right, (N,).
        unit: what is predicted for.
        guess: what it is compared with: a prediction that is the same for all, in words, and its share of right ones.
        right_in: in what they are right; by default in all.
        terms: the share as a function of means, if what is right comes in groups, such as the words of a sentence.
        texts: number of the text of each row of ``terms``, by default of each prediction; the interval counts each text
            once. None if all differ.

    >>> right_of_all([True] * 24 + [False] * 5, guess=("always guessing 'billing'", 10 / 29))[0]
    ["24 of 29 examples are right, 82.8 % (95 % interval 65.5 to 92.4 %); always guessing 'billing' gives 34.5 %."]
    """
    number, right = len(is_right), int(np.sum(is_right))
    if not number:
        return [], False
    terms = mean_terms(is_right) if terms is None else terms
    interval = interval_of(terms, texts)
    ends = "" if interval is None else f" (95 % interval {100 * interval[0]:.1f} to {100 * interval[1]:.1f} %)"
    line = f"{right:,} of {counted(number, unit, form=',')} {inflected(right, 'is', 'are')} right{right_in}"
    line += f", {percent(right / number)}{ends}"
    if guess is None:
        return [f"{line}."], is_wide(interval)
    what, share = guess
    sentences = [f"{line}; {what} gives {percent(share)}."]
    if interval is not None and interval[0] <= share:
        sentences.append(
            NO_BETTER
            if right / number <= share
            else "The interval includes guessing: more examples are needed to tell the two apart."
        )
    return sentences, is_wide(interval)


def is_wide(interval: tuple[float, float] | None) -> bool:
    """Returns whether the interval of a metric from 0 to 1 is too wide to say much; False without one.

    >>> is_wide((0.49, 0.94)), is_wide((0.77, 0.83))
    (True, False)
    """
    return interval is not None and interval[1] - interval[0] > _WIDE


def score_in_words(name: str, value: float, interval: tuple[float, float] | None) -> str:
    """Returns a score with its interval: ``F1 0.8276 (95 % interval 0.6425 to 0.9415)``."""
    ends = "" if interval is None else f" (95 % interval {interval[0]:.4f} to {interval[1]:.4f})"
    return f"{name} {value:.4f}{ends}"


def interval_of(terms: MeanDecomposition, texts: np.ndarray | None = None) -> tuple[float, float] | None:
    """Returns the interval of a metric, with each of ``texts`` once, that of the report; None without one."""
    score = float(terms.function(*terms.values.mean(axis=0)))
    rows = range(len(terms.values))
    return score_interval(rows, rows, lambda *sides: score, terms, texts)


def most_frequent(values: Iterable[Hashable]) -> Any:
    """Returns the most frequent value; of equally frequent ones the first in order of their text."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], str(value)))


def never_predicted(
    names: Sequence[str],
    true: np.ndarray,
    predicted: np.ndarray,
    *,
    what: tuple[str, str],
    unit: str = "example",
    confusion: np.ndarray | None = None,
) -> list[str]:
    """Returns a sentence on the classes that occur and are never predicted; none if there are no such classes.

    Args:
        names: the C classes.
        true, predicted: number of examples that have each class, and that are predicted to have it, (C,) each.
        what: singular and plural of what has these names.
        unit: what is counted.
        confusion: (C, C), true classes by predicted ones: where the examples went.

    >>> confusion = np.array([[9, 0], [4, 0]])
    >>> counts = confusion.sum(axis=1), confusion.sum(axis=0)
    >>> never_predicted(["billing", "sales"], *counts, what=("class", "classes"), confusion=confusion)
    ["1 of 2 classes is never predicted: 'sales' (4 examples, all as 'billing')."]
    >>> never_predicted("abc", np.array([9, 4, 0]), np.array([13, 0, 0]), what=("class", "classes"))
    ["1 of 2 classes that occur here is never predicted: 'b' (4 examples)."]
    """
    missing = [c for c in range(len(names)) if true[c] and not predicted[c]]
    if not missing:
        return []
    listed = []
    for c in missing[:_MOST_NAMES]:
        went = ""
        if confusion is not None:  # as which classes its examples are predicted
            order = [int(other) for other in np.argsort(-confusion[c], kind="stable") if confusion[c][other]]
            if len(order) == 1:
                went = f", {inflected(int(confusion[c].sum()), '', 'all ')}as {shown(names[order[0]])}"
            else:
                places = [f"{confusion[c][other]:,} as {shown(names[other])}" for other in order[:_MOST_PLACES]]
                others = int(confusion[c][order[_MOST_PLACES:]].sum())
                went = f": {', '.join([*places, f'{others:,} as others'] if others else places)}"
        listed.append(f"{shown(names[c])} ({counted(int(true[c]), unit, form=',')}{went})")
    more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
    are = inflected(len(missing), "is", "are")
    occurring = int(np.count_nonzero(true))
    of_all = counted(occurring, *what)
    if occurring < len(names):  # the others, which may be unpredicted too, are not counted
        of_all += f" that {inflected(occurring, 'occurs', 'occur')} here"
    return [f"{len(missing)} of {of_all} {are} never predicted: {', '.join(listed)}{more}."]


def near_chance(probabilities: np.ndarray) -> list[str]:
    """Returns a sentence if the probabilities (N, C) of exclusive classes are hardly above 1 / C."""
    chance, top = 1 / probabilities.shape[1], float(probabilities.max(axis=1).mean())
    if top >= chance + _NEAR_CHANCE * (1 - chance):
        return []
    return [
        f"The probabilities are near chance: that of the predicted class is {top:.2f} on average, and {chance:.2f} if "
        "all classes are equally likely."
    ]


def too_unsure(probabilities: np.ndarray, is_right: np.ndarray) -> list[str]:
    """Returns a sentence if the probabilities (N, C) of exclusive classes are far below the share of right predictions.

    A model that has fitted its training examples is rather too sure (Guo et al. 2017).

    >>> too_unsure(np.array([[0.4, 0.3, 0.3]] * 10), np.array([True] * 8 + [False] * 2))  # doctest: +ELLIPSIS
    ['The model is less sure than it is right: the probability of the predicted class is 0.40 on average, ...']
    """
    top, right = float(probabilities.max(axis=1).mean()), float(is_right.mean())
    if top >= right - _UNSURE:
        return []
    return [
        f"The model is less sure than it is right: the probability of the predicted class is {top:.2f} on average, "
        f"and {percent(right)} are right. It has not learnt yet what its training examples show."
    ]


def few_of_each(counts: np.ndarray, what: tuple[str, str], unit: str) -> list[str]:
    """Returns a sentence if most classes have fewer than `FEW` scored examples; ``counts`` (C,) are those of each.

    >>> few_of_each(np.array([1, 1, 0, 2]), ("class", "classes"), "example")
    ['Most classes have 1 to 2 examples here: too few to tell how well each is predicted.']
    >>> few_of_each(np.array([1, 1, 0, 0, 9]), ("class", "classes"), "example")
    ['Most classes have at most 1 example here: too few to tell how well each is predicted.']
    """
    known = np.sort(counts[counts > 0])
    if len(known) < 3 or (middle := known[len(known) // 2]) >= FEW:  # most have at most the middle number
        return []
    low, high = int(known[0]), int(middle if known[-1] >= FEW else known[-1])
    span = counted(low, unit) if low == high else f"{low} to {high} {unit}s"
    if 2 * np.count_nonzero(known <= high) <= len(counts):  # those without any are needed for most
        span = f"at most {counted(high, unit)}"
    return [f"Most {what[1]} have {span} here: too few to tell how well each is predicted."]


def are_rare(counts: np.ndarray, which: np.ndarray) -> bool:
    """Returns whether some of the classes ``which`` (C,) have far fewer examples than the mean of ``counts`` (C,).

    Weights of the classes change little otherwise: with equally many examples of each they are all 1.
    """
    return bool(which.any() and (counts[which] < _RARE * counts.mean()).any())


def classes_in_words(
    predicted: np.ndarray,
    true: np.ndarray,
    probabilities: np.ndarray,
    names: Sequence[str],
    training: np.ndarray | None,
    *,
    what: tuple[str, str] = ("class", "classes"),
    unit: str = "example",
    terms: MeanDecomposition | None = None,
    texts: np.ndarray | None = None,
) -> Facts:
    """Returns the facts of exclusive classes.

    Args:
        predicted, true: class ids (N,); a true one below 0 is not in training.
        probabilities: (N, C).
        names: names of the C classes.
        training: number of training examples of each class, (C,); None if unknown.
        what: singular and plural of what is predicted.
        unit: what is classified.
        terms, texts: as of `right_of_all`.
    """
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (true[true >= 0], predicted[true >= 0]), 1)
    actual, found = confusion.sum(axis=1), np.bincount(predicted, minlength=len(names))
    counts, where = (actual, "here") if training is None else (training, "in training")
    usual = int(np.argmax(counts))
    the_most = f"the most frequent {what[0]}"
    if np.count_nonzero(counts == counts[usual]) > 1:
        the_most = f"one of the most frequent {what[1]}"
    guess = f"always guessing {shown(names[usual])}, {the_most} {where},"
    guessed = guess, float(np.mean(true == usual))
    sentences, is_wide_here = right_of_all(predicted == true, unit, guessed, terms=terms, texts=texts)
    never = never_predicted(names, actual, found, what=what, unit=unit, confusion=confusion)
    chance = near_chance(probabilities)
    unsure = [] if chance else too_unsure(probabilities, predicted == true)
    few = few_of_each(actual, what, unit)
    lacks_rare = are_rare(counts, (actual > 0) & (found == 0))
    return Facts(
        (*sentences, *few, *never, *chance, *unsure),
        learnt_little=bool(chance),
        lacks_classes=bool(never),
        is_wide=is_wide_here,
        is_underfit=bool(unsure),
        lacks_rare=lacks_rare,
    )


def collapse_of(predicted: Iterable[Hashable], true: Iterable[Hashable] | None = None) -> str | None:
    """Describes predictions that are all the same although the references differ; None for others, and for one alone.

    Args:
        predicted, true: predictions and references, such as `decision` returns them; ``true`` is None if unknown.

    >>> collapse_of([("good",), ("good",)], [("good",), ("bad",)])
    "all predictions are 'good'"
    >>> collapse_of([("good",), ("good",)], [("good",), ("good",)]), collapse_of([("good",), ("bad",)])
    (None, None)
    """
    number, different = 0, set()
    for value in predicted:
        number += 1
        different.add(value)
        if len(different) > 1:
            return None
    if number < 2 or (true is not None and len(set(true)) < 2):
        return None
    [value] = different
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        return "no label is predicted"
    return f"all predictions are {shown(', '.join(map(str, values)))}"


def decision(value: Any) -> tuple[Hashable, ...]:
    """Returns the values of a prediction or a reference without ids, probabilities and positions; objects within lists
    stay whole, as JSON.

    >>> decision({"label": "good", "probability": 0.9, "probabilities": {"bad": 0.1, "good": 0.9}})
    ('good',)
    >>> decision(["plot", "cast"]), decision("good")
    (('plot', 'cast'), ('good',))
    """
    if isinstance(value, Mapping):
        names = [name for name in value if "probabilit" not in name and name not in ("id", "start", "end")]
        return tuple(each for name in names for each in decision(value[name]))
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(each if isinstance(each, Hashable) else dumps(each) for each in values)
