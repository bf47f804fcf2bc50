"""Choice of the merges that shorten a corpus most, for byte-level BPE.

BPE merges the pair of neighbouring pieces whose merge comes first in its list, until no pair is in the list. Merges at
the end of the list are made when all old ones have been made: they join the pieces of the old vocabulary, and a word in
which none of them is made is split as before. Each merge adds one piece, so that a word of several pieces needs the
pieces between.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from bertkit.data.corpus.vocabulary.likelihood import Segmentation
from bertkit.features.adaptation.pieces import NewPiece, Split
from bertkit.runtime.progress import Reached, unreported


def choose_merges(
    words: Mapping[str, int],
    split: Split,
    vocabulary: Iterable[str],
    number: int,
    min_frequency: int,
    progress: Reached = unreported,
) -> tuple[list[NewPiece], list[tuple[str, str]]]:
    """Chooses merges for up to ``number`` new pieces, most frequent pairs first; two merges can make the same piece.

    The count of a pair is the number of pieces that its merge saves. Ties go to the pair that comes first in code point
    order. Pairs that would make a piece of the old vocabulary, which its own merges do not make here, are left out.

    Args:
        words: word → number of occurrences.
        split: splits a word by the old vocabulary.
        vocabulary: the old pieces.
        number: maximum number of pieces, at least 0.
        min_frequency: minimum count of a pair, at least 1.
        progress: is called with the number of pieces, and with ``number``.
    """
    old = frozenset(vocabulary)
    # Words with unknown characters, or with bytes in place of characters, are left out.
    segmentation = Segmentation(
        (pieces, count) for word, count in words.items() if "".join(pieces := split(word)) == word
    )
    counts, pieces = segmentation.pair_counts, segmentation.pieces
    parts: dict[str, tuple[str, ...]] = {piece: (piece,) for piece in pieces}
    merges: list[tuple[str, str]] = []
    added: list[NewPiece] = []

    def entry(pair: tuple[int, int]) -> tuple[int, tuple[str, str], tuple[int, int]]:
        return -counts[pair], (pieces[pair[0]], pieces[pair[1]]), pair

    waiting = [entry(pair) for pair in counts]
    heapq.heapify(waiting)
    while waiting and len(added) < number:
        negative, (left, right), pair = heapq.heappop(waiting)
        count = counts.get(pair, 0)
        if left + right in old or count < min_frequency:
            continue
        if count != -negative:  # the place in the queue is that of an earlier count
            heapq.heappush(waiting, entry(pair))
            continue
        merges.append((left, right))
        if left + right not in parts:
            parts[left + right] = parts[left] + parts[right]
            added.append(NewPiece(left + right, parts[left + right]))
            progress(len(added), number)
        for touched in segmentation.merge(pair):
            if counts.get(touched, 0) >= min_frequency:
                heapq.heappush(waiting, entry(touched))
    return added, merges
