"""Rules on labelled spans: entities and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bertkit.checks.findings import Finding, note, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject, checked
from bertkit.progress import inflected
from bertkit.tasks.splits import ColumnsOf

_MANY = 0.05  # share of mentions above which a note becomes a warning


@rule("impossible-tags", "splits")
def impossible_tags(subject: Subject) -> Iterator[Finding]:
    """Reports tags that violate the rules of their scheme."""
    yield from _doubts(
        subject, "impossible-tags", "correct these tags; scores depend on how such sequences are interpreted"
    )


@rule("misplaced-answers", "splits")
def misplaced_answers(subject: Subject) -> Iterator[Finding]:
    """Reports answers that are not in the context at their offset."""
    yield from _doubts(
        subject, "misplaced-answers", "correct answer_start: it counts characters (code points) from 0, not bytes"
    )


def _doubts(subject: Subject, code: str, remedy: str) -> Iterator[Finding]:
    for name, split in subject.splits.items():
        if code in split.doubts:
            yield warning(f"{name} ({split.source})", split.doubts[code], remedy)


@rule("entity-disagreement", "splits", "task")
def entity_disagreement(subject: Subject) -> Iterator[Finding]:
    """Finds words that are labelled as entities of different types in different places of the training set."""
    split = subject.splits.get("train")
    examples = None if split is None else ColumnsOf(split.examples)
    spans = None if examples is None else checked(subject.task).spans(examples)
    if spans is None or examples is None:
        return
    types: dict[tuple[str, ...], Counter[str]] = {}
    for words, of_example in zip(examples["tokens"], spans, strict=True):
        for kind, start, end in of_example:
            types.setdefault(tuple(words[start:end]), Counter())[kind] += 1
    mentions = sum(sum(kinds.values()) for kinds in types.values())
    disagree = {words: kinds for words, kinds in types.items() if len(kinds) > 1}
    minority = sum(sum(kinds.values()) - max(kinds.values()) for kinds in disagree.values())
    if minority:
        words, kinds = max(disagree.items(), key=lambda item: sum(item[1].values()) - max(item[1].values()))
        counted = ", ".join(f"{kind!r} {count}" for kind, count in kinds.most_common(3))
        level = warning if minority > _MANY * mentions else note
        yield level(
            "train",
            f"{len(disagree):,} of {len(types):,} different spans {inflected(len(disagree), 'has', 'have')} several "
            f"types; {minority:,} of {mentions:,} mentions {inflected(minority, 'differs', 'differ')} from the usual "
            f"type of their span. The most frequent: {' '.join(words)[:60]!r} "
            f"({counted})",
            "check these spans against the annotation guideline; words with several meanings are no error",
        )
