"""The verdict on a run: what its scores on the validation set say, in sentences of facts, and what to try next.

The same sentences stand at the end of a run, in its report, in its model card and in `bertkit.compare`. `verdict_of`
makes them; what it says of the predictions of a kind of task is `bertkit.inference.predicted.Predicted.facts`.

Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.errors import shown
from bertkit.metrics import score_range
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, score_interval
from bertkit.progress import counted, inflected
from bertkit.tasks.registry import command_of

if TYPE_CHECKING:
    from bertkit.inference.predicted import Outcome
    from bertkit.recipe.load import Recipe

_MOST_NAMES = 8  # of classes in a sentence
_MOST_PLACES = 3  # that the examples of a class went to
_NEAR_CHANCE = 0.15  # part of the way from chance to certainty
_HARDLY = 0.05  # part of the standard deviation of the true numbers
_WIDE = 0.2  # width of the interval of a share from which on it says little
_NO_BETTER = "That is not more than guessing."
_FEW_STEPS = 100  # below which a new head is often undertrained, as in the rule few-steps of checks
_HIGHEST_RATE = 2e-4  # that is proposed
_SAFE_RATE = 5e-5  # the highest of BERT §A.3, at most proposed after a collapse


@dataclass(frozen=True)
class Facts:
    """What the predictions of a model for labelled examples say.

    Attributes:
        sentences: the facts, a sentence each.
        learnt_little: the probabilities are near chance, or the numbers hardly differ.
        lacks_classes: classes that occur are never predicted.
        is_wide: the interval of the score is too wide to say much.
    """

    sentences: tuple[str, ...] = ()
    learnt_little: bool = False
    lacks_classes: bool = False
    is_wide: bool = False


@dataclass(frozen=True)
class Proposal:
    """A change of a run to try.

    Attributes:
        reason: what it is for, in a few words.
        command: the command of the task: ``classification``.
        options: the options that differ from the recipe of the run.
        suffix: end of the name of the new folder.
    """

    reason: str
    command: str
    options: tuple[str, ...]
    suffix: str = "2"

    def line(self, folder: Path | None = None) -> str:
        """Returns the command that tries it.

        Args:
            folder: the run directory; None for the working folder.
        """
        recipe, new = ("recipe.yaml", "NEW") if folder is None else (f"{folder}/recipe.yaml", f"{folder}-{self.suffix}")
        places = f"--recipe {shlex.quote(recipe)} --output-dir {shlex.quote(new)}"
        return f"bertkit finetune {self.command} {places} {' '.join(self.options)}"


@dataclass(frozen=True)
class Verdict:
    """What the scores of a run say.

    Attributes:
        sentences: facts, a sentence each.
        proposal: what to try next; None if the facts call for nothing.
    """

    sentences: tuple[str, ...] = ()
    proposal: Proposal | None = None

    def __str__(self) -> str:
        return "\n".join(self.sentences)


NO_VERDICT = Verdict()


def verdict_of(outcome: Outcome, history: Sequence[Mapping[str, Any]] = (), recipe: Recipe | None = None) -> Verdict:
    """Returns the verdict on the predictions of a model for the validation set of its run.

    Args:
        outcome: the outputs of the model.
        history: the entries that the Trainer logged, in order; none says nothing about the training.
        recipe: the recipe of the run; without it nothing is proposed.
    """
    from bertkit.inference.predicted import predicted

    facts = predicted(outcome.task).facts(outcome)
    losses: dict[int, float] = {}
    for entry in history:
        if entry.get("eval_loss") is not None:
            # The weights that a run keeps are evaluated once more in its last step.
            losses.setdefault(int(entry.get("step", len(losses))), float(entry["eval_loss"]))
    falling = [] if _is_highest(history, outcome.task.main_metric) else still_falls(list(losses.values()))
    steps = max((int(entry.get("step", 0)) for entry in history), default=0)
    proposal = None if recipe is None else _proposal(facts, bool(falling), bool(outcome.collapse), recipe, steps)
    copies = (f"{outcome.copies}.",) if facts.sentences and outcome.copies else ()
    return Verdict((*facts.sentences, *copies, *falling), proposal)


def _is_highest(history: Sequence[Mapping[str, Any]], metric: str) -> bool:
    """Returns whether a score has had its highest possible value."""
    names = {key.removeprefix("eval_") for entry in history for key in entry}
    values = [entry[f"eval_{metric}"] for entry in history if entry.get(f"eval_{metric}") is not None]
    return bool(values) and max(values) == score_range(metric, names)[1]


def _proposal(facts: Facts, is_falling: bool, has_collapsed: bool, recipe: Recipe, steps_done: int) -> Proposal | None:
    """Returns what to try: longer, at another rate, with weights of the classes, or with folds.

    A run of few steps that has collapsed, never predicts a class or only guesses is longer at the same rate.
    """
    train, command = recipe.train, command_of(recipe.kind)
    steps, rate = train.get("max_steps") or -1, float(train.get("learning_rate", 5e-5))
    longer = f"--max-steps {2 * steps}"
    if steps < 0:
        longer = f"--num-train-epochs {2 * float(train.get('num_train_epochs', 3)):g}"
    if facts.learnt_little and 3 * rate <= _HIGHEST_RATE:
        options = longer, f"--learning-rate {float(f'{3 * rate:.2g}'):g}"
        return Proposal("longer and at a higher rate", command, options)
    is_poor = has_collapsed or facts.lacks_classes or _NO_BETTER in facts.sentences
    if is_poor and 0 < steps_done < _FEW_STEPS:
        return Proposal("longer", command, (longer,))
    if has_collapsed and not facts.learnt_little:
        return Proposal(
            "longer and at a lower rate", command, (longer, f"--learning-rate {min(rate / 2, _SAFE_RATE):g}")
        )
    if is_falling or facts.learnt_little:
        return Proposal("longer", command, (longer,))
    if facts.lacks_classes and hasattr(recipe.task, "label_names") and not train.get("class_weights"):
        return Proposal("with more weight for rare classes", command, ("--class-weights balanced",))
    files = [getattr(recipe.data, f"{name}_file", None) for name in ("train", "validation")]
    if facts.is_wide and recipe.data.folds is None and files[0] is not None and files[1] is None:
        return Proposal("scores of all rows, by cross-validation", command, ("--folds 5",), "folds")
    return None


# ---- sentences ------------------------------------------------------------------------------------------------------


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
        texts: number of the text of each of these, of which the interval counts each once; None if all differ.

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
        return [f"{line}."], False
    what, share = guess
    sentences = [f"{line}; {what} gives {percent(share)}."]
    if interval is not None and interval[0] <= share:
        sentences.append(
            _NO_BETTER
            if right / number <= share
            else "The interval includes guessing: more examples are needed to tell the two apart."
        )
    return sentences, is_wide(terms, texts)


def is_wide(terms: MeanDecomposition, texts: np.ndarray | None = None) -> bool:
    """Returns whether the interval of a metric from 0 to 1, with each of ``texts`` once, is too wide to say much.

    >>> is_wide(mean_terms([True] * 8 + [False] * 2)), is_wide(mean_terms([True] * 800 + [False] * 200))
    (True, False)
    """
    interval = interval_of(terms, texts)
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
    """
    missing = [c for c in range(len(names)) if true[c] and not predicted[c]]
    if not missing:
        return []
    listed = []
    for c in missing[:_MOST_NAMES]:
        went = "" if confusion is None else _went_to(names, confusion[c])
        listed.append(f"{shown(names[c])} ({counted(int(true[c]), unit, form=',')}{went})")
    more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
    are = inflected(len(missing), "is", "are")
    return [f"{len(missing)} of {counted(len(names), *what)} {are} never predicted: {', '.join(listed)}{more}."]


def _went_to(names: Sequence[str], counts: np.ndarray) -> str:
    """Returns as which classes the examples of a class are predicted; ``counts`` (C,) is its row of the confusions."""
    order = [int(c) for c in np.argsort(-counts, kind="stable") if counts[c]]
    if len(order) == 1:
        return f", {inflected(int(counts.sum()), '', 'all ')}as {shown(names[order[0]])}"
    places = [f"{counts[c]:,} as {shown(names[c])}" for c in order[:_MOST_PLACES]]
    others = int(sum(counts[c] for c in order[_MOST_PLACES:]))
    places += [f"{others:,} as others"] if others else []
    return f": {', '.join(places)}"


def near_chance(probabilities: np.ndarray) -> list[str]:
    """Returns a sentence if the probabilities (N, C) of exclusive classes are hardly above 1 / C."""
    chance, top = 1 / probabilities.shape[1], float(probabilities.max(axis=1).mean())
    if top >= chance + _NEAR_CHANCE * (1 - chance):
        return []
    return [
        f"The probabilities are near chance: that of the predicted class is {top:.2f} on average, and {chance:.2f} if "
        "all classes are equally likely."
    ]


def hardly_different(predicted: np.ndarray, true: np.ndarray) -> list[str]:
    """Returns a sentence if predicted numbers (N,) are nearly the same for all examples, unlike the true ones (N,)."""
    own, expected = float(predicted.std()), float(true.std())
    if own >= _HARDLY * expected:
        return []
    return [
        f"The predictions hardly differ between examples: their standard deviation is {own:.2g}, that of the true "
        f"numbers {expected:.2g}."
    ]


def still_falls(losses: Sequence[float]) -> list[str]:
    """Returns a sentence if the last of several validation losses is clearly the lowest; none otherwise.

    That is if it is at least 1 % lower than the one before, and this at least 5 % of the way that the loss has fallen.

    >>> still_falls([1.4, 1.13, 0.89])
    ['The validation loss still falls at the end, from 1.1300 to 0.8900: more epochs may give better scores.']
    """
    if len(losses) < 2 or losses[-1] > min(losses):
        return []
    drop = losses[-2] - losses[-1]
    if drop < 0.01 * losses[-2] or drop < 0.05 * (max(losses) - losses[-1]):
        return []
    return [
        f"The validation loss still falls at the end, from {losses[-2]:.4f} to {losses[-1]:.4f}: more epochs may give "
        "better scores."
    ]


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
    counts, where = (confusion.sum(axis=1), "here") if training is None else (training, "in training")
    usual = int(np.argmax(counts))
    the_most = f"the most frequent {what[0]}"
    if np.count_nonzero(counts == counts[usual]) > 1:
        the_most = f"one of the most frequent {what[1]}"
    guess = f"always guessing {shown(names[usual])}, {the_most} {where},"
    guessed = guess, float(np.mean(true == usual))
    sentences, is_wide = right_of_all(predicted == true, unit, guessed, terms=terms, texts=texts)
    never = never_predicted(names, confusion.sum(1), confusion.sum(0), what=what, unit=unit, confusion=confusion)
    chance = near_chance(probabilities)
    return Facts((*sentences, *never, *chance), bool(chance), bool(never), is_wide)


def numbers_in_words(
    predicted: np.ndarray, true: np.ndarray, training: np.ndarray | None, texts: np.ndarray | None = None
) -> Facts:
    """Returns the facts of predicted numbers (N,).

    Args:
        predicted, true: (N,).
        training: numbers of the training examples; None if unknown.
        texts: as of `right_of_all`.
    """
    errors = np.abs(predicted - true)
    middle = float(np.median(true if training is None else training))
    of = "of these examples" if training is None else "of the training set"
    terms = MeanDecomposition(errors[:, None], lambda mean: mean)
    line = f"{score_in_words('The mean absolute error is', float(errors.mean()), interval_of(terms, texts))} of "
    line += f"{counted(len(true), 'example', form=',')}; always guessing {middle:.4g}, the median {of}, gives "
    hardly = hardly_different(predicted, true)
    return Facts((f"{line}{float(np.abs(true - middle).mean()):.4f}.", *hardly), bool(hardly))
