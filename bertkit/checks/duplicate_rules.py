"""Rules on duplicates, within and between splits.

Near duplicates are found as those of a corpus (`bertkit.corpus.store.filters`), in lower case. Candidates count if
the exact Jaccard similarity of every column is at least 0.8, so that pairs that share only one text are not duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from bertkit.checks.findings import Finding, extra, note, rule, warning
from bertkit.checks.subject import Subject
from bertkit.corpus.store.filters import SIMILAR, SimilarTexts, grams
from bertkit.progress import inflected

_MANY = 0.01  # share above which a note becomes a warning
_MOST_CHARACTERS = 2_000  # of a text; longer ones are compared by their beginnings
_MOST_TEXTS = 400_000


class Member(NamedTuple):
    """An example of a split."""

    split: str
    row: int


Key = tuple[str, ...]


def _groups(subject: Subject) -> dict[Key, list[Member]]:
    """Groups the examples of all splits by their texts, with white space at the ends removed."""
    by_texts: dict[Key, list[Member]] = {}
    for texts in subject.texts:
        for row, values in enumerate(texts.rows()):
            by_texts.setdefault(tuple(text.strip() for text in values), []).append(Member(texts.name, row))
    return by_texts


@rule("duplicates", "splits")
def duplicates(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of a split whose texts occur before in the same split."""
    repeated: dict[str, list[tuple[Member, Member]]] = {}
    for members in subject.once(_groups).values():
        if len(members) > 1:
            first: dict[str, Member] = {}
            for member in members:
                if member.split in first:
                    repeated.setdefault(member.split, []).append((first[member.split], member))
                else:
                    first[member.split] = member
    yield from _within(subject, repeated, "the same text as an earlier example")


@rule("split-overlap", "splits")
def split_overlap(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of the other splits whose texts are also in the training set."""
    shared: dict[str, list[tuple[Member, Member]]] = {}
    for members in subject.once(_groups).values():
        known = next((member for member in members if member.split == "train"), None)
        for member in members:
            if known is not None and member.split != "train":
                shared.setdefault(member.split, []).append((known, member))
    yield from _between(subject, shared, "the same text as an example of the training set")


@rule("near-duplicates", "splits")
def near_duplicates(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of a split that are nearly the same as an earlier one."""
    texts = len(subject.once(_groups))
    if texts > _MOST_TEXTS:
        yield note(
            "data",
            f"{texts:,} different examples: near duplicates, within a split and between splits, were not searched, "
            f"since it takes too long for more than {_MOST_TEXTS:,}",
            "check a part of the data, such as --set data.max_train_samples=100000",
        )
    of_splits: dict[str, dict[Member, Member]] = {}
    for earlier, later in subject.once(_similar):
        if earlier.split == later.split:
            of_splits.setdefault(earlier.split, {}).setdefault(later, earlier)
    pairs = {split: [(earlier, later) for later, earlier in of_split.items()] for split, of_split in of_splits.items()}
    yield from _within(subject, pairs, "nearly the same text as an earlier example")


@rule("near-split-overlap", "splits")
def near_split_overlap(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of the other splits that are nearly the same as one of the training set."""
    of_splits: dict[str, dict[Member, Member]] = {}
    for pair in subject.once(_similar):
        splits = [member.split for member in pair]
        if splits.count("train") == 1:
            known, other = pair if splits[0] == "train" else pair[::-1]
            of_splits.setdefault(other.split, {}).setdefault(other, known)
    pairs = {split: [(known, other) for other, known in of_split.items()] for split, of_split in of_splits.items()}
    yield from _between(subject, pairs, "nearly the same text as an example of the training set")


def _within(subject: Subject, pairs: Mapping[str, list[tuple[Member, Member]]], what: str) -> Iterator[Finding]:
    for split, found in pairs.items():
        total, have = _size(subject, split), inflected(len(found), "has", "have")
        level = warning if len(found) > _MANY * total else note
        yield level(
            _place(subject, found[0][1]),
            f"{len(found):,} of {total:,} examples ({100 * len(found) / total:.1f} %) of {split} {have} {what}; the "
            f"first is like {_place(subject, found[0][0])}",
            "remove repeated examples, unless they are intended as weights",
        )


def _between(subject: Subject, pairs: Mapping[str, list[tuple[Member, Member]]], what: str) -> Iterator[Finding]:
    for split, shared in pairs.items():
        total, have = _size(subject, split), inflected(len(shared), "has", "have")
        yield warning(
            _place(subject, shared[0][1]),
            f"{len(shared):,} of {total:,} examples ({100 * len(shared) / total:.1f} %) of {split} {have} {what}, so "
            f"scores are too high; the first is like {_place(subject, shared[0][0])}",
            f"remove these examples from train, or from {split}",
        )


def _size(subject: Subject, split: str) -> int:
    return len(subject.splits[split].examples)


def _place(subject: Subject, member: Member) -> str:
    return next(texts.place(member.row) for texts in subject.texts if texts.name == member.split)


def _similar(subject: Subject) -> list[tuple[Member, Member]]:
    """Returns pairs of examples with nearly the same texts, the earlier one first; none without datasketch.

    Examples with exactly the same texts count once.
    """
    similar: list[tuple[Member, Member]] = []
    datasketch = extra("datasketch")
    groups = subject.once(_groups)
    keys = list(groups)
    if datasketch is None or len(keys) > _MOST_TEXTS:
        return similar
    index = SimilarTexts(datasketch)
    for number, key in enumerate(keys):
        sketch = index.sketch()
        index.add_grams(sketch, _grams("\n".join(key)))
        for candidate in index.candidates(sketch):
            if _is_similar(key, keys[candidate]):
                similar += [(groups[keys[candidate]][0], member) for member in groups[key][:1]]
                similar += [
                    (earlier, member)
                    for earlier in groups[keys[candidate]][1:]
                    for member in groups[key]
                    if earlier.split != member.split and "train" in (earlier.split, member.split)
                ]
                break  # one earlier example is enough
        index.insert(number, sketch)
    return similar


def _is_similar(one: Key, other: Key) -> bool:
    for texts in zip(one, other, strict=True):
        first, second = map(_grams, texts)
        # A similarity of at least s needs sizes whose ratio is at least s.
        if min(len(first), len(second)) < SIMILAR * max(len(first), len(second)):
            return False
        if len(first & second) < SIMILAR * len(first | second):
            return False
    return True


@lru_cache(maxsize=4096)
def _grams(text: str) -> frozenset[str]:
    return grams(f" {text.lower()[:_MOST_CHARACTERS]} ")
