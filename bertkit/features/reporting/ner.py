"""Reports of token classification: scores by type, kinds of errors, and spans that are often wrong.

An entity is (type, first word, word after the last one), as in `bertkit.metrics.entities`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from bertkit.features.reporting.charts import MOST_CLASSES_DRAWN, confusion_chart
from bertkit.features.reporting.classification import class_sections
from bertkit.features.reporting.reported import (
    PREDICTED,
    TRUE,
    Chart,
    DataTable,
    Mark,
    Mistake,
    Reported,
    Section,
    Side,
    most_confident,
    reported,
    short,
)
from bertkit.inference.outcome import Outcome
from bertkit.metrics.entities import Entity, count_entities, find_entities
from bertkit.tasks.ner.task import NerTask

_MOST_SPANS = 15
_NONE = "(none)"  # no entity
_NO_TYPE = "(no type)"  # of tags such as B and I alone
KINDS = ("correct", "wrong type", "wrong boundary", "wrong type and boundary", "missing", "spurious")
"""Kinds of matches between true and predicted entities, in the order in which they are tried."""

_KINDS_NOTE = (
    "Wrong type: the right words. Wrong boundary: the right type, and words in common. Wrong type and boundary: words "
    "in common alone. Missing and spurious: no overlap with an entity that is not matched otherwise."
)

Words = Sequence[Sequence[str]]
Tags = Sequence[Sequence[str]]
Match = tuple[str, Entity | None, Entity | None]


@reported.register(NerTask)
class ReportedTags(Reported):
    """Scores of types or plain tags; mistakes marked in the sentences."""

    def sections(self, outcome: Outcome) -> list[Section]:
        predicted, true = outcome.predictions_and_references()
        if self.task.settings.scheme == "plain":
            tags, own = np.concatenate(true), np.concatenate(predicted)
            rows = np.concatenate(self._probabilities(outcome))
            return class_sections(own, rows, tags, self.task.settings.label_names, None, ("tag", "tags"), "word")
        known, strict, training = None, self.task.settings.strict, outcome.training
        if training is not None and "labels" in training:
            known = known_texts(training["tokens"], self.task.to_labels(training["labels"]), strict)
        words = outcome.examples["tokens"]
        return entity_sections(words, self.task.to_labels(true), self.task.to_labels(predicted), strict, known)

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        predicted, true = map(self.task.to_labels, outcome.predictions_and_references())
        best = [rows.max(axis=-1, initial=0) for rows in self._probabilities(outcome)]
        strict = None if self.task.settings.scheme == "plain" else self.task.settings.strict
        return span_mistakes(outcome.examples["tokens"], true, predicted, best, strict)

    def _probabilities(self, outcome: Outcome) -> list[np.ndarray]:
        rows: list[np.ndarray] = self.task.word_probabilities(outcome.outputs, outcome.features, outcome.examples)
        return rows


def match(true: Sequence[Entity], predicted: Sequence[Entity]) -> list[Match]:
    """Matches the entities of a sentence with the predicted ones; returns a kind of `KINDS` and both for each pair.

    Equal entities are matched first, then those with the same words, then overlapping ones with the same type, then
    all others that overlap; entities without a partner are missing or spurious.

    >>> match(  # doctest: +NORMALIZE_WHITESPACE
    ...     [Entity("PER", 0, 2), Entity("LOC", 4, 5)], [Entity("PER", 1, 2), Entity("ORG", 4, 5)]
    ... )
    [('wrong type', Entity(type='LOC', start=4, end=5), Entity(type='ORG', start=4, end=5)),
     ('wrong boundary', Entity(type='PER', start=0, end=2), Entity(type='PER', start=1, end=2))]
    """
    rules: tuple[Callable[[Entity, Entity], bool], ...] = (
        lambda a, b: a == b,
        lambda a, b: a[1:] == b[1:],
        lambda a, b: a.type == b.type and a.start < b.end and b.start < a.end,
        lambda a, b: a.start < b.end and b.start < a.end,
    )
    matched: list[Match] = []
    left, right = list(true), list(predicted)
    for kind, rule in zip(KINDS, rules, strict=False):
        for entity in list(left):
            partner = next((each for each in right if rule(entity, each)), None)
            if partner is not None:
                left.remove(entity)
                right.remove(partner)
                matched.append((kind, entity, partner))
    return [*matched, *(("missing", each, None) for each in left), *(("spurious", None, each) for each in right)]


def entity_sections(words: Words, true: Tags, predicted: Tags, strict: bool, known: set[str] | None) -> list[Section]:
    """Returns the sections for entities.

    Args:
        words: the words of each sentence.
        true, predicted: their tags.
        strict: as in `find_entities`.
        known: texts of the entities of the training data, in lower case; None if these are not at hand.
    """
    matched = [
        (sentence, *pair)
        for sentence, (expected, own) in enumerate(zip(true, predicted, strict=True))
        for pair in match(find_entities(expected, strict), find_entities(own, strict))
    ]
    types = {kind or _NO_TYPE: each for kind, each in count_entities(predicted, true, strict).items()}
    table = DataTable(
        "Scores of each type",
        ("type", "precision", "recall", "F1", "entities", "predicted"),
        [(name, *each.scores(), each.actual, each.predicted) for name, each in types.items()],
        for_card=True,
    )
    counts = Counter(kind for _, kind, _, _ in matched)
    kinds = [(kind, counts[kind]) for kind in KINDS]
    errors: list[Chart | DataTable] = [DataTable("Boundaries and types", ("kind", "entities"), kinds, _KINDS_NOTE)]
    if types and len(types) < MOST_CLASSES_DRAWN:
        names = [*types, _NONE]
        place = {name: number for number, name in enumerate(names)}
        confusion = np.zeros((len(names), len(names)), np.int64)
        for _, _, expected, own in matched:  # the last row and column are those without a partner
            row, column = (place[_NONE if each is None else each.type or _NO_TYPE] for each in (expected, own))
            confusion[row, column] += 1
        errors.append(confusion_chart("Types", confusion, names, ("entity", "entities")))
    spans = []
    for kind in ("missing", "spurious"):
        frequent: Counter[tuple[str, str]] = Counter()
        for sentence, of_pair, expected, own in matched:
            entity = expected or own
            if of_pair == kind and entity is not None:
                frequent[_join_words(words[sentence], entity), entity.type or _NO_TYPE] += 1
        rows = [(short(text, 60), of, n) for (text, of), n in frequent.most_common(_MOST_SPANS)]
        spans.append(DataTable(f"Most frequent {kind} entities", ("text", "type", "times"), rows, has_texts=True))
    return [
        Section("Types", [table, *([] if known is None else [_compare_with_training(words, matched, known)])]),
        Section("Kinds of errors", errors),
        Section("Frequent errors", [each for each in spans if each.rows]),
    ]


def known_texts(words: Words, tags: Tags, strict: bool) -> set[str]:
    """Returns the texts of all entities, in lower case."""
    return {
        _join_words(words[sentence], entity).lower()
        for sentence, of_sentence in enumerate(tags)
        for entity in find_entities(of_sentence, strict)
    }


def _join_words(words: Sequence[str], entity: Entity) -> str:
    return " ".join(words[entity.start : entity.end])


def _compare_with_training(words: Words, matched: Sequence[tuple[int, *Match]], known: set[str]) -> DataTable:
    rows: list[tuple[str, float | None, int]] = []
    for title, is_known in (("seen in training", True), ("not seen in training", False)):
        kinds = [
            kind
            for sentence, kind, expected, _ in matched
            if expected is not None and (_join_words(words[sentence], expected).lower() in known) is is_known
        ]
        rows.append((title, kinds.count("correct") / len(kinds) if kinds else None, len(kinds)))
    note = "An entity is seen if an entity of the training data has the same words, without regard to case."
    return DataTable("Entities by whether training had them", ("entities", "recall", "number"), rows, note)


def span_mistakes(
    words: Words, true: Tags, predicted: Tags, probabilities: Sequence[np.ndarray], strict: bool | None
) -> list[Mistake]:
    """Returns the sentences with wrong entities, those first whose wrong words have the highest probabilities.

    Args:
        words: the words of each sentence.
        true, predicted: their tags.
        probabilities: that of the predicted tag of each word.
        strict: as in `find_entities`; None for plain tags, where each word is an entity.
    """
    mistakes = []
    for row, (expected, own, confidence) in enumerate(zip(true, predicted, probabilities, strict=True)):
        entities, references = (
            [Entity(tag, n, n + 1) for n, tag in enumerate(tags)] if strict is None else find_entities(tags, strict)
            for tags in (own, expected)
        )
        sides: dict[Side, list[Entity]] = {
            TRUE: [each for each in references if each not in entities],
            PREDICTED: [each for each in entities if each not in references],
        }
        if not (sides[TRUE] or sides[PREDICTED]):
            continue
        starts = np.cumsum([0, *(len(word) + 1 for word in words[row])]).tolist()
        marks = [
            Mark(starts[each.start], starts[each.end] - 1, side, each.type) for side in sides for each in sides[side]
        ]
        in_words = {
            side: "; ".join(f"{_join_words(words[row], each)} ({each.type or 'no type'})" for each in wrong) or _NONE
            for side, wrong in sides.items()
        }
        sure = float(np.mean([confidence[word] for word in range(len(own)) if expected[word] != own[word]]))
        texts = [("text", " ".join(words[row]), marks)]
        mistakes.append(Mistake(row, sure, in_words[TRUE], in_words[PREDICTED], texts))
    return most_confident(mistakes)
