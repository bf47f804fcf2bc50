"""Rows of the embedding matrix and of the output layer for new ids, as means of the rows of old ones.

V is the size of the vocabulary, H the width of the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from bertkit.checkpoint.encoders import vocabulary_weights


def set_rows(model: PreTrainedModel, sources: Sequence[Sequence[int]], first_id: int = 0, size: int = 0) -> None:
    """Gives each id from ``first_id`` on the mean of the rows of old ids, in place.

    The rows are those of the embedding matrix, (V, H), and of the matrix and the bias of an output layer over the
    vocabulary, where the model has one; rows of other ids stay as they are.

    Args:
        model: a model of any family.
        sources: old ids of each new id, at least one.
        first_id: the first new id.
        size: smallest new V; by default there are rows up to the last new id.
    """
    before = [table.detach().clone() for table in vocabulary_weights(model)]
    model.resize_token_embeddings(max(first_id + len(sources), size), mean_resizing=False)
    with torch.no_grad():
        for table, old in zip(vocabulary_weights(model), before, strict=True):
            table[first_id : first_id + len(sources)] = torch.stack([old[list(ids)].mean(dim=0) for ids in sources])
