"""Sections of the report of token classification: scores by type, kinds of errors, and spans that are often wrong.

An entity is (type, first word, word after the last one), as in `bertkit.metrics.entities`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.metrics.entities import Entity, count_entities, find_entities
from bertkit.metrics.terms import Terms
from bertkit.tasks.report_charts import MOST_CLASSES_DRAWN, confusion_charts, short
from bertkit.tasks.report_parts import PREDICTED, TRUE, Chart, DataTable, Mark, Mistake, Section, Side, surest
from bertkit.tasks.report_remarks import never_predicted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SPANS = 15
_NONE = "(none)"
KINDS = ("right", "wrong type", "wrong boundary", "wrong type and boundary", "missed", "invented")
"""Kinds of matches between true and predicted entities, in the order in which they are tried."""

Words = Sequence[Sequence[str]]


def match(true: Sequence[Entity], predicted: Sequence[Entity]) -> list[tuple[str, Entity | None, Entity | None]]:
    """Matches the entities of a sentence with the predicted ones; each occurs in one pair.

    Equal entities are matched first, then those with the same words, then overlapping ones with the same type, then
    all others that overlap; entities without a partner are missed or invented.

    Returns:
        The kind of each pair, one of `KINDS`, the true entity and the predicted one.

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
    found: list[tuple[str, Entity | None, Entity | None]] = []
    left, right = list(true), list(predicted)
    for kind, rule in zip(KINDS, rules, strict=False):
        for entity in list(left):
            partner = next((each for each in right if rule(entity, each)), None)
            if partner is not None:
                left.remove(entity)
                right.remove(partner)
                found.append((kind, entity, partner))
    return [*found, *(("missed", each, None) for each in left), *(("invented", None, each) for each in right)]


def entity_sections(
    words: Words,
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    strict: bool,
    known: set[str] | None,
) -> list[Section]:
    """Returns the sections for entities.

    Args:
        words: the words of each sentence.
        true, predicted: their tags.
        strict: as in `find_entities`.
        known: texts of the entities of the training data, in lower case; None if these are not at hand.
    """
    matched = [
        (sentence, *pair)
        for sentence, (given, found) in enumerate(zip(true, predicted, strict=True))
        for pair in match(find_entities(given, strict), find_entities(found, strict))
    ]
    counts = Counter(kind for _, kind, _, _ in matched)
    of_types = count_entities(predicted, true, strict)
    types = [kind or _NONE for kind in of_types]
    remarks = never_predicted(
        types,
        np.array([each.actual for each in of_types.values()]),
        np.array([each.predicted for each in of_types.values()]),
        what=("type", "types"),
    )
    errors: list[Chart | DataTable] = [_kinds(counts)]
    if types and len(types) < MOST_CLASSES_DRAWN:
        errors += _confusion(matched, types)
    table = DataTable(
        "Scores of each type",
        ("type", "precision", "recall", "F1", "entities", "predicted"),
        [(kind or _NONE, *of_type.scores(), of_type.actual, of_type.predicted) for kind, of_type in of_types.items()],
        for_card=True,
    )
    sections = [
        Section("Types", [table, *([] if known is None else [_unseen(words, matched, known)])], remarks=remarks),
        Section("Kinds of errors", errors),
    ]
    spans = [_frequent(words, matched, kind) for kind in ("missed", "invented")]
    return [*sections, Section("Frequent errors", [each for each in spans if each.rows])]


def known_texts(words: Words, tags: Sequence[Sequence[str]], strict: bool) -> set[str]:
    """Returns the texts of all entities, in lower case."""
    return {
        _text(words[sentence], entity).lower()
        for sentence, given in enumerate(tags)
        for entity in find_entities(given, strict)
    }


def _text(words: Sequence[str], entity: Entity) -> str:
    return " ".join(words[entity.start : entity.end])


def _kinds(counts: Counter[str]) -> Chart:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        values = [counts[kind] for kind in KINDS]
        colours = ["C0", *["C1"] * (len(KINDS) - 1)]
        axes.barh(range(len(KINDS)), values, color=colours, height=0.7)
        axes.set_yticks(range(len(KINDS)), KINDS)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set(xlabel="entities", xlim=(0, 1.12 * max([*values, 1])))
        for place, value in enumerate(values):
            axes.text(value, place, f" {value:,}", va="center", fontsize=9)

    listed = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS)
    note = (
        "Wrong type: the right words. Wrong boundary: the right type, and some of the words. Missed and invented: no "
        "overlap with an entity that is not matched otherwise."
    )
    alt = f"True and predicted entities by the kind of error: {listed}."
    return Chart("error-kinds", "Boundaries and types", alt, draw, (4.8, 2.6), note, for_card=True)


def _confusion(matched: Sequence[tuple[int, str, Entity | None, Entity | None]], types: Sequence[str]) -> list[Chart]:
    """Returns the types of matched entities; the last row and column are those without a partner."""
    names = [*types, _NONE] if _NONE not in types else list(types)
    place = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    for _, _, given, found in matched:
        row, column = (place[_NONE if each is None else each.type or _NONE] for each in (given, found))
        counts[row, column] += 1
    return confusion_charts("confusion", "Types", counts, names, unit=("entity", "entities"))


def _unseen(
    words: Words, matched: Sequence[tuple[int, str, Entity | None, Entity | None]], known: set[str]
) -> DataTable:
    rows: list[tuple[str, float | None, int]] = []
    for title, is_known in (("seen in training", True), ("not seen in training", False)):
        kinds = [
            kind
            for sentence, kind, given, _ in matched
            if given is not None and (_text(words[sentence], given).lower() in known) is is_known
        ]
        rows.append((title, kinds.count("right") / len(kinds) if kinds else None, len(kinds)))
    note = "An entity is seen if an entity of the training data has the same words, without regard to case."
    return DataTable("Entities by whether training had them", ("entities", "recall", "number"), rows, note)


def _frequent(words: Words, matched: Sequence[tuple[int, str, Entity | None, Entity | None]], kind: str) -> DataTable:
    counts: Counter[tuple[str, str]] = Counter()
    for sentence, found, given, own in matched:
        entity = given or own
        if found == kind and entity is not None:
            counts[_text(words[sentence], entity), entity.type] += 1
    rows = [(short(text, 60), of, n) for (text, of), n in counts.most_common(_MOST_SPANS)]
    return DataTable(f"Most frequent {kind} entities", ("text", "type", "times"), rows, has_texts=True)


def entity_mistakes(
    words: Words,
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    probabilities: Sequence[np.ndarray],
    strict: bool,
) -> list[Mistake]:
    """Returns the sentences with wrong entities, those first whose wrong words have the highest probabilities.

    Args:
        words, true, predicted, strict: as for `entity_sections`.
        probabilities: probability of the predicted tag of each word.
    """
    found = []
    for row, (given, own, sure) in enumerate(zip(true, predicted, probabilities, strict=True)):
        expected, entities = (find_entities(tags, strict) for tags in (given, own))
        if set(expected) == set(entities):
            continue
        wrong = [word for word in range(len(given)) if given[word] != own[word]]
        starts = np.cumsum([0, *(len(word) + 1 for word in words[row])])
        sides: list[tuple[Side, Sequence[Entity]]] = [(TRUE, expected), (PREDICTED, entities)]
        marks = [
            Mark(int(starts[each.start]), int(starts[each.end]) - 1, side, each.type)
            for side, of_side in sides
            for each in of_side
        ]
        text, shown = " ".join(words[row]), [_listed(words[row], each) for each in (expected, entities)]
        sureness = float(np.mean([sure[word] for word in wrong])) if wrong else 0.0
        found.append(Mistake(row, sureness, shown[0], shown[1], [("text", text, marks)]))
    return surest(found)


def tag_mistakes(
    words: Words, true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], probabilities: Sequence[np.ndarray]
) -> list[Mistake]:
    """Returns the surest wrong plain tags, each with its sentence; arguments as for `entity_mistakes`."""
    found = []
    for row, (given, own, sure) in enumerate(zip(true, predicted, probabilities, strict=True)):
        starts = np.cumsum([0, *(len(word) + 1 for word in words[row])])
        for word in (word for word in range(len(given)) if given[word] != own[word]):
            mark = Mark(int(starts[word]), int(starts[word + 1]) - 1, PREDICTED, own[word])
            texts = [("text", " ".join(words[row]), [mark])]
            found.append(Mistake(row, float(sure[word]), given[word], own[word], texts))
    return surest(found)


def f1_terms(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], strict: bool) -> Terms:
    """Returns the entities of each sentence that are right, predicted and true, (N, 3), and F1 as their function."""
    rows = []
    for own, given in zip(predicted, true, strict=True):
        found, expected = set(find_entities(own, strict)), set(find_entities(given, strict))
        rows.append((len(found & expected), len(found), len(expected)))

    def f1(right: Any, found: Any, expected: Any) -> Any:
        return 2 * right / np.maximum(found + expected, 1e-12)

    return Terms(np.array(rows, dtype=np.float64).reshape(-1, 3), f1, (0.0, 1.0))


def accuracy_terms(predicted: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> Terms:
    """Returns the correct tags and the words of each sentence, (N, 2), and accuracy as their function."""
    rows = [
        (np.sum(np.asarray(own) == np.asarray(given)), len(given)) for own, given in zip(predicted, true, strict=True)
    ]
    return Terms(np.array(rows, dtype=np.float64).reshape(-1, 2), lambda right, words: right / words, (0.0, 1.0))


def _listed(words: Sequence[str], entities: Sequence[Entity]) -> str:
    return "; ".join(f"{_text(words, each)} ({each.type})" for each in entities) or _NONE


def tag_sections(true: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> list[Section]:
    """Returns the sections for plain tags, such as parts of speech.

    Args:
        true, predicted: ids of the tags of all words, (W,).
        names: the tags.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    scores = precision_recall_fscore_support(true, predicted, labels=range(len(names)), average=None, zero_division=0)
    times = np.bincount(predicted, minlength=len(names))
    rows = [
        (name, float(p), float(r), float(f), int(n), int(times[c]))
        for c, (name, p, r, f, n) in enumerate(zip(names, *scores, strict=True))
    ]
    columns = ("tag", "precision", "recall", "F1", "words", "predicted")
    parts: list[Chart | DataTable] = [DataTable("Scores of each tag", columns, rows, for_card=True)]
    if len(names) <= MOST_CLASSES_DRAWN:
        counts = confusion_matrix(true, predicted, labels=range(len(names)))
        parts = [*confusion_charts("confusion", "Tags", counts, names, unit=("word", "words"), for_card=True), *parts]
    remarks = never_predicted(names, scores[3], times, what=("tag", "tags"), unit="word")
    return [Section("Tags", parts, remarks=remarks)]
