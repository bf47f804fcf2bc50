"""Conversion of tags to labels: the label set, and the label ids of the words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from bertkit.errors import DataError, RecipeError, raise_listed, shown
from bertkit.metrics.entities import OUTSIDE
from bertkit.tables import Table
from bertkit.tables.labels import listed, warnings_of_look_alikes
from bertkit.tasks.ner.schemes import (
    Scheme,
    check_tags,
    detect_scheme,
    fault_of_tag,
    find_impossible,
    in_usual_form,
    iob2_labels,
    to_iob2,
)
from bertkit.tasks.ner.sentences import place_of_word

_SHOWN_IMPOSSIBLE = 3


def find_labels(
    table: Table, column: str, tags: Sequence[Sequence[str]], scheme: Scheme | None, names: Sequence[str]
) -> tuple[Scheme, list[str]]:
    """Determines the tagging scheme of a training set, and its labels in the order of their ids.

    Entity labels are in IOB2, for each type that occurs or that the table declares. Plain tags are labels as they are,
    the most frequent first, since the first label is predicted for words without pieces.

    Args:
        table: table of sentences.
        column: column of the tags.
        tags: tags from `bertkit.tasks.ner.sentences.read_tags`.
        scheme: the scheme; None detects it.
        names: the labels; if empty, they are derived from the tags.

    Raises:
        DataError: the tags fit no scheme, a tag is not one of an entity scheme, or there is only one label.
        RecipeError: ``names`` are given and are not the complete IOB2 labels of their types.
    """
    place = partial(place_of_word, table)
    scheme = scheme or detect_scheme(tags, place)
    declared: Sequence[str] = table.class_names.get(column, ())
    if scheme != "plain":
        check_tags(tags, place)
        ((declared,), _) = with_usual_tags([list(declared)])
        raise_listed([f"{table.source}: class {tag!r} {fault}" for tag in declared if (fault := fault_of_tag(tag))])
    counts = Counter(tag for of_sentence in tags for tag in of_sentence)
    counts.update(dict.fromkeys(declared, 0))
    if scheme == "plain":
        found = list(names) or sorted(counts, key=lambda tag: (-counts[tag], tag))
    else:
        found = list(names) or iob2_labels(counts)
        if set(found) != (needed := set(iob2_labels(found))):
            raise RecipeError(f"task.label_names: expected {', '.join(sorted(needed))}, got {', '.join(found)}")
    if len(found) == 1:
        raise DataError(
            f"{table.source}: every word has the tag {found[0]!r}; expected at least two; --tag-column selects another "
            "column"
        )
    return scheme, found


def with_usual_tags(tags: list[list[str]]) -> tuple[list[list[str]], str]:
    """Returns tags in the form prefix, hyphen and type, see `in_usual_form`, and a note; empty if they have that form.

    Args:
        tags: tags of each sentence.

    >>> with_usual_tags([["o", "b-per"], ["i-per"]])
    ([['O', 'B-per'], ['I-per']], "tags such as 'b-per' are read as 'B-per'")
    """
    forms = in_usual_form(sorted({tag for of_sentence in tags for tag in of_sentence}))
    changed = [tag for tag, form in forms.items() if tag != form]
    if not changed:
        return tags, ""
    note = f"tags such as {shown(changed[0])} are read as {shown(forms[changed[0]])}"
    return [[forms[tag] for tag in of_sentence] for of_sentence in tags], note


def line_on_labels(scheme: Scheme, counts: Mapping[str, int]) -> str:
    """Returns a sentence on what the tags of a training set were taken for, with the classes and their counts.

    Args:
        scheme: the scheme.
        counts: number of entities of each type, or of words of each plain tag.

    >>> line_on_labels("IOB1", {"LOC": 2, "PER": 1})
    "tags in IOB1, converted to IOB2: 2 types of entities ('LOC' 2, 'PER' 1)"
    """
    if scheme == "plain":
        line = f"plain tags, which mark no entities: {len(counts)} classes ({listed(counts)})"
    else:
        types = "1 type" if len(counts) == 1 else f"{len(counts)} types"
        line = f"{_named(scheme)}: {types} of entities ({listed(counts)})"
    return "; ".join([line, *warnings_of_look_alikes(counts, counts)])


def _named(scheme: Scheme) -> str:
    return f"tags in {scheme}" + ("" if scheme == "IOB2" else ", converted to IOB2")


def label_ids(table: Table, tags: Sequence[Sequence[str]], names: Sequence[str], scheme: Scheme) -> list[list[int]]:
    """Converts tags to label ids.

    Args:
        table: table of sentences.
        tags: tags of each sentence, plain or in any entity scheme.
        names: label names in the order of their ids.
        scheme: scheme of the training set.

    Raises:
        DataError: a tag has no label; the message names at most ten such places.
    """
    ids = {name: index for index, name in enumerate(names)}
    faults: list[str] = []
    found: list[list[int]] = []
    for row, of_row in enumerate(tags):
        readable = [scheme == "plain" or not fault_of_tag(tag) for tag in of_row]
        written = of_row
        if scheme != "plain":
            written = to_iob2([tag if fine else OUTSIDE for tag, fine in zip(of_row, readable, strict=True)])
        faults += [
            f"{place_of_word(table, row, word)}: tag {shown(of_row[word])} has no label in the training set; "
            "correct it, or list all labels in task.label_names"
            for word, (tag, fine) in enumerate(zip(written, readable, strict=True))
            if not fine or tag not in ids
        ]
        found.append([ids.get(tag, 0) for tag in written])
    raise_listed(faults)
    return found


def notes_on_tags(table: Table, tags: Sequence[Sequence[str]], scheme: Scheme) -> list[str]:
    """Returns notes on the tags of a table: their scheme, and where they violate its rules."""
    if scheme == "plain":
        return []
    notes = [_named(scheme)]
    wrong = [
        f"{place_of_word(table, row, word)}: {what}"
        for row, of_row in enumerate(tags)
        for word, what in find_impossible(of_row, scheme)
    ]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN_IMPOSSIBLE} more" if len(wrong) > _SHOWN_IMPOSSIBLE else ""
        notes.append(
            f"warning: tags violate the rules of {scheme} in {len(wrong)} places, where they are read as by conlleval "
            f"(a tag that cannot continue an entity begins one): {'; '.join(wrong[:_SHOWN_IMPOSSIBLE])}{more}"
        )
    return notes
