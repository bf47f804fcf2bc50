"""Filters of the documents of a store: duplicates, of which the first document is kept, and short documents.

``exact``: the paragraphs are equal, white space at their ends aside. ``minhash``: near duplicates, by MinHash with
locality-sensitive hashing (Broder 1997) of the library datasketch, on the character 5-grams of the paragraphs, for an
estimated Jaccard similarity of at least 0.8 (Lee et al. 2022, arXiv:2107.06499).

Both need a pass over the text in one process, and memory for each document: about 100 bytes with ``exact``, some
kilobytes with ``minhash``.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from bertkit.corpus.documents import Paragraph
from bertkit.corpus.settings import Deduplication
from bertkit.corpus.store.encoding import EncodedBatch
from bertkit.errors import RecipeError
from bertkit.reading.text import iterating

_DIGEST = 16  # bytes; two of 10¹² documents collide with a probability of 10⁻¹⁵
SIMILAR = 0.8  # Jaccard similarity of near duplicates
_PERMUTATIONS, _BANDS, _ROWS, _GRAM = 64, 9, 7, 5


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
        self._index = SimilarTexts(datasketch)
        self._kept: dict[int, Any] = {}
        self._current = self._index.sketch()

    def extend(self, text: str) -> None:
        self._index.add_grams(self._current, grams(text))

    def is_known(self) -> bool:
        current, self._current = self._current, self._index.sketch()
        known = any(self._kept[other].jaccard(current) >= SIMILAR for other in self._index.candidates(current))
        if not known:
            number = len(self._kept)
            self._kept[number] = current
            self._index.insert(number, current)
        return known


def grams(text: str) -> frozenset[str]:
    """Returns the character 5-grams of a text; a shorter text is its only one."""
    return frozenset(text[start : start + _GRAM] for start in range(max(len(text) - _GRAM + 1, 1)))


class SimilarTexts:
    """Index of texts by MinHash with locality-sensitive hashing: which earlier texts may be similar to a text.

    Args:
        datasketch: the package.
    """

    def __init__(self, datasketch: Any):
        # CRC-32 takes a third of the time of datasketch's default, SHA-1, which it shortens to 32 bits as well.
        self._empty = datasketch.MinHash(num_perm=_PERMUTATIONS, hashfunc=zlib.crc32)
        # More bands than datasketch's default for the threshold, since candidates are compared again: of 609 near
        # duplicates among 3,000 texts 32 are missed instead of 77.
        self._index = datasketch.MinHashLSH(num_perm=_PERMUTATIONS, params=(_BANDS, _ROWS))

    def sketch(self) -> Any:
        """Returns the sketch of an empty text."""
        return self._empty.copy()

    def add_grams(self, sketch: Any, added: Iterable[str]) -> None:
        """Adds 5-grams to a sketch."""
        sketch.update_batch([gram.encode("utf-8", "surrogatepass") for gram in added])

    def candidates(self, sketch: Any) -> list[int]:
        """Returns the numbers of the texts that may be similar, ascending."""
        return sorted(self._index.query(sketch))

    def insert(self, number: int, sketch: Any) -> None:
        """Adds a text under a number that no other text has."""
        self._index.insert(number, sketch, check_duplication=False)


def without_short(batches: Generator[EncodedBatch], min_tokens: int) -> Generator[EncodedBatch]:
    """Yields the batches without the documents that have fewer than ``min_tokens`` tokens.

    The sentences of a document that may continue in the next batch are held back until it has enough tokens, so memory
    grows by at most ``min_tokens`` tokens.

    Args:
        batches: the batches of a corpus, in order; closed at the end.
        min_tokens: with 1 the batches are unchanged.
    """
    with contextlib.closing(batches):
        if min_tokens == 1:
            yield from batches
            return
        held: EncodedBatch | None = None  # sentences of the open document, as a batch in which it is document 0
        kept_before = False  # whether sentences of the open document have been yielded
        for batch in batches:
            if held is not None:
                batch = _prepended(held, batch)
            counts = np.bincount(batch.documents, weights=batch.lengths, minlength=batch.num_documents + 1)
            kept = counts >= min_tokens
            kept[0] |= kept_before
            opened = batch.num_documents
            kept_before = bool(kept[opened])
            held = None if kept_before else _selected(batch, batch.documents == opened, 0)
            yield _selected(batch, kept[batch.documents], None)


def _selected(batch: EncodedBatch, sentences: np.ndarray, document: int | None) -> EncodedBatch:
    """Returns some sentences of a batch, all of document ``document`` if it is given."""
    tokens = batch.tokens[np.repeat(sentences, batch.lengths)]
    documents = batch.documents[sentences]
    if document is None:
        return EncodedBatch(tokens, batch.lengths[sentences], documents, batch.num_documents, batch.position)
    return EncodedBatch(tokens, batch.lengths[sentences], np.full_like(documents, document), 0, batch.position)


def _prepended(held: EncodedBatch, batch: EncodedBatch) -> EncodedBatch:
    return EncodedBatch(
        np.concatenate([held.tokens, batch.tokens]),
        np.concatenate([held.lengths, batch.lengths]),
        np.concatenate([held.documents, batch.documents]),
        batch.num_documents,
        batch.position,
    )
