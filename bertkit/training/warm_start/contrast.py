"""A phase before the training of a classifier that draws rows of a class together, for few rows.

The loss is that of supervised contrastive learning (Khosla et al. 2020, arXiv:2004.11362): each row of a batch is to be
nearer to the rows of its class than to the others, by the cosine of the vectors that the head reads. Rows with several
labels count by the part of their labels that they share (Zhang and Wu 2024, AAAI, weigh by overlap too). A batch of n
rows compares n (n - 1) pairs, so that few rows tell more than by their labels alone (Tunstall et al. 2022,
arXiv:2209.11055). The means of the tokens' vectors are compared too: most encoders of sentences were trained to say
what a text means by them, and what the head reads learns faster beside them.

The rows of many classes are few each. They say nothing of most differences between texts, and what they do not ask for
is lost. Then the vectors that the head reads are to have the neighbours, too, that the means of the tokens had before.

Dimension letters: N rows, B of a batch, W windows of their texts, S tokens, H hidden size, D numbers of a vector, C
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from bertkit.training.warm_start.heads import Collate, captured, optimizer_steps

_TEMPERATURE = 0.1  # of the cosines
_KEPT, _KEPT_TEMPERATURE = 3.0, 0.05  # weight and temperature of `kept_loss`


def contrast_loss(vectors: Tensor, classes: Tensor) -> Tensor:
    """Computes the supervised contrastive loss, 0-d: the mean over the rows that share a class with another one.

    Args:
        vectors: (B, D).
        classes: class of each row, (B,); or its labels as 0 and 1, (B, C).

    >>> apart, together = torch.eye(4), torch.eye(4)[[0, 0, 2, 2]]
    >>> bool(contrast_loss(together, torch.tensor([0, 0, 1, 1])) < contrast_loss(apart, torch.tensor([0, 0, 1, 1])))
    True
    """
    if classes.ndim == 1:
        alike = (classes[:, None] == classes).float()
    else:
        both = classes.float() @ classes.float().T
        numbers = both.diagonal()
        alike = both / (numbers[:, None] + numbers - both).clamp(min=1)
    alike = _of_others(alike)
    weights = alike.sum(dim=-1)
    shared = weights > 0
    own = (_log_shares(vectors, _TEMPERATURE) * alike).sum(dim=-1)
    return -(own[shared] / weights[shared]).mean()


def kept_loss(vectors: Tensor, known: Tensor) -> Tensor:
    """Computes how far the neighbours of rows are from known ones, 0-d: a cross entropy of shares by cosines.

    Args:
        vectors: (B, D).
        known: vectors of the same rows whose neighbours are known, (B, H).
    """
    shares = _log_shares(known, _KEPT_TEMPERATURE).exp()
    return -(shares * _log_shares(vectors, _KEPT_TEMPERATURE)).sum(dim=-1).mean()


def _log_shares(vectors: Tensor, temperature: float) -> Tensor:
    """Computes the logarithms of the shares of all other rows in the neighbourhood of each, (B, B - 1)."""
    unit = functional.normalize(vectors.float(), dim=-1)
    return _of_others(unit @ unit.T / temperature).log_softmax(dim=-1)


def _of_others(values: Tensor) -> Tensor:
    """Leaves out the diagonal of a matrix (B, B): (B, B - 1)."""
    size = len(values)
    # Behind the first element, every (size + 1)-th one is on the diagonal; a mask would wait for the device.
    return values.flatten()[1:].reshape(size - 1, size + 1)[:, :-1].reshape(size, size - 1)


def means_of_tokens(states: Tensor, mask: Tensor, windows: Tensor | None = None) -> Tensor:
    """Computes the mean of the vectors of the tokens of each text, (B, H) float32.

    Args:
        states: (W, S, H).
        mask: 1 for tokens and 0 for padding, (W, S).
        windows: number of windows of each text, (B,); None if each text has one.
    """
    mask = mask.unsqueeze(-1).float()
    sums, counts = (states.float() * mask).sum(dim=1), mask.sum(dim=1)  # (W, H), (W, 1)
    if windows is not None:
        texts = torch.arange(len(windows), device=states.device).repeat_interleave(windows, output_size=len(states))
        sums, counts = (
            each.new_zeros(len(windows), each.shape[1]).index_add(0, texts, each) for each in (sums, counts)
        )
    return sums / counts


def can_contrast(counts: Sequence[int] | np.ndarray) -> bool:
    """Returns whether at least two classes have two rows; ``counts`` are the rows of each class."""
    return int(np.count_nonzero(np.asarray(counts) > 1)) > 1


def pairs_of_classes(classes: np.ndarray, size: int, seed: int) -> Iterator[list[int]]:
    """Yields batches of rows without end: two of each of ``size / 2`` classes, fewer classes more than once.

    A batch ends before it has ``size`` rows if all rows of the class, or of the classes, that are drawn next are in it.

    Args:
        classes: class of each row, (N,), or labels, (N, C), of whose rows `can_contrast` is true.
        size: rows of a batch, at most.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    columns = classes.T > 0 if classes.ndim == 2 else [classes == number for number in np.unique(classes)]
    rows = [np.flatnonzero(column) for column in columns]
    rows = [each for each in rows if len(each) > 1]
    while True:
        batch: set[int] = set()
        while len(batch) < size:
            before = len(batch)
            for number in random.permutation(len(rows))[: max(1, (size - len(batch)) // 2)]:
                others = np.setdiff1d(rows[number], list(batch))
                batch.update(random.permutation(others)[: min(2, size - len(batch))].tolist())
            if len(batch) == before:
                break
        yield sorted(batch)


def contrast(
    model: PreTrainedModel,
    layer: nn.Linear,
    rows: Any,
    classes: np.ndarray,
    collate: Collate,
    *,
    steps: int,
    size: int,
    optimizer: torch.optim.Optimizer,
    seed: int,
    known: Callable[[np.ndarray], np.ndarray] | None,
    precision: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Trains the weights below the head by `contrast_loss` and `kept_loss`, at a rate that rises and falls linearly.

    Args:
        model: the classifier, in training mode afterwards.
        layer: the first layer of its head, whose input is compared, beside the means of the tokens.
        rows: rows of `Task.encode`.
        classes: class of each row, (N,), or labels as 0 and 1, (N, C).
        collate: makes a batch of rows.
        steps: number of steps.
        size: rows of a batch.
        optimizer: of the weights of the model, at its highest rate.
        seed: of the batches.
        known: returns vectors (M, H) of M rows, by their numbers, whose neighbours are to be kept; None to keep none.
        precision: context of the forward pass.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    batches = list(islice(pairs_of_classes(classes, size, seed), steps))
    drawn = np.unique(np.concatenate(batches))
    kept = None if known is None else torch.from_numpy(known(drawn)).to(model.device)
    model.train()
    with captured(layer) as seen:
        for step in optimizer_steps(optimizer, weights, steps, "contrast"):
            numbers = batches[step]
            batch = {name: values.to(model.device) for name, values in collate([rows[n] for n in numbers]).items()}
            batch.pop("labels")
            with precision():
                states = model(**batch, output_hidden_states=True)["hidden_states"][-1]
            vectors, windows = seen.pop(layer)[0], batch.get("window_counts")
            of_rows = torch.from_numpy(classes[numbers]).to(model.device)
            places = torch.arange(len(of_rows), device=model.device)
            if windows is not None and len(vectors) != len(of_rows):  # the head reads windows before they are pooled
                places = places.repeat_interleave(windows, output_size=len(vectors))
            means = means_of_tokens(states, batch["attention_mask"], windows)
            loss = contrast_loss(vectors, of_rows[places]) + contrast_loss(means, of_rows)
            if kept is not None:
                of_batch = torch.from_numpy(np.searchsorted(drawn, numbers)).to(model.device)
                loss = loss + _KEPT * kept_loss(vectors, kept[of_batch][places])
            torch.autograd.backward(loss)
