"""Filters of the documents of a store: duplicates, of which the first document is kept, and short documents.

``exact``: the paragraphs are equal, white space at their ends aside. ``minhash``: near duplicates, by MinHash with
locality-sensitive hashing (Broder 1997) of the library datasketch, on the character 5-grams of the paragraphs, for an
estimated Jaccard similarity of at least 0.8 (Lee et al. 2022, arXiv:2107.06499).

Both need a pass over the text, by all workers, and memory of one process for each document: about 60 bytes with
``exact``, some kilobytes with ``minhash``.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertkit.data.corpus.documents import Paragraph
from bertkit.data.corpus.settings import Deduplication
from bertkit.data.corpus.store.encoding import EncodedBatch, select_sentences
from bertkit.runtime.errors import importing
from bertkit.runtime.reading.text import iterating

_DIGEST = 16  # bytes; two of 10¹² documents collide with a probability of 10⁻¹⁵
SIMILAR = 0.8  # Jaccard similarity of near duplicates
_PERMUTATIONS, _BANDS, _ROWS, _GRAM = 64, 9, 7, 5


def document_digests(paragraphs: Iterable[Paragraph], rule: Deduplication) -> NDArray[Any]:
    """Returns what duplicates are found by, a row for each document: (D, 2) uint64, its digest, with ``exact``, and
    (D, 64) uint32 with ``minhash``.

    Raises:
        RecipeError: the package that ``minhash`` needs is not installed.
        Exception: any exception of ``paragraphs``.
    """
    sketches = None if rule == "exact" else empty_index()
    rows: list[bytes] = []
    current: Any = None

    def end() -> None:
        if current is not None:
            values = current.digest() if sketches is None else current.hashvalues.astype(np.uint32).tobytes()
            rows.append(values)

    for text, starts_document in paragraphs:
        if starts_document:
            end()
            current = hashlib.blake2b(digest_size=_DIGEST) if sketches is None else sketches.sketch()
        if sketches is None:
            current.update(text.encode("utf-8", "surrogatepass") + b"\n")
        else:
            sketches.add_grams(current, grams(text))
    end()
    return _rows(b"".join(rows), rule)


def repeated_documents(digests: Sequence[bytes], rule: Deduplication) -> list[frozenset[int]]:
    """Returns the numbers of the documents that repeat an earlier one, in each of several texts.

    Args:
        digests: the bytes of `document_digests` of each text, in order.
        rule: rule of duplicates.

    Raises:
        RecipeError: as `document_digests`.

    >>> texts = [Paragraph("One.", True), Paragraph("Two.", True), Paragraph("One.", True)]
    >>> [sorted(each) for each in repeated_documents([document_digests(texts, "exact").tobytes()], "exact")]
    [[2]]
    """
    sizes = [len(_rows(each, rule)) for each in digests]
    rows = _rows(b"".join(digests), rule)
    repeated = np.zeros(len(rows), bool)
    if rule == "exact":
        order = np.lexsort((rows[:, 1], rows[:, 0]))  # stable: of equal rows the first comes first
        repeated[order[1:]] = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
    else:
        index, kept = empty_index(), list[Any]()
        for number, values in enumerate(rows):
            current = index.sketch()
            current.hashvalues = values.astype(np.uint64)
            if any(kept[other].jaccard(current) >= SIMILAR for other in index.candidates(current)):
                repeated[number] = True
            else:
                index.insert(len(kept), current)
                kept.append(current)
    parts = np.split(repeated, np.cumsum(sizes)[:-1])
    return [frozenset(np.flatnonzero(part).tolist()) for part in parts]


def _rows(data: bytes, rule: Deduplication) -> NDArray[Any]:
    if rule == "exact":
        return np.frombuffer(data, np.uint64).reshape(-1, _DIGEST // 8)
    return np.frombuffer(data, np.uint32).reshape(-1, _PERMUTATIONS)


def empty_index() -> SimilarTexts:
    """Returns an index without texts; RecipeError if the package that ``minhash`` needs is not installed."""
    with importing("deduplicate: minhash", "checks"):
        import datasketch
    return SimilarTexts(datasketch)


def without_documents(paragraphs: Iterable[Paragraph], left_out: frozenset[int]) -> Iterator[Paragraph]:
    """Yields the paragraphs of the documents whose numbers are not in ``left_out``."""
    number = -1
    with iterating(paragraphs) as remaining:
        for paragraph in remaining:
            number += paragraph.starts_document
            if number not in left_out:
                yield paragraph


def grams(text: str) -> frozenset[str]:
    """Returns the character 5-grams of a text; a shorter text is its only one."""
    return frozenset(text[start : start + _GRAM] for start in range(max(len(text) - _GRAM + 1, 1)))


class SimilarTexts:
    """Index of texts by MinHash with locality-sensitive hashing: which earlier texts may be similar to a text."""

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
                batch = batch._replace(
                    tokens=np.concatenate([held.tokens, batch.tokens]),
                    lengths=np.concatenate([held.lengths, batch.lengths]),
                    documents=np.concatenate([held.documents, batch.documents]),
                )
            counts = np.bincount(batch.documents, weights=batch.lengths, minlength=batch.num_documents + 1)
            kept = counts >= min_tokens
            kept[0] |= kept_before
            opened = batch.num_documents
            kept_before = bool(kept[opened])
            held = None
            if not kept_before:
                held = select_sentences(batch, batch.documents == opened)
                held = held._replace(documents=np.zeros_like(held.documents), num_documents=0)
            yield select_sentences(batch, kept[batch.documents])
