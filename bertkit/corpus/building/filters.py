"""Filters of documents by their tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import numpy as np

from bertkit.corpus.store.encoding import EncodedBatch


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
