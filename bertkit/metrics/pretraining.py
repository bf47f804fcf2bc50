"""Scores of pre-training, for the objective of tokens and that of pairs separately, over all held-out examples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bertkit.model.labels_bert import IGNORE_INDEX

if TYPE_CHECKING:
    import torch

TOKENS: dict[str, tuple[str, ...]] = {
    "masked_lm": ("masked_lm_loss", "masked_lm_accuracy"),
    "next_token": ("next_token_loss", "next_token_accuracy"),
}
"""Names of the scores of each token objective."""
PAIRS: dict[str, tuple[str, ...]] = {
    "nsp": ("next_sentence_loss", "next_sentence_accuracy"),
    "sop": ("sentence_order_loss", "sentence_order_accuracy"),
    "none": (),
}
"""Names of the scores of each pair objective."""


def score_names(pair_objective: str, token_objective: str = "masked_lm") -> tuple[str, ...]:
    """Returns the names of loss and accuracy of the token objective, then of the pair task if there is one.

    >>> score_names("none")
    ('masked_lm_loss', 'masked_lm_accuracy')
    """
    return TOKENS[token_objective] + PAIRS[pair_objective]


def reduce_logits(
    logits: torch.Tensor | tuple[torch.Tensor, ...], labels: torch.Tensor | tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Reduces logits to a few numbers per example, so that an evaluation's memory does not grow with the vocabulary.

    Args:
        logits: token logits (B, P, V), or a tuple of outputs that ends with token logits and pair logits (B, 2).
        labels: token labels (B, P) with -100 in empty slots, or a tuple of these and pair labels (B,).

    Returns:
        (B, 3) float32: sum of token losses in nats, number of correct and of all labelled tokens; with pairs (B, 5):
        also the pair loss in nats, and 1 if the pair is classified correctly, else 0.
    """
    import torch
    from torch.nn.functional import cross_entropy

    outputs = logits if isinstance(logits, tuple) else (logits,)
    mlm_labels, *pair_labels = labels if isinstance(labels, tuple) else (labels,)
    mlm_logits = outputs[-2 if pair_labels else -1].float()
    mlm_losses = cross_entropy(mlm_logits.transpose(1, 2), mlm_labels, reduction="none", ignore_index=IGNORE_INDEX)
    masked = mlm_labels != IGNORE_INDEX
    columns = [
        mlm_losses.sum(dim=1),
        ((mlm_logits.argmax(dim=-1) == mlm_labels) & masked).sum(dim=1),
        masked.sum(dim=1),
    ]
    for pairs in pair_labels:
        pair_logits = outputs[-1].float()
        columns += [cross_entropy(pair_logits, pairs, reduction="none"), pair_logits.argmax(dim=-1) == pairs]
    return torch.stack([column.float() for column in columns], dim=1)


def score(reduced: np.ndarray, pair_objective: str = "nsp", token_objective: str = "masked_lm") -> dict[str, float]:
    """Computes the scores over all examples.

    Args:
        reduced: (N, 3) or (N, 5), rows of `reduce_logits`.
        pair_objective: ``nsp``, ``sop`` or ``none``.
        token_objective: ``masked_lm`` or ``next_token``.

    Returns:
        Losses in nats, where ``loss`` is their sum; accuracies in [0, 1]; ``perplexity`` = exp of the tokens' loss, or
        exp(700) of a larger one, which has no float.

    >>> scores = score(np.array([[2.0, 1, 2, 0.2, 1], [1.0, 0, 1, 0.6, 0]]))
    >>> [round(float(value), 3) for value in scores.values()]
    [1.4, 1.0, 0.333, 2.718, 0.4, 0.5]
    """
    mlm_loss, mlm_correct, masked, *pairs = reduced.astype(np.float64).sum(axis=0)
    # Sums over all examples: the Trainer's mean of batch means depends on the batch size.
    mlm = dict(zip(TOKENS[token_objective], (mlm_loss / masked, mlm_correct / masked), strict=True))
    pair = dict(zip(PAIRS[pair_objective], np.array(pairs) / len(reduced), strict=True))
    loss = sum(value for name, value in {**mlm, **pair}.items() if name.endswith("_loss"))
    return {"loss": loss, **mlm, "perplexity": math.exp(min(mlm_loss / masked, 700)), **pair}
