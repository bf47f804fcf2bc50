"""Tags of words → entities, by the rules of CoNLL's evaluation script, and the scores of entities.

A tag is ``O``, or a prefix and a type with a hyphen between them: ``B-PER``. The rules are those of ``conlleval``, the
script of the CoNLL-2000 shared task (Tjong Kim Sang and Buchholz 2000): an entity counts as found when its type, its
first and its last word are right. They read IOB1, IOB2, IOBES and BILOU alike, and every sequence of tags, also one
that no scheme allows, has exactly one reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bertkit.errors import DataError

OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S", "L", "U")
"""Begin, inside, end, single; BILOU writes last for end and unit for single."""

_LASTS_WITHIN = ("B", "I")  # an entity whose last word has one of these can go on
_GOES_ON = ("I", "E", "L")


class Entity(NamedTuple):
    """Words of one sentence that have a type together.

    Attributes:
        type: what stands after the prefix; empty for a prefix alone.
        start: its first word, from 0.
        end: the word after its last.
    """

    type: str
    start: int
    end: int


class Counts(NamedTuple):
    """Entities, counted.

    Attributes:
        right: predicted with type, first and last word as in the reference.
        predicted: all predicted.
        actual: all of the references.
    """

    right: int
    predicted: int
    actual: int

    def scores(self) -> tuple[float, float, float]:
        """Precision, recall and F1, in [0, 1]; 0 where the divisor is.

        >>> [round(score, 3) for score in Counts(right=2, predicted=4, actual=3).scores()]
        [0.5, 0.667, 0.571]
        """
        return (
            self.right / max(self.predicted, 1),
            self.right / max(self.actual, 1),
            2 * self.right / max(self.predicted + self.actual, 1),
        )


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is ``O`` or begins with a prefix.

    >>> is_entity_tag("B-PER"), is_entity_tag("O"), is_entity_tag("NN"), is_entity_tag("O-PER")
    (True, True, False, False)
    """
    return tag == OUTSIDE or tag.partition("-")[0] in PREFIXES


def split_tag(tag: str) -> tuple[str, str]:
    """The prefix and the type of a tag; the type is all that follows the first hyphen.

    Raises:
        DataError: it is neither ``O`` nor does it begin with a prefix.

    >>> split_tag("B-geo-loc"), split_tag("O")
    (('B', 'geo-loc'), ('O', ''))
    """
    prefix, _, kind = tag.partition("-")
    if is_entity_tag(tag):
        return prefix, kind
    raise DataError(f"tag {tag!r}; expected {OUTSIDE}, or one of {', '.join(PREFIXES)}, a hyphen and a type")


def find_entities(tags: Sequence[str], strict: bool = False) -> list[Entity]:
    """The entities of a sentence, in their order.

    An entity goes on over a word whose prefix is I, E or L, if the word before it has the same type and the prefix B or
    I. Every other word with a prefix begins one: so does I after O or after another type.

    Args:
        tags: one a word.
        strict: only B begins an entity and only I goes on, as IOB2 has it: I after O or after another type, and words
            with other prefixes, belong to no entity.

    Raises:
        DataError: as `split_tag`.

    >>> find_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"])  # doctest: +NORMALIZE_WHITESPACE
    [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=3, end=4), Entity(type='LOC', start=4, end=5),
     Entity(type='PER', start=5, end=6)]
    >>> find_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"], strict=True)
    [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=4, end=5)]
    """
    found: list[Entity] = []
    begins, goes_on = (("B",), ("I",)) if strict else (PREFIXES, _GOES_ON)
    open_type: str | None = None  # of the entity that the word before can be followed in
    for word, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if prefix in goes_on and kind == open_type:
            found[-1] = found[-1]._replace(end=word + 1)
        elif prefix in begins:
            found.append(Entity(kind, word, word + 1))
        else:
            prefix = OUTSIDE
        open_type = kind if prefix in _LASTS_WITHIN else None
    return found


def count_entities(
    predictions: Iterable[Sequence[str]], references: Iterable[Sequence[str]], strict: bool = False
) -> dict[str, Counts]:
    """Counts by type, for the types that occur in predictions or references, in the order of the alphabet.

    Args:
        predictions, references: the tags of each sentence.
        strict: as in `find_entities`.

    Raises:
        DataError: as `split_tag`.
    """
    right: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    actual: Counter[str] = Counter()
    for given, expected in zip(predictions, references, strict=True):
        found, true = set(find_entities(given, strict)), set(find_entities(expected, strict))
        for counter, entities in ((right, found & true), (predicted, found), (actual, true)):
            counter.update(entity.type for entity in entities)
    return {kind: Counts(right[kind], predicted[kind], actual[kind]) for kind in sorted(predicted | actual)}
