"""Tags of words: entity tagging schemes, their detection and conversion to IOB2, and the labels made from tags.

In all schemes a tag is ``O``, or a prefix and a type.

=========  ============================================================================================================
``IOB1``   I within an entity; B only where an entity follows another of its type without a word between them
``IOB2``   B on the first word of every entity, I on the others
``IOBES``  as IOB2, but E on the last word, and S on an entity of one word
``BILOU``  the same with L for E, and U for S
``plain``  no entities: each tag is a class, such as a part of speech
=========  ============================================================================================================

IOB1 is from Ramshaw and Marcus 1995, "Text chunking using transformation-based learning"; the names are from Tjong Kim
Sang and Veenstra 1999, "Representing text chunks".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

from bertkit.data.tables import Table
from bertkit.data.tables.labels import list_counts, warnings_of_look_alikes
from bertkit.metrics.entities import OUTSIDE, PREFIXES, find_entities, is_entity_tag, split_tag
from bertkit.runtime.errors import DataError, RecipeError, raise_listed, shown
from bertkit.runtime.progress import counted
from bertkit.tasks.ner.sentences import place_of_word

Scheme = Literal["IOB1", "IOB2", "IOBES", "BILOU", "plain"]

_SEPARATED = re.compile(rf"([{''.join(PREFIXES)}])(?:[-_:./|](.*\S.*))?", re.IGNORECASE)  # b-per, B_PER, b
_SUFFIXED = re.compile(rf"(.*\S.*)[-_:./|]([{''.join(PREFIXES)}])", re.IGNORECASE)  # PER-B
_SHOWN_IMPOSSIBLE = 3
_PREFIXES_OF = {"IOB1": "BIO", "IOB2": "BIO", "IOBES": "BIESO", "BILOU": "BILUO"}


def detect_scheme(sentences: Sequence[Sequence[str]], place: Callable[[int, int], str]) -> Scheme:
    """Detects the tagging scheme of a set of sentences.

    ``place`` returns the location of a word of a sentence, for error messages.

    Tags are ``plain`` if none of them has the form prefix-hyphen-type, unless they are bare prefixes including B. E or
    S implies IOBES, L or U implies BILOU. With B and I only, the scheme is IOB1 if most entities that do not follow
    another one of their type begin with I, else IOB2.

    Raises:
        DataError: as `check_tags`, for tags that are not plain; or E or S occurs together with L or U; the message
            names at most ten such places.

    >>> detect_scheme([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]], lambda sentence, word: "")
    'IOB1'
    >>> detect_scheme([["DT", "NN"], ["B-NN"]], lambda sentence, word: f"word {word}")
    Traceback (most recent call last):
    bertkit.runtime.errors.DataError: 2 faults:
      - word 0: tag 'DT' has none of the prefixes B, I, E, S, L, U, which other tags have, such as 'B-NN'
      - word 1: tag 'NN' has none of the prefixes B, I, E, S, L, U, which other tags have, such as 'B-NN'
    """
    tags = {tag for sentence in sentences for tag in sentence}
    prefixed = sorted(tag for tag in tags if "-" in tag and tag.partition("-")[0] in PREFIXES)
    if not prefixed and not ("B" in tags and tags <= {OUTSIDE, *PREFIXES}):
        return "plain"
    check_tags(sentences, place)
    prefixes = {tag.partition("-")[0] for tag in tags}
    if prefixes & {"E", "S"} and prefixes & {"L", "U"}:
        last = {tag for tag in tags if tag.partition("-")[0] in ("L", "U")}
        why = "is from BILOU, but other tags are from IOBES; use one scheme"
        _raise_at(dict.fromkeys(last, why), sentences, place)
    if prefixes & {"E", "S"}:
        return "IOBES"
    if prefixes & {"L", "U"}:
        return "BILOU"
    begun_by = [
        prefix
        for sentence in sentences
        for (prefix_before, kind_before), (prefix, kind) in pairwise(map(split_tag, [OUTSIDE, *sentence]))
        if prefix != OUTSIDE and (prefix_before == OUTSIDE or kind != kind_before)
    ]
    return "IOB1" if begun_by.count("I") > begun_by.count("B") else "IOB2"


def in_usual_form(tags: Collection[str]) -> dict[str, str]:
    """Returns entity tags of another form in the usual one, prefix, hyphen and type, by tag.

    Other forms have a prefix in lower case (``b-per``), another separator (``B_PER``), or the prefix at the end
    (``PER-B``). All tags but ``O`` or ``o``, which must be there, are of one such form; otherwise, as for plain tags,
    the result is empty.

    >>> in_usual_form(["b-per", "i-per", "o"])
    {'b-per': 'B-per', 'i-per': 'I-per', 'o': 'O'}
    >>> in_usual_form(["PER-B", "PER-I", "O"]), in_usual_form(["B-PER", "O"]), in_usual_form(["DT", "NN-S"])
    ({'PER-B': 'B-PER', 'PER-I': 'I-PER', 'O': 'O'}, {}, {})
    """
    others = [tag for tag in tags if tag not in (OUTSIDE, OUTSIDE.lower())]
    if len(others) == len(tags) or any("-" in tag and is_entity_tag(tag) for tag in others):
        return {}
    parts = [match.groups(default="") for tag in others if (match := _SEPARATED.fullmatch(tag))]
    if len(parts) < len(others):
        parts = [match.groups()[::-1] for tag in others if (match := _SUFFIXED.fullmatch(tag))]
    if len(parts) < len(others) or (parts and not {"B", "I", "S", "U"} & {prefix.upper() for prefix, _ in parts}):
        return {}
    usual = {tag: joined_tag(prefix.upper(), kind) for tag, (prefix, kind) in zip(others, parts, strict=True)}
    forms = {tag: usual.get(tag, OUTSIDE) for tag in tags}
    return {} if all(tag == form for tag, form in forms.items()) else forms


def check_tags(sentences: Sequence[Sequence[str]], place: Callable[[int, int], str]) -> None:
    """Checks that every tag is ``O``, a prefix, or a prefix, a hyphen and a type.

    Raises:
        DataError: a tag has no prefix, or no type after its hyphen; the message names at most ten such places.
    """
    tags = {tag for sentence in sentences for tag in sentence}
    wrong = {tag: fault for tag in tags if (fault := fault_of_tag(tag))}
    usual = min((tag for tag in tags - wrong.keys() if "-" in tag), default=None)
    such_as = f", which other tags have, such as {usual!r}" if usual else ""
    _raise_at({tag: f"{fault}{such_as}" for tag, fault in wrong.items()}, sentences, place)


def fault_of_tag(tag: str) -> str:
    """Returns what is wrong with an entity tag of any scheme; empty if nothing is.

    >>> fault_of_tag("B-PER"), fault_of_tag("B"), fault_of_tag("B-")
    ('', '', 'has no type after its hyphen')
    """
    if not is_entity_tag(tag):
        return f"has none of the prefixes {', '.join(PREFIXES)}"
    return "has no type after its hyphen" if "-" in tag and not split_tag(tag)[1].strip() else ""


def fault_of_labels(names: Sequence[str]) -> str:
    """Returns what is wrong with the labels of entities; empty if they are the complete IOB2 labels of their types.

    >>> fault_of_labels(["O", "B-PER"])
    'expected B-PER, I-PER, O, got O, B-PER'
    """
    for name in names:
        if fault := fault_of_tag(name):
            return f"{shown(name)} {fault}"
    needed = sorted(iob2_labels(names))
    return "" if needed == sorted(names) else f"expected {', '.join(needed)}, got {', '.join(names)}"


def find_impossible(tags: Sequence[str], scheme: Scheme) -> list[tuple[int, str]]:
    """Returns word, from 0, and description of each violation of a scheme's rules in the tags of a sentence.

    Raises:
        DataError: a tag has no prefix, as in `split_tag`.

    >>> find_impossible(["O", "I-PER", "I-LOC"], "IOB2")
    [(1, 'I-PER after O'), (2, 'I-LOC after I-PER')]
    >>> find_impossible(["B-PER", "O", "I-PER"], "IOBES")
    [(1, 'O after B-PER'), (2, 'I-PER after O'), (2, 'I-PER at the end of a sentence')]
    """
    if scheme == "plain":
        return []
    faults = []
    ends = "EL" if scheme in ("IOBES", "BILOU") else ""
    for word, (before, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        (prefix_before, kind_before), (prefix, kind) = split_tag(before), split_tag(tag)
        continues = prefix in ("I", *ends)
        if ends:  # I, E and L follow B or I of the same type, and only these
            wrong = continues != (prefix_before in ("B", "I")) or (continues and kind != kind_before)
        elif scheme == "IOB2":
            wrong = continues and (prefix_before == OUTSIDE or kind != kind_before)
        else:
            wrong = prefix == "B" and (prefix_before == OUTSIDE or kind != kind_before)
        if prefix not in _PREFIXES_OF[scheme]:
            faults.append((word, f"{tag}, which is not a tag of {scheme}"))
        elif wrong and word == len(tags):
            faults.append((word - 1, f"{before} at the end of a sentence"))
        elif wrong:
            faults.append((word, f"{tag} {f'after {before}' if word else 'at the start of a sentence'}"))
    return faults


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Converts entity tags of any scheme to IOB2; DataError if a tag has no prefix, as in `split_tag`.

    Tags that violate the rules of their scheme are interpreted as by conlleval
    (`bertkit.metrics.entities.find_entities`): a tag that cannot continue an entity begins one.

    >>> to_iob2(["I-PER", "I-PER", "B-PER", "O", "S-LOC"])
    ['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']
    """
    written = [OUTSIDE] * len(tags)
    for kind, start, end in find_entities(tags):
        written[start:end] = [joined_tag("B", kind), *[joined_tag("I", kind)] * (end - start - 1)]
    return written


def inside(tag: str) -> str:
    """Returns the tag of the other pieces of a word: I for an entity that begins with it, else the same tag.

    >>> inside("B-PER"), inside("I-PER"), inside("O")
    ('I-PER', 'I-PER', 'O')
    """
    prefix, kind = split_tag(tag)
    return joined_tag("I", kind) if prefix == "B" else tag


def iob2_labels(tags: Iterable[str]) -> list[str]:
    """Returns the IOB2 labels for tags of any scheme: ``O``, then B and I of each type, in alphabetical order.

    Raises:
        DataError: a tag has no prefix, as in `split_tag`.

    >>> iob2_labels(["S-PER", "O", "I-LOC"])
    ['O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER']
    """
    kinds = sorted({kind for prefix, kind in map(split_tag, tags) if prefix != OUTSIDE})
    return [OUTSIDE, *(joined_tag(prefix, kind) for kind in kinds for prefix in ("B", "I"))]


def joined_tag(prefix: str, kind: str) -> str:
    """Returns the tag of a prefix and a type, which may be empty."""
    return f"{prefix}-{kind}" if kind else prefix


def _raise_at(wrong: Mapping[str, str], sentences: Sequence[Sequence[str]], place: Callable[[int, int], str]) -> None:
    """Raises one DataError for the places of wrong tags, given as tag → fault, if there are any."""
    raise_listed(
        [
            f"{place(number, word)}: tag {shown(tag)} {wrong[tag]}"
            for number, sentence in enumerate(sentences)
            for word, tag in enumerate(sentence)
            if tag in wrong
        ]
    )


# ---- labels ------------------------------------------------------------------------------------------------------


def find_labels(
    table: Table, column: str, tags: Sequence[Sequence[str]], scheme: Scheme | None, names: Sequence[str]
) -> tuple[Scheme, list[str]]:
    """Determines the tagging scheme of a training set, and its labels in the order of their ids.

    A ``scheme`` and ``names`` of the labels that are given are used; None and no names are detected from the tags.

    Entity labels are in IOB2, for each type that occurs or that the table declares. Plain tags are labels as they are,
    the most frequent first, since without ``O`` the first label is predicted for words without pieces.

    Raises:
        DataError: the tags fit no scheme, a tag is not one of an entity scheme, or there is only one label.
        RecipeError: ``names`` are given and are not the complete IOB2 labels of their types, or only one plain tag.
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
        labels = list(names) or sorted(counts, key=lambda tag: (-counts[tag], tag))
    else:
        labels = list(names) or iob2_labels(counts)
        if fault := fault_of_labels(labels):
            raise RecipeError(f"task.label_names: {fault}")
    if len(labels) == 1 and names:
        raise RecipeError(f"task.label_names: only {names[0]!r}; expected at least two labels")
    if len(labels) == 1:
        raise DataError(
            f"{table.source}: every word has the tag {labels[0]!r}; expected at least two; --tag-column selects "
            "another column"
        )
    return scheme, labels


def with_usual_tags(tags: list[list[str]]) -> tuple[list[list[str]], str]:
    """Returns tags in the form prefix, hyphen and type, see `in_usual_form`, and a note; empty if they have that form.

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

    ``counts`` are the numbers of entities of each type, or of words of each plain tag.

    >>> line_on_labels("IOB1", {"LOC": 2, "PER": 1})
    "tags in IOB1, converted to IOB2: 2 types of entities ('LOC' 2, 'PER' 1)"
    >>> line_on_labels("IOB2", {})
    'tags in IOB2: no entities'
    """
    if scheme == "plain":
        line = f"plain tags, which mark no entities: {len(counts)} classes ({list_counts(counts)})"
    else:
        types = f"{counted(len(counts), 'type')} of entities ({list_counts(counts)})" if counts else "no entities"
        line = f"{name_of_scheme(scheme)}: {types}"
    return "; ".join([line, *warnings_of_look_alikes(counts, counts)])


def name_of_scheme(scheme: Scheme) -> str:
    """Returns a note on the scheme of tags."""
    return f"tags in {scheme}" + ("" if scheme == "IOB2" else ", converted to IOB2")


def label_ids(table: Table, tags: Sequence[Sequence[str]], names: Sequence[str], scheme: Scheme) -> list[list[int]]:
    """Converts the tags of each sentence, plain or in any entity scheme, to ids of the labels ``names``.

    Raises:
        DataError: a tag has no label; the message names at most ten such places.
    """
    ids = {name: index for index, name in enumerate(names)}
    faults: list[str] = []
    ids_of_rows: list[list[int]] = []
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
        ids_of_rows.append([ids.get(tag, 0) for tag in written])
    raise_listed(faults)
    return ids_of_rows


def note_on_impossible(table: Table, tags: Sequence[Sequence[str]], scheme: Scheme) -> str:
    """Returns a note on the places where tags violate the rules of their scheme; empty if there are none."""
    places = [
        f"{place_of_word(table, row, word)}: {what}"
        for row, of_row in enumerate(tags)
        for word, what in find_impossible(of_row, scheme)
    ]
    if not places:
        return ""
    more = f"; and {len(places) - _SHOWN_IMPOSSIBLE} more" if len(places) > _SHOWN_IMPOSSIBLE else ""
    return (
        f"tags violate the rules of {scheme} in {counted(len(places), 'place')}, where they are read as by conlleval "
        f"(a tag that cannot continue an entity begins one): {'; '.join(places[:_SHOWN_IMPOSSIBLE])}{more}"
    )
