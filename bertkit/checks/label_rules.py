"""Rules on the classes of the examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from bertkit.checks.findings import Finding, note, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject
from bertkit.progress import counted, inflected
from bertkit.tables.spelling import look_alikes

_RARE, _IMBALANCE = 10, 10.0
_MANY = 0.001  # share of conflicting texts above which a note becomes a warning


def _counts(subject: Subject, split: str) -> Counter[str]:
    return Counter(chain.from_iterable(subject.classes.get(split, ())))


@rule("rare-class", "splits")
def rare_class(subject: Subject) -> Iterator[Finding]:
    """Finds classes with fewer than 10 training examples."""
    rare = {name: count for name, count in _counts(subject, "train").items() if count < _RARE}
    if rare:
        named = ", ".join(f"{name!r} {count}" for name, count in sorted(rare.items(), key=lambda item: item[1])[:8])
        yield warning(
            "train",
            f"{counted(len(rare), 'class has', 'classes have')} fewer than {_RARE} examples: {named}"
            f"{', …' if len(rare) > 8 else ''}",
            "add examples, merge such classes with others, or expect no useful predictions for them",
        )


@rule("imbalance", "splits")
def imbalance(subject: Subject) -> Iterator[Finding]:
    """Finds classes with more than 10 times the examples of another, among those that are not rare, unless the loss
    weighs them."""
    if subject.recipe.train.get("class_weights") is not None:
        return
    counts = {name: count for name, count in _counts(subject, "train").items() if count >= _RARE}
    if len(counts) < 2:
        return
    most, least = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    if counts[most] > _IMBALANCE * counts[least]:
        yield warning(
            "train",
            f"{most!r} has {counted(counts[most], 'example', form=',')} and {least!r} {counts[least]:,}, a ratio of "
            f"{counts[most] / counts[least]:.0f} to 1",
            "set train.class_weights=balanced, compare scores by class (macro F1) instead of accuracy, or add examples "
            "of the small classes",
        )


@rule("labels-in-one-split", "splits")
def labels_in_one_split(subject: Subject) -> Iterator[Finding]:
    """Finds classes that occur in the training set or in another split only."""
    known = set(_counts(subject, "train"))
    if not known:
        return
    for split in subject.classes:
        own = set(_counts(subject, split))
        if split == "train" or not own:
            continue
        for missing, where, why in (
            (known - own, split, ("its scores are not measured", "their scores are not measured")),
            (own - known, "train", ("it cannot be learned", "they cannot be learned")),
        ):
            if missing:
                named = ", ".join(map(repr, sorted(missing)[:8])) + (", …" if len(missing) > 8 else "")
                yield warning(
                    where,
                    f"{len(missing)} of {len(known | own)} classes of train and {split} "
                    f"{inflected(len(missing), 'is', 'are')} not in {where}, so {why[len(missing) > 1]}: {named}",
                    "split the data again by class, or check the spelling of the labels",
                )


@rule("label-spelling", "splits")
def label_spelling(subject: Subject) -> Iterator[Finding]:
    """Finds classes whose names look alike: see `bertkit.tables.spelling.look_alikes`."""
    counts = sum((_counts(subject, split) for split in subject.classes), Counter[str]())
    same = look_alikes(name for name, _ in counts.most_common())
    if same:
        named = "; ".join(", ".join(f"{name!a} {counts[name]:,}" for name in names) for names in same[:8])
        yield warning(
            ", ".join(subject.classes),
            f"the names of {sum(map(len, same))} classes differ only in case, white space or Unicode form, or are the "
            f"same number, and each is a class of its own: {named}{'; …' if len(same) > 8 else ''}",
            "write the label of a class in the same way in all rows",
        )


@rule("label-conflict", "splits")
def label_conflict(subject: Subject) -> Iterator[Finding]:
    """Finds equal texts with different labels, within all labelled splits together."""
    labels: dict[tuple[str, ...], tuple[object, str]] = {}
    conflicts: dict[tuple[str, ...], tuple[str, str]] = {}
    total = 0
    for texts in subject.texts:
        examples = subject.splits[texts.name].examples
        if "labels" not in examples.column_names:
            continue
        for row, (values, label) in enumerate(zip(texts.rows(), examples["labels"][:], strict=True)):
            total += 1
            key = tuple(text.strip() for text in values)
            before = labels.setdefault(key, (label, texts.place(row)))
            if before[0] != label:
                conflicts.setdefault(key, (before[1], texts.place(row)))
    if conflicts:
        (text, *_), (first, second) = next(iter(conflicts.items()))
        level = warning if len(conflicts) > _MANY * total else note
        yield level(
            second,
            f"{counted(len(conflicts), 'text has', 'different texts have', form=',')} several labels in {total:,} "
            f"examples; the first is {text[:60]!r}, also in {first}",
            "correct the labels, or remove the texts: no model can predict both",
        )
