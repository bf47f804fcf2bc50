"""Rare labels that are probably another one: ``biling`` or ``bill.`` beside ``billing``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import chain

from bertkit.data.tables.classes import look_alikes
from bertkit.features.checks.findings import Finding, rule, warning
from bertkit.features.checks.subject import Subject
from bertkit.runtime.progress import counted, inflected

_RARE, _TIMES = 10, 5  # rows of a misspelt label, at most; the right one has at least five times as many
_SHORTEST = 5  # characters; short names differ in one letter often
_SIMILAR = 0.85  # ratio of difflib's SequenceMatcher
_SHORTENED = 3, 0.5  # characters of an abbreviation, at least; and its part of the whole name, at most
_DIGITS = re.compile(r"\d+")


def near_labels(counts: Mapping[str, int]) -> dict[str, tuple[str, float]]:
    """Returns rare label → the frequent one that it is probably meant for, and how similar they are, in [0, 1].

    Names that look alike count as 1. Other names have one first letter, and the same digits: ``illegal`` is not
    ``legal``, and ``grade 1`` not ``grade 2``. The beginning of a name that is at most half of it is an abbreviation,
    unless several names begin so.

    >>> near_labels({"billing": 97, "biling": 2, "sales": 50, "Sales": 1, "legal": 60, "illegal": 3})
    {'Sales': ('sales', 1.0), 'biling': ('billing', 0.92)}
    >>> near_labels({"positive": 80, "negative": 90, "pos": 12})
    {'pos': ('positive', 0.55)}
    """
    near: dict[str, tuple[str, float]] = {}
    for group in look_alikes(counts):
        most = max(group, key=lambda name: counts[name])
        near |= {name: (most, 1.0) for name in group if name != most}
    for name, count in counts.items():
        if name in near:
            continue
        alike = [
            (round(SequenceMatcher(None, name, other).ratio(), 2), other)
            for other, rows in counts.items()
            if rows >= max(_RARE, _TIMES * count) and other[:1].casefold() == name[:1].casefold()
        ]
        similar = [each for each in alike if each[0] >= _SIMILAR and _DIGITS.findall(each[1]) == _DIGITS.findall(name)]
        beginning, (shortest, part) = name.rstrip("."), _SHORTENED
        shortened = [
            (similarity, whole)
            for similarity, whole in alike
            if shortest <= len(beginning) <= part * len(whole)
            and beginning.isalpha()
            and whole.casefold().startswith(beginning.casefold())
        ]
        if similar and count < _RARE and len(name) >= _SHORTEST:
            near[name] = max(similar)[::-1]
        elif len(shortened) == 1:
            near[name] = shortened[0][::-1]
    return near


@rule("label-typo", "splits")
def label_typo(subject: Subject) -> Iterator[Finding]:
    """Finds rare classes whose names are nearly those of frequent ones, or abbreviate them."""
    counts = Counter(chain.from_iterable(subject.classes.get("train", ())))
    typos = {name: other for name, (other, ratio) in near_labels(counts).items() if ratio < 1}
    if typos:
        named = "; ".join(
            f"{name!r} ({counted(counts[name], 'row')}): did you mean {other!r} ({counts[other]:,} rows)?"
            for name, other in typos.items()
        )
        yield warning(
            "train",
            f"{counted(len(typos), 'label')} {inflected(len(typos), 'is', 'are')} nearly another one: {named}",
            "correct these labels, or write a corrected table with --fix OUT.csv",
        )
