"""Duplicates among the documents of a corpus; the first document of its kind is kept.

``exact``: the paragraphs are equal, white space at their ends aside. ``minhash``: near duplicates, by MinHash with
locality-sensitive hashing (Broder 1997) of the library datasketch, on the character 5-grams of the paragraphs, for an
estimated Jaccard similarity of at least 0.8 (Lee et al. 2022, arXiv:2107.06499).

Both need a pass over the text in one process, and memory for each document: about 100 bytes with ``exact``, some
kilobytes with ``minhash``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from bertkit.corpus.building.settings import Deduplication
from bertkit.corpus.documents import Paragraph
from bertkit.errors import RecipeError
from bertkit.reading.text_files import iterating

_DIGEST = 16  # bytes; two of 10¹² documents collide with a probability of 10⁻¹⁵
_SIMILAR, _PERMUTATIONS, _GRAM = 0.8, 64, 5


class _Seen(Protocol):
    """Documents seen so far."""

    def extend(self, text: str) -> None:
        """Adds a paragraph to the current document."""

    def is_known(self) -> bool:
        """Ends the current document; returns whether an earlier one is its duplicate."""


def repeated_documents(paragraphs: Iterable[Paragraph], rule: Deduplication) -> frozenset[int]:
    """Returns the numbers of the documents that repeat an earlier one.

    Raises:
        RecipeError: the package that ``minhash`` needs is not installed.
        Exception: any exception of ``paragraphs``.

    >>> texts = [Paragraph("One.", True), Paragraph("Two.", True), Paragraph("One.", True)]
    >>> sorted(repeated_documents(texts, "exact"))
    [2]
    """
    seen: _Seen = _Exact() if rule == "exact" else _MinHashed()
    repeated: set[int] = set()
    number = -1
    for text, starts_document in paragraphs:
        if starts_document:
            if number >= 0 and seen.is_known():
                repeated.add(number)
            number += 1
        seen.extend(text)
    if number >= 0 and seen.is_known():
        repeated.add(number)
    return frozenset(repeated)


def without_documents(paragraphs: Iterable[Paragraph], left_out: frozenset[int]) -> Iterator[Paragraph]:
    """Yields the paragraphs of the documents whose numbers are not in ``left_out``."""
    number = -1
    with iterating(paragraphs) as remaining:
        for paragraph in remaining:
            number += paragraph.starts_document
            if number not in left_out:
                yield paragraph


class _Exact:
    def __init__(self) -> None:
        self._digests: set[bytes] = set()
        self._current = hashlib.blake2b(digest_size=_DIGEST)

    def extend(self, text: str) -> None:
        self._current.update(text.encode("utf-8", "surrogatepass") + b"\n")

    def is_known(self) -> bool:
        digest = self._current.digest()
        self._current = hashlib.blake2b(digest_size=_DIGEST)
        known = digest in self._digests
        self._digests.add(digest)
        return known


class _MinHashed:
    def __init__(self) -> None:
        try:
            import datasketch
        except ImportError as error:
            raise RecipeError(
                "deduplicate: minhash needs the package datasketch: pip install 'bertkit[checks]'"
            ) from error
        self._new: Any = partial(datasketch.MinHash, _PERMUTATIONS)
        self._index: Any = datasketch.MinHashLSH(_SIMILAR, _PERMUTATIONS)
        self._kept: dict[int, Any] = {}
        self._current: Any = self._new()

    def extend(self, text: str) -> None:
        grams = {text[start : start + _GRAM] for start in range(max(len(text) - _GRAM + 1, 1))}
        self._current.update_batch([gram.encode("utf-8", "surrogatepass") for gram in grams])

    def is_known(self) -> bool:
        current, self._current = self._current, self._new()
        known = any(self._kept[other].jaccard(current) >= _SIMILAR for other in self._index.query(current))
        if not known:
            number = len(self._kept)
            self._kept[number] = current
            self._index.insert(number, current)
        return known
