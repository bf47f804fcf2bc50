"""Rules on the labels of the examples: classes, entities and answers, and labels that are probably wrong.

For ``--check-labels`` each training example is classified by a logistic regression on the vectors of the checkpoint,
trained on the other folds of a cross-validation; cleanlab's confident learning (Northcutt et al. 2021,
arXiv:1911.00068) finds the labels that disagree with these predictions.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain

import numpy as np

from bertkit.data.tables.classes import look_alikes
from bertkit.data.tables.folds import assign_folds
from bertkit.data.tables.table import copies_in_words, same_texts, text_key
from bertkit.features.checks.findings import Finding, note, rule, warning
from bertkit.features.checks.subject import Subject, checked
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.runtime.progress import counted, inflected
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.splits import ColumnsOf
from bertkit.training.objectives import weighted_labels

_RARE, _IMBALANCE = 10, 10.0
_RARE_BESIDE = 0.5  # of the mean number of examples of a class, below which one is rare beside the others
_MANY_TEXTS = 0.001  # share of conflicting texts above which a note becomes a warning
_MANY_MENTIONS = 0.05  # share of mentions above which a note becomes a warning
_FOLDS = 5
_LISTED = 20
_MOST_NAMES = 8  # of classes in a sentence
_MOST_ITERATIONS = 300
_WINDOW = 128  # tokens


def _count_classes(subject: Subject, split: str) -> Counter[str]:
    return Counter(chain.from_iterable(subject.classes.get(split, ())))


def _list_few(names: Sequence[str], between: str = ", ") -> str:
    return between.join([*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])])


@rule("rare-class", "splits")
def rare_class(subject: Subject) -> Iterator[Finding]:
    """Finds classes with fewer than 10 training examples: a warning if others have far more, else a note."""
    counts = _count_classes(subject, "train")
    few = {name: count for name, count in counts.items() if count < _RARE}
    mean = sum(counts.values()) / max(len(counts), 1)
    rare = {name: count for name, count in few.items() if count < _RARE_BESIDE * mean}
    others = {name: count for name, count in few.items() if name not in rare}
    than_others = "none of them" if rare else "no class"
    for level, found, which, than, remedy in (
        (
            warning,
            rare,
            "",
            f" and less than half of the mean, {mean:.1f}" if others else "",  # else these are all that have few
            "add examples, or merge such classes with others: beside far larger ones they are learned late",
        ),
        (
            note,
            others,
            " more" if rare else "",
            "",
            f"more examples of each class raise the scores most; {than_others} is much rarer than the others",
        ),
    ):
        if found:
            names = _list_few([f"{name!r} {count}" for name, count in sorted(found.items(), key=lambda item: item[1])])
            of_all = f" of {len(counts)}" if len(found) > 1 else ""
            classes = f"{len(found)}{which}{of_all} {inflected(len(found), 'class has', 'classes have')}"
            yield level("train", f"{classes} fewer than {_RARE} examples{than}: {names}", remedy)


@rule("imbalance", "splits")
def imbalance(subject: Subject) -> Iterator[Finding]:
    """Finds classes with more than 10 times the examples of another, among those that are not rare, unless the loss
    weighs them."""
    if subject.recipe.train.get("class_weights") is not None:
        return
    counts = {name: count for name, count in _count_classes(subject, "train").items() if count >= _RARE}
    if len(counts) < 2:
        return
    most, least = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    if counts[most] > _IMBALANCE * counts[least]:
        weights = "set train.class_weights=balanced, " if weighted_labels(subject.task) else ""
        yield warning(
            "train",
            f"{most!r} has {counted(counts[most], 'example', form=',')} and {least!r} {counts[least]:,}, a ratio of "
            f"{counts[most] / counts[least]:.0f} to 1",
            f"{weights}compare scores by class (macro F1) instead of accuracy, or add examples of the small classes",
        )


@rule("labels-in-one-split", "splits")
def labels_in_one_split(subject: Subject) -> Iterator[Finding]:
    """Finds classes that occur in the training set or in another split only."""
    yield from _doubts(
        subject, "labels-in-one-split", "add such rows to the training set, or correct the spelling of these labels"
    )
    known = set(_count_classes(subject, "train"))
    if not known:
        return
    for split in subject.classes:
        own = set(_count_classes(subject, split))
        if split == "train" or not own:
            continue
        for missing, where, why in (
            (known - own, split, inflected(len(known - own), "its scores are", "their scores are") + " not measured"),
            (own - known, "train", inflected(len(own - known), "it", "they") + " cannot be learned"),
        ):
            if missing:
                names = _list_few([repr(name) for name in sorted(missing)])
                yield warning(
                    where,
                    f"{len(missing)} of {len(known | own)} classes of train and {split} "
                    f"{inflected(len(missing), 'is', 'are')} not in {where}, so {why}: {names}",
                    "split the data again by class, or check the spelling of the labels",
                )


@rule("label-spelling", "splits")
def label_spelling(subject: Subject) -> Iterator[Finding]:
    """Finds classes whose names look alike: see `bertkit.data.tables.classes.look_alikes`."""
    counts = sum((_count_classes(subject, split) for split in subject.classes), Counter[str]())
    same = look_alikes(name for name, _ in counts.most_common())
    if same:
        groups = [", ".join(f"{name!a} {counts[name]:,}" for name in names) for names in same]
        yield warning(
            ", ".join(subject.classes),
            f"the names of {sum(map(len, same))} classes differ only in case, white space or Unicode form, or are the "
            f"same number, and each is a class of its own: {_list_few(groups, '; ')}",
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
            key = text_key(values)
            before = labels.setdefault(key, (label, texts.place(row)))
            if before[0] != label:
                conflicts.setdefault(key, (before[1], texts.place(row)))
    if conflicts:
        (text, *_), (first, second) = next(iter(conflicts.items()))
        level = warning if len(conflicts) > _MANY_TEXTS * total else note
        yield level(
            second,
            f"{counted(len(conflicts), 'text has', 'different texts have', form=',')} several labels in {total:,} "
            f"examples; the first is {text[:60]!r}, also in {first}",
            "correct the labels, or remove the texts: no model can predict both",
        )


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
        by_type = ", ".join(f"{kind!r} {count}" for kind, count in kinds.most_common(3))
        level = warning if minority > _MANY_MENTIONS * mentions else note
        yield level(
            "train",
            f"{len(disagree):,} of {len(types):,} different spans {inflected(len(disagree), 'has', 'have')} several "
            f"types; {minority:,} of {mentions:,} mentions {inflected(minority, 'differs', 'differ')} from the usual "
            f"type of their span. The most frequent: {' '.join(words)[:60]!r} ({by_type})",
            "check these spans against the annotation guideline; words with several meanings are no error",
        )


def classes_of_folds(labels: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Returns the classes that can be in each fold: those with at least as many different texts as there are folds."""
    pairs = np.unique(np.stack([labels, texts]), axis=1)
    classes, counts = np.unique(pairs[0], return_counts=True)
    return classes[counts >= _FOLDS]


def find_suspects(vectors: np.ndarray, labels: np.ndarray, texts: np.ndarray) -> list[tuple[int, int, float]]:
    """Returns the labels that are probably wrong, the most suspicious first: the example, from 0, the id of its most
    probable class, and the probability of its label. There are none if fewer than two classes are left.

    Args:
        vectors: (N, H) float32, vectors of the texts.
        labels: (N,) int64, ids of the classes; those that are not among `classes_of_folds` are left out.
        texts: number of the text of each example, (N,) int64, as of `bertkit.data.tables.table.same_texts`.
    """
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.flatnonzero(np.isin(labels, classes_of_folds(labels, texts)))
    kept, own = np.unique(labels[rows], return_inverse=True)
    if len(kept) < 2:
        return []
    folds = PredefinedSplit(assign_folds(_FOLDS, seed=0, texts=texts[rows], labels=own.tolist()))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MOST_ITERATIONS))
    probabilities = cross_val_predict(model, vectors[rows], own, cv=folds, method="predict_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in classes of few examples fewer labels are flagged
        # One process, without forks of a process with threads.
        ranked = find_label_issues(own, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    return [(rows[n], kept[probabilities[n].argmax()], float(probabilities[n, own[n]])) for n in ranked]


def vectors_of(checkpoint: str, columns: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns a vector for each example, as `bertkit embed` does: the mean of its tokens' vectors in the last layer,
    unless the checkpoint records another pooling. Long texts are read in windows of at most 128 tokens.

    The vectors u and v of a pair become u, v, |u - v| and u · v by element, as in InferSent (Conneau et al. 2017).

    Args:
        checkpoint: folder or Hub id.
        columns: the N texts, or of pairs the first and the second ones.

    Returns:
        (N, H) float32; (N, 4 * H) for pairs.

    Raises:
        CheckpointError: the checkpoint has no complete encoder, or cannot be loaded.
    """
    from bertkit.inference.loaded import load

    encoder = load(checkpoint)
    window = min(_WINDOW, longest_input(encoder.embedder.model.config))
    parts = [encoder.embed(list(texts), max_seq_length=window) for texts in columns]
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return np.concatenate([first, second, abs(first - second), first * second], axis=1)


@rule("label-noise", "check_labels", "splits", "stored")
def label_noise(subject: Subject) -> Iterator[Finding]:
    """Finds training labels that are probably wrong; only with ``--check-labels``."""
    classes = subject.classes.get("train", [])
    texts = subject.texts[0]
    have_one = classes and all(len(names) == 1 for names in classes)
    if not have_one or len(texts.columns) > 2 or not checked(subject.task).classifies_texts:
        yield note(
            "--check-labels",
            "the labels were not checked: this is for tasks with one class per text or pair of texts",
            "remove --check-labels",
        )
        return
    names, labels = np.unique([names[0] for names in classes], return_inverse=True)
    numbers = same_texts(texts.rows())
    if len(classes_of_folds(labels, numbers)) < 2:
        yield note(
            "--check-labels",
            f"the labels were not checked: that needs two classes of {_FOLDS} different texts or more",
            "add examples, or remove --check-labels",
        )
        return
    vectors = vectors_of(str(subject.checkpoint), list(texts.columns.values()))
    suspects = find_suspects(vectors, labels, numbers)
    if suspects:
        copies = copies_in_words(numbers, "example", "copies are in one fold")
        yield note(
            "train",
            f"{len(suspects):,} of {len(labels):,} labels ({100 * len(suspects) / len(labels):.1f} %) "
            f"{inflected(len(suspects), 'is', 'are')} probably wrong, by cross-validated logistic regression on the "
            f"vectors of {subject.checkpoint}{f' ({copies})' if copies else ''}; the most suspicious are warnings",
            "read these rows first; some of them are right, but difficult",
        )
    for row, best, score in suspects[:_LISTED]:
        text = next(iter(texts.columns.values()))[row]
        label, predicted = str(names[labels[row]]), str(names[best])
        yield warning(
            texts.place(row),
            f"label {label!r} (score {score:.3f}), predicted {predicted!r}: {text.strip()[:80]!r}",
            "correct the label, or keep it if it is right",
        )


# ---- rare labels that are probably another one: ``biling`` or ``bill.`` beside ``billing`` -----------------------

_MISSPELT, _TIMES = 10, 5  # rows of a misspelt label, at most; the right one has at least five times as many
_SHORTEST = 5  # characters; short names differ in one letter often
_SIMILAR = 0.85  # ratio of difflib's SequenceMatcher
_SHORTENED = 3, 0.5  # characters of an abbreviation, at least; and its part of the whole name, at most
_DIGITS = re.compile(r"\d+")


def near_labels(counts: Mapping[str, int]) -> dict[str, tuple[str, float]]:
    """Returns rare label → the frequent one that it is probably meant for, and how similar they are, in [0, 1].

    Of names that look alike, with 1, it is the most frequent. Otherwise it occurs at least ten times, and five times as
    often. A misspelt label occurs fewer times than ten, and has at least five characters, a similarity of 0.85, and its
    first letter and digits: ``illegal`` is not ``legal``, and ``grade 1`` not ``grade 2``. An abbreviation is its
    beginning, of three letters to half of it, unless several names begin so.

    >>> near_labels({"billing": 97, "biling": 2, "sales": 50, "Sales": 1, "legal": 60, "illegal": 3})
    {'Sales': ('sales', 1.0), 'biling': ('billing', 0.92)}
    >>> near_labels({"positive": 80, "negative": 90, "pos": 12})
    {'pos': ('positive', 0.55)}
    """
    near: dict[str, tuple[str, float]] = {}
    for group in look_alikes(counts):
        most = max(group, key=lambda name: counts[name])
        near |= {name: (most, 1.0) for name in group if name != most}
    different = {name: count for name, count in counts.items() if name not in near}
    for name, count in different.items():
        alike = [
            (round(SequenceMatcher(None, name.casefold(), other.casefold()).ratio(), 2), other)
            for other, rows in different.items()
            if rows >= max(_MISSPELT, _TIMES * count) and other[:1].casefold() == name[:1].casefold()
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
        if similar and count < _MISSPELT and len(name) >= _SHORTEST:
            near[name] = max(similar)[::-1]
        elif len(shortened) == 1:
            near[name] = shortened[0][::-1]
    for name in near:  # the one that is meant may itself be misspelt, or abbreviate another one
        while (other := near[name][0]) in near:
            near[name] = (near[other][0], min(near[name][1], near[other][1]))
    return near


@rule("label-typo", "splits")
def label_typo(subject: Subject) -> Iterator[Finding]:
    """Finds rare classes whose names are nearly those of frequent ones, or abbreviate them."""
    counts = _count_classes(subject, "train")
    typos = {name: other for name, (other, ratio) in near_labels(counts).items() if ratio < 1}
    if typos:
        can_fix = (  # see `bertkit.features.checks.fix.fix`, which refuses lists
            isinstance(subject.task, ClassificationTask)
            and getattr(subject.recipe.data, "train_file", None) is not None
            and (subject.task.settings.problem != "multi_label" or subject.recipe.task.label_separator is not None)
        )
        named = "; ".join(
            f"{name!r} ({counted(counts[name], 'time')}): did you mean {other!r} ({counts[other]:,} times)?"
            for name, other in typos.items()
        )
        yield warning(
            "train",
            f"{counted(len(typos), 'label')} {inflected(len(typos), 'is', 'are')} nearly another one: {named}",
            f"correct these labels{', or write a corrected table with --fix OUT.csv' if can_fix else ''}",
        )
