"""Rules on duplicates, within and between splits.

Near duplicates are found as those of a corpus (`bertkit.data.corpus.store.filters`), in lower case. Candidates count if
the exact Jaccard similarity of every column is at least 0.8, so that pairs that share only one text are not duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from bertkit.data.corpus.store.filters import SIMILAR, SimilarTexts, grams
from bertkit.data.tables.table import text_key
from bertkit.features.checks.findings import Finding, extra, note, rule, warning
from bertkit.features.checks.subject import Subject
from bertkit.runtime.progress import inflected

_MANY = 0.01  # share above which a note becomes a warning
_MOST_CHARACTERS = 2_000  # of a text; longer ones are compared by their beginnings
_MOST_TEXTS = 400_000


class Member(NamedTuple):
    """An example of a split."""

    split: str
    row: int

    def place(self, subject: Subject) -> str:
        """Returns the place of the example for a message."""
        return next(texts.place(self.row) for texts in subject.texts if texts.name == self.split)


Key = tuple[str, ...]
Pairs = list[tuple[Member, Member]]


@rule("duplicates", "splits")
def duplicates(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of a split whose texts occur before in the same split."""
    yield from _report_within(subject, subject.once(_find_equal), "the same text")


@rule("split-overlap", "splits")
def split_overlap(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of the other splits whose texts are also in the training set."""
    yield from _report_between(subject, subject.once(_find_equal), "the same text")


@rule("near-duplicates", "splits")
def near_duplicates(subject: Subject) -> Iterator[Finding]:
    """Counts the examples of a split that are nearly the same as an earlier one."""
    texts = len(subject.once(_group_by_texts))
    if texts > _MOST_TEXTS:
        yield note(
            "data",
            f"{texts:,} different examples: near duplicates, within a split and between splits, were not searched, "
            f"since it takes too long for more than {_MOST_TEXTS:,}",
            "check a part of the data, such as --set data.max_train_samples=100000",
        )
    yield from _report_within(subject, subject.once(_find_similar), "nearly the same text")


@rule("near-split-overlap", "splits")
def near_split_overlap(subject: Subject) -> Iterator[Finding]:
    """Counts examples of the other splits that are nearly the same as one of the training set, but equal to none."""
    yield from _report_between(subject, subject.once(_find_similar), "nearly the same text")


def _report_within(subject: Subject, pairs: Pairs, likeness: str) -> Iterator[Finding]:
    earlier_of: dict[str, dict[Member, Member]] = {}
    for earlier, later in pairs:
        if earlier.split == later.split:
            earlier_of.setdefault(later.split, {}).setdefault(later, earlier)
    for split, members in earlier_of.items():
        level = warning if len(members) > _MANY * len(subject.splits[split].examples) else note
        place, sentence = _describe(subject, split, members, f"{likeness} as an earlier example")
        yield level(place, sentence, "remove repeated examples, unless they are intended as weights")


def _report_between(subject: Subject, pairs: Pairs, likeness: str) -> Iterator[Finding]:
    trained_of: dict[str, dict[Member, Member]] = {}
    for earlier, later in pairs:  # the training set is the first split
        if earlier.split == "train" != later.split:
            trained_of.setdefault(later.split, {}).setdefault(later, earlier)
    for split, members in trained_of.items():
        likeness_and_effect = f"{likeness} as an example of the training set, so scores are too high"
        place, sentence = _describe(subject, split, members, likeness_and_effect)
        yield warning(place, sentence, f"remove these examples from train, or from {split}")


def _describe(subject: Subject, split: str, members: Mapping[Member, Member], likeness: str) -> tuple[str, str]:
    """Returns the place of the first of some examples of a split, and a sentence on all of them."""
    first, like = next(iter(members.items()))
    total, have = len(subject.splits[split].examples), inflected(len(members), "has", "have")
    share = f"{len(members):,} of {total:,} examples ({100 * len(members) / total:.1f} %) of {split}"
    return first.place(subject), f"{share} {have} {likeness}; the first is like {like.place(subject)}"


def _group_by_texts(subject: Subject) -> dict[Key, list[Member]]:
    """Groups the examples of all splits by their texts."""
    by_texts: dict[Key, list[Member]] = {}
    for texts in subject.texts:
        for row, values in enumerate(texts.rows()):
            by_texts.setdefault(text_key(values), []).append(Member(texts.name, row))
    return by_texts


def _find_equal(subject: Subject) -> Pairs:
    """Returns pairs of examples with the same texts: each with the first one of its split and of the training set."""
    pairs: Pairs = []
    for members in subject.once(_group_by_texts).values():
        first_of: dict[str, Member] = {}
        for member in members:
            pairs += [(first_of[split], member) for split in {"train", member.split} if split in first_of]
            first_of.setdefault(member.split, member)
    return pairs


def _find_similar(subject: Subject) -> Pairs:
    """Returns pairs of examples with nearly the same texts, the earlier one first; none without datasketch.

    An example is paired with one of its own split, if its texts occur first there, and with one of the training set, if
    no text of the training set equals its own, which `split_overlap` reports.
    """
    similar: Pairs = []
    datasketch = extra("datasketch")
    groups = subject.once(_group_by_texts)
    keys = list(groups)
    if datasketch is None or len(keys) > _MOST_TEXTS:
        return similar
    # The first example of each split with a text: computed once, as a text may have many copies.
    firsts = [{member.split: member for member in reversed(members)} for members in groups.values()]
    index = SimilarTexts(datasketch)
    for number, key in enumerate(keys):
        sketch = index.sketch()
        index.add_grams(sketch, _cut_grams("\n".join(key)))
        # Split in which an earlier example is sought → the examples that it is for.
        sought = {split: [member] for split, member in firsts[number].items()}
        sought.setdefault("train", groups[key])
        for candidate in index.candidates(sketch):
            found = sought.keys() & firsts[candidate].keys()
            if not found or not _is_similar(key, keys[candidate]):
                continue
            for split in sorted(found):
                other, first = firsts[candidate][split], sought[split][0]
                # The candidate occurs earlier in another split alone; in this one it is the later of the two.
                if split == first.split and first < other:
                    similar.append((first, other))
                else:
                    similar += [(other, member) for member in sought.pop(split)]
        index.insert(number, sketch)
    return similar


def _is_similar(one: Key, other: Key) -> bool:
    for texts in zip(one, other, strict=True):
        first, second = map(_cut_grams, texts)
        # A similarity of at least s needs sizes whose ratio is at least s.
        if min(len(first), len(second)) < SIMILAR * max(len(first), len(second)):
            return False
        if len(first & second) < SIMILAR * len(first | second):
            return False
    return True


@lru_cache(maxsize=256)  # a long text has 0.2 MB of them
def _cut_grams(text: str) -> frozenset[str]:
    return grams(f" {text.lower()[:_MOST_CHARACTERS]} ")
