"""What can be concluded from the measurements: which checkpoint is best, and which ones cannot be told from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bertkit.features.choosing.measuring import Measured
from bertkit.features.choosing.result import Candidate, milliseconds
from bertkit.features.choosing.wording import perplexity
from bertkit.inference.comparison import compare_systems
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.metrics.statistics import Test, adjust_tests, by_example
from bertkit.runtime.formats import amount

_FASTER = 0.9  # part of a time; times that are nearer to each other are those of a busy machine
_LONG = 0.05  # share of texts from which it is said that they are cut


class Conclusions(NamedTuple):
    """Conclusions.

    Attributes:
        candidates: the checkpoints with their pseudo-perplexities, in the order given.
        words: number of words that these are computed from.
        best: the best candidate; None if several have the same score, or nothing tells them apart.
        leading: the best candidate, or the first of those with the best score; None if nothing tells them apart.
        sentences: sentences for readers.
    """

    candidates: list[Candidate]
    words: int
    best: Candidate | None
    leading: Candidate | None
    sentences: list[str]


def conclude(measured: Sequence[Measured], metric: str | None, are_drawn: bool) -> Conclusions:
    """Compares checkpoints.

    Args:
        measured: one or more.
        metric: metric of the scores; None without labels.
        are_drawn: whether there are more examples than those that they are measured on.
    """
    logs = {each.candidate.name: each.logs for each in measured if each.logs is not None}
    if logs:  # of the words that all have pieces for
        are_common = np.isfinite(np.stack(list(logs.values()))).all(axis=0)
        logs = {name: of_words[are_common] for name, of_words in logs.items()} if are_common.any() else {}
    words = len(next(iter(logs.values()), ()))
    candidates = []
    for candidate in (each.candidate for each in measured):
        if candidate.name in logs:
            value, ends = perplexity(logs[candidate.name])
            low, high = ends or (None, None)
            candidates.append(replace(candidate, perplexity=value, perplexity_low=low, perplexity_high=high))
        else:
            reason = candidate.no_perplexity or "none of the masked words has a piece in every vocabulary"
            candidates.append(replace(candidate, no_perplexity=reason))
    leading: list[str]
    if metric is not None:
        leading, sentences = _rank_by_score(measured, metric, are_drawn)
    elif logs:
        leading, sentences = _rank_by_perplexity(logs)
    else:
        no_words = "None of the masked words has a piece in every vocabulary"
        why = no_words if any(each.logs is not None for each in measured) else "No checkpoint predicts masked words"
        leading, sentences = [], [f"{why}: without labels nothing ranks them."]
    first = next((each for each in candidates if each.name in leading[:1]), None)
    best = first if len(leading) == 1 else None
    long = [each for each in candidates if each.wording.too_long >= _LONG]
    if long:
        named = ", ".join(f"{each.name} ({each.wording.too_long:.0%} above {each.wording.longest})" for each in long)
        sentences.append(f"Texts with more tokens than the checkpoint reads: {named}.")
    if metric is not None and len(candidates) > 1:
        sentences.append(
            "Scores of frozen vectors: after fine-tuning they are other ones, and the order may be another one too."
        )
    return Conclusions(candidates, words, best, first, sentences)


def _rank_by_score(measured: Sequence[Measured], metric: str, are_drawn: bool) -> tuple[list[str], list[str]]:
    """Returns the checkpoints with the highest score, none if all scores are undefined, and sentences."""
    scored = [each for each in measured if each.candidate.score > -np.inf]
    if not scored:
        return [], [f"{metric} is undefined for every checkpoint: each predicts the same for all examples."]
    ordered = sorted(scored, key=lambda each: each.candidate.score, reverse=True)
    first, *others = (each.candidate for each in ordered)
    leading = [each.name for each in (first, *others) if np.isclose(each.score, first.score, rtol=0, atol=1e-12)]
    sentences = [_name_leading(f"Best by {metric}", metric, leading, f"{first.score:.4f}"), *ordered[0].guess]
    if others:
        systems = [each.system for each in ordered if each.system is not None]
        compared = compare_systems(systems, metric).comparisons
        tests = {each.b: each.by_example for each in compared}
        sentences += _tell_apart(leading, tests, "the same examples in the same folds")
        alike = [each for each in others if not tests[each.name].is_significant]
        sentences += name_fastest(first, alike, are_drawn)
    undefined = [each.candidate.name for each in measured if each.candidate.score == -np.inf]
    if undefined:
        sentences.append(f"{metric} is undefined for {', '.join(undefined)}: the same prediction for all examples.")
    return leading, sentences


def _name_leading(best_by: str, metric: str, leading: Sequence[str], score: str) -> str:
    """Returns the sentence on the best checkpoint, or on those that all have the best score."""
    if len(leading) == 1:
        return f"{best_by}: {leading[0]}, {score}."
    return f"{' and '.join(leading)} have the same {metric}, {score}: it does not tell which of them is better."


def _rank_by_perplexity(logs: dict[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """Returns the checkpoints with the lowest pseudo-perplexity, and sentences."""
    names = sorted(logs, key=lambda name: -logs[name].mean())
    first = names[0]
    leading = [name for name in names if np.isclose(logs[name].mean(), logs[first].mean(), rtol=0, atol=1e-12)]
    score = amount(perplexity(logs[first])[0])
    sentences = [_name_leading("Lowest pseudo-perplexity per word", "pseudo-perplexity per word", leading, score)]
    if len(names) > 1:

        def mean(predictions: Sequence[Any], references: Sequence[Any]) -> float:
            return float(np.mean(predictions))

        def terms(predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition:
            return MeanDecomposition(np.asarray(predictions)[:, None], lambda value: value)

        lists = {name: logs[name].tolist() for name in names}
        words = list(range(len(lists[first])))
        tests = adjust_tests([by_example([lists[first]], [lists[name]], words, mean, terms) for name in names[1:]])
        sentences += _tell_apart(leading, dict(zip(names[1:], tests, strict=True)), "the same masked words")
    return leading, sentences


def _tell_apart(leading: Sequence[str], tests: dict[str, Test], unit: str) -> list[str]:
    """Returns the sentences on which others are worse than the first, and which ones cannot be told from it; none on
    those with the same score."""
    it = "it" if len(leading) == 1 else leading[0]
    others = {name: test for name, test in tests.items() if name not in leading}
    named: dict[bool, list[str]] = {True: [], False: []}
    for name, test in others.items():
        p = test.adjusted_text or test.p_text or test.reason or "not tested"
        named[test.is_significant].append(f"{name} ({p})")
    worse, alike = named[True], named[False]
    sentences = [f"Worse than {it} on {unit}: {', '.join(worse)}."] if worse else []
    if alike:
        sentences.append(f"Not told apart from {it} on {unit}: {', '.join(alike)}.")
    return sentences


def name_fastest(first: Candidate, alike: Sequence[Candidate], are_drawn: bool) -> list[str]:
    """Returns the sentences on those that cannot be told from the best: which is the fastest, and what may help."""
    fastest = min((first, *alike), key=lambda each: each.milliseconds)
    sentences = []
    if fastest.milliseconds <= _FASTER * first.milliseconds:
        times = f"{milliseconds(fastest.milliseconds)} ms per text in place of {milliseconds(first.milliseconds)}"
        sentences.append(f"{fastest.name} is the fastest of these, {times}.")
    if alike and are_drawn:
        sentences.append("More examples (--examples) may tell them apart.")
    return sentences
