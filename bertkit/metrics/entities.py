"""Entities from the tags of words, by the rules of CoNLL's evaluation script, and their scores.

A tag is ``O``, or a prefix and a type with a hyphen between them: ``B-PER``. The rules are those of ``conlleval``, the
script of the CoNLL-2000 shared task (Tjong Kim Sang and Buchholz 2000): an entity is correct if its type, first word
and last word are. The same rules read IOB1, IOB2, IOBES and BILOU, and give every sequence of tags exactly one reading,
including sequences that no scheme allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from bertkit.runtime.errors import DataError, shown

OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S", "L", "U")
"""Begin, inside, end, single; BILOU has last for end and unit for single."""

_LASTS_WITHIN = ("B", "I")  # after a word with one of these prefixes an entity can continue
_CONTINUATION = ("I", "E", "L")


class Entity(NamedTuple):
    """Consecutive words of one sentence that form an entity.

    Attributes:
        type: the part of the tag after the prefix; empty for a prefix alone.
        start: index of its first word, from 0.
        end: index after its last word.
    """

    type: str
    start: int
    end: int


class Counts(NamedTuple):
    """Numbers of entities.

    Attributes:
        right: predicted entities whose type, first and last word are those of the reference.
        predicted: all predicted entities.
        actual: all entities of the references.
    """

    right: int
    predicted: int
    actual: int

    def scores(self) -> tuple[float, float, float]:
        """Computes precision, recall and F1, in [0, 1]; 0 where the divisor is 0.

        >>> [round(score, 3) for score in Counts(right=2, predicted=4, actual=3).scores()]
        [0.5, 0.667, 0.571]
        """
        return (
            self.right / max(self.predicted, 1),
            self.right / max(self.actual, 1),
            2 * self.right / max(self.predicted + self.actual, 1),
        )


def is_entity_tag(tag: str) -> bool:
    """Returns whether a tag is ``O`` or begins with a prefix.

    >>> is_entity_tag("B-PER"), is_entity_tag("O"), is_entity_tag("NN"), is_entity_tag("O-PER")
    (True, True, False, False)
    """
    return tag == OUTSIDE or tag.partition("-")[0] in PREFIXES


def split_tag(tag: str) -> tuple[str, str]:
    """Splits a tag into prefix and type; the type is everything after the first hyphen.

    Raises:
        DataError: the tag is not ``O`` and does not begin with a prefix.

    >>> split_tag("B-geo-loc"), split_tag("O")
    (('B', 'geo-loc'), ('O', ''))
    """
    prefix, _, kind = tag.partition("-")
    if is_entity_tag(tag):
        return prefix, kind
    raise DataError(f"tag {tag!r}; expected {OUTSIDE}, or one of {', '.join(PREFIXES)}, a hyphen and a type")


def find_entities(tags: Sequence[str], strict: bool = False) -> list[Entity]:
    """Returns the entities of a sentence, in order; raises as `split_tag`.

    A word with prefix I, E or L continues an entity if the word before it has the same type and prefix B or I. Every
    other word with a prefix begins an entity, including I after O or after another type.

    Args:
        tags: one tag per word.
        strict: as in IOB2, only B begins an entity and only I continues one: I after O or after another type, and words
            with other prefixes, belong to no entity.

    >>> find_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"])  # doctest: +NORMALIZE_WHITESPACE
    [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=3, end=4), Entity(type='LOC', start=4, end=5),
     Entity(type='PER', start=5, end=6)]
    >>> find_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"], strict=True)
    [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=4, end=5)]
    """
    entities: list[Entity] = []
    begins, continues = (("B",), ("I",)) if strict else (PREFIXES, _CONTINUATION)
    open_type: str | None = None  # type of the entity that the current word may continue
    for word, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if prefix in continues and kind == open_type:
            entities[-1] = entities[-1]._replace(end=word + 1)
        elif prefix in begins:
            entities.append(Entity(kind, word, word + 1))
        else:
            prefix = OUTSIDE
        open_type = kind if prefix in _LASTS_WITHIN else None
    return entities


def count_entities(
    predictions: Iterable[Sequence[str]], references: Iterable[Sequence[str]], strict: bool = False
) -> dict[str, Counts]:
    """Counts entities by type, in alphabetical order, for the types that occur in predictions or references.

    Args:
        predictions, references: the tags of each sentence.
        strict: as in `find_entities`.

    Raises:
        DataError: as `split_tag`.
    """
    right: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    actual: Counter[str] = Counter()
    for tags, expected in zip(predictions, references, strict=True):
        own, true = set(find_entities(tags, strict)), set(find_entities(expected, strict))
        for counter, entities in ((right, own & true), (predicted, own), (actual, true)):
            counter.update(entity.type for entity in entities)
    return {kind: Counts(right[kind], predicted[kind], actual[kind]) for kind in sorted(predicted | actual)}


def score_entities(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], strict: bool = False
) -> tuple[dict[str, float], dict[str, Counts]]:
    """Computes ``overall_precision``, ``overall_recall``, ``overall_f1`` and ``overall_accuracy``, the share of words
    with the right tag, all in [0, 1]; and counts the entities by type as `count_entities`.

    Args:
        predictions, references: the tags of each sentence, as many in both.
        strict: as in `find_entities`.

    Raises:
        DataError: as `split_tag`; or there are no words.
    """
    sentences = zip(predictions, references, strict=True)
    are_right = [tag == expected for pair in sentences for tag, expected in zip(*pair, strict=True)]
    if not are_right:
        raise DataError("nothing to score: there is no word in any sentence")
    counts = count_entities(predictions, references, strict)
    overall = Counts(*map(sum, zip(*counts.values(), strict=True))) if counts else Counts(0, 0, 0)
    scores = dict(zip(("overall_precision", "overall_recall", "overall_f1"), overall.scores(), strict=True))
    return scores | {"overall_accuracy": sum(are_right) / len(are_right)}, counts


def seqeval(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    mode: str | None = None,
    scheme: str | None = None,
) -> dict[str, Any]:
    """Computes precision, recall and F1 of entities, and the fraction of words with the right tag, all in [0, 1].

    Results are those of the evaluate library's ``seqeval``, with five differences: a score whose divisor is 0 is 0
    without a warning, a tag without a prefix is an error, L and U are read as E and S, the type of a prefix alone is
    empty, and what IOB2 does not allow, such as E, is no entity with ``strict`` and no error.

    Args:
        predictions, references: the tags of each sentence.
        mode, scheme: ``strict`` and ``IOB2`` count only entities that IOB2 allows.

    Returns:
        ``overall_precision``, ``overall_recall``, ``overall_f1`` and ``overall_accuracy``, and for each type a
        dictionary of ``precision``, ``recall``, ``f1`` and ``number`` (of entities in the references).

    Raises:
        ValueError: predictions and references differ in their number of sentences, or a sentence in its number of tags;
            a tag is no text, such as an id; or ``mode`` and ``scheme`` are neither both omitted nor ``strict`` and
            ``IOB2``.
        DataError: a tag has no prefix, or there are no words.
    """
    if (mode, scheme) not in ((None, None), ("strict", "IOB2")):
        raise ValueError(f"mode {mode!r} with scheme {scheme!r}; expected neither, or 'strict' with 'IOB2'")
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} sentences are predicted for {len(references)}")
    for number, (tags, expected) in enumerate(zip(predictions, references, strict=True)):
        if len(tags) != len(expected):
            raise ValueError(f"sentence {number}: {len(tags)} tags are predicted for {len(expected)} words")
        for tag in (*tags, *expected):
            if not isinstance(tag, str):
                raise ValueError(f"sentence {number}: a tag is {shown(tag)}; expected text, such as 'B-PER'")
    overall, counts = score_entities(predictions, references, strict=mode == "strict")
    of_types: dict[str, Any] = {}
    for kind, of_kind in counts.items():
        precision, recall, f1 = of_kind.scores()
        of_types[kind] = {"precision": precision, "recall": recall, "f1": f1, "number": of_kind.actual}
    return of_types | overall
