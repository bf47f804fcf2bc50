"""Document context of sentences: neighbouring words, and windows that include as many of them as fit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

from bertkit.tasks.windows import Window

Words = list[str]


def neighbours(
    sentences: Sequence[Words], documents: Sequence[Hashable], at_most: int
) -> tuple[list[Words], list[Words]]:
    """Returns for each sentence the nearest ``at_most`` words before it and after it in the same document.

    Args:
        sentences: words of the sentences.
        documents: document id of each sentence; the sentences of a document are consecutive.
        at_most: maximum number of words on each side.

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


def widened(sentence: Window, room: int, length: int) -> Window:
    """Extends the window of a sentence on both sides up to ``room`` tokens, equally where the text allows it.

    Args:
        sentence: window of at most ``room`` tokens.
        room: maximum tokens of the window.
        length: tokens of the text that contains the sentence.

    >>> widened(Window(10, 14), 10, 100), widened(Window(1, 5), 10, 100), widened(Window(2, 4), 10, 5)
    (Window(start=7, end=17), Window(start=0, end=10), Window(start=0, end=5))
    """
    spare = room - (sentence.end - sentence.start)
    after = min(length - sentence.end, max(spare - spare // 2, spare - sentence.start))
    start = max(0, sentence.start - (spare - after))
    return Window(start, sentence.end + after)
