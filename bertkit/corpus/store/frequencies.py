"""Loss of a model that knows only the frequencies of tokens, the baseline of masked LM."""

from __future__ import annotations

import numpy as np

from bertkit.corpus.store.token_store import StoreView

_MOST_TOKENS = 20_000_000  # counted in a part of a second; more change the frequencies very little


def token_counts(view: StoreView, vocab_size: int, most: int = _MOST_TOKENS) -> np.ndarray:
    """Counts each id in the first documents of a view, (vocab_size,) int64.

    Args:
        view: the documents.
        vocab_size: number of ids.
        most: documents are added until they have this number of tokens.
    """
    store = view.store
    starts = store.sentence_offsets[store.document_offsets[view.documents]]
    ends = store.sentence_offsets[store.document_offsets[view.documents + 1]]
    counts, counted = np.zeros(vocab_size, np.int64), 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        counts += np.bincount(store.tokens[start:end], minlength=vocab_size)
        counted += end - start
        if counted >= most:
            break
    return counts


def unigram_loss(train: np.ndarray, held_out: np.ndarray) -> float:
    """Returns the cross-entropy of held-out tokens under the frequencies of the training text, in nats per token.

    Every count of the training text is increased by one. Since [MASK] hides tokens evenly, this is the masked LM loss
    of a model that knows frequencies alone.

    Args:
        train, held_out: counts of each id, (V,).

    >>> round(unigram_loss(np.array([1, 0]), np.array([1, 1])), 4)
    0.752
    """
    smoothed = (train + 1) / (train + 1).sum()
    return float(-(held_out * np.log(smoothed)).sum() / held_out.sum())
