"""The words around a sentence, in its document."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

Words = list[str]


def neighbours(
    sentences: Sequence[Words], documents: Sequence[Hashable], at_most: int
) -> tuple[list[Words], list[Words]]:
    """For every sentence the words before it and those after it in the same document, the nearest ``at_most`` of each.

    Args:
        sentences: words.
        documents: which document each is of; sentences of one document follow each other.
        at_most: words on each side.

    >>> neighbours([["a", "b"], ["c"], ["d"]], [0, 0, 1], at_most=1)
    ([[], ['b'], []], [['c'], [], []])
    """
    before: list[Words] = []
    after: list[Words] = []
    for _, group in groupby(range(len(sentences)), key=lambda row: documents[row]):
        rows = list(group)
        words = [word for row in rows for word in sentences[row]]
        start = 0
        for row in rows:
            end = start + len(sentences[row])
            before.append(words[max(0, start - at_most) : start])
            after.append(words[end : end + at_most])
            start = end
    return before, after
