"""Losses of all heads, each a mean over the labelled items.

Items with label -100, or NaN for floating-point labels, contribute nothing and are not counted; without labelled items
the loss is 0, not NaN. With gradient accumulation or several processes the mean is over the items of the *global*
batch: ``num_items_in_batch`` is their number, which bertkit's Trainer counts.

B sequences, S tokens, M rows of logits, C classes.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .configuration_bert import BertConfig
from .labels_bert import IGNORE_INDEX, PROBLEM_TYPES

# Logits that `_SummedCrossEntropy` takes in float32 at once: on a CPU 2 MiB, which stay in its cache, else 32 MiB,
# which occupy any GPU. Up to three such pieces are in memory.
_LOGITS_AT_ONCE = {"cpu": 1 << 19}
_LOGITS_AT_ONCE_ELSEWHERE = 1 << 23
_FEW_CLASSES = 1024  # whose copies are small; torch's function then takes a fifth of the kernels


def mean_loss(total: Tensor, num_items: Tensor | int) -> Tensor:
    """Divides a summed loss, 0-d, by its number of items or sum of weights, one number or tensor; no items give 0."""
    count = torch.as_tensor(num_items, device=total.device).reshape(())
    return total / count.where(count > 0, 1)


def at_least_float32(logits: Tensor) -> Tensor:
    """Converts half-precision logits to float32, to keep precision in sums over a vocabulary; others are unchanged."""
    return logits if logits.dtype == torch.float64 else logits.float()


class _SummedCrossEntropy(torch.autograd.Function):
    """``F.cross_entropy(..., reduction="sum")``, at least in float32, without float32 copies of all logits.

    Over a vocabulary, torch's function materialises a copy, its log-softmax and three gradients, each of M × C numbers.
    Here only the gradient is materialised, in the dtype of the logits; the rest is computed in blocks of rows.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        is_labelled = labels != IGNORE_INDEX
        labels = labels.where(is_labelled, 0).unsqueeze(1)  # (M, 1)
        of_labels = at_least_float32(logits.gather(1, labels))  # (M, 1)
        largest, log_sums = torch.empty_like(of_labels), torch.empty_like(of_labels)
        for rows in _blocks(logits):
            block = at_least_float32(logits[rows])
            largest[rows] = block.amax(dim=-1, keepdim=True)
            log_sums[rows] = (block - largest[rows]).exp_().sum(dim=-1, keepdim=True).log_()
        ctx.save_for_backward(logits, labels, is_labelled, largest + log_sums)
        # The largest comes off first, so that a small loss keeps its digits.
        return (largest - of_labels + log_sums).squeeze(1).where(is_labelled, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, labels, is_labelled, log_partition = ctx.saved_tensors
        weights = gradient.where(is_labelled, 0.0).unsqueeze(1)
        of_logits = torch.empty_like(logits)
        for rows in _blocks(logits):
            probabilities = (at_least_float32(logits[rows]) - log_partition[rows]).exp_()
            probabilities.scatter_add_(1, labels[rows], probabilities.new_full((len(probabilities), 1), -1.0))
            of_logits[rows] = probabilities.mul_(weights[rows])
        return of_logits, None


def _blocks(logits: Tensor) -> Iterator[slice]:
    """Returns slices of the rows of (M, C) to compute at once; at least one."""
    at_once = _LOGITS_AT_ONCE.get(logits.device.type, _LOGITS_AT_ONCE_ELSEWHERE) // logits.shape[-1]
    return (slice(start, start + max(at_once, 1)) for start in range(0, max(len(logits), 1), max(at_once, 1)))


def mean_cross_entropy(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Computes the mean negative log-likelihood of the labels, in nats, over the labelled items.

    Args:
        logits: (..., C), unnormalised.
        labels: int64 in [0, C), one for each row of logits; -100 ignored.
        num_items_in_batch: Labelled items in the global batch; None for those of this batch.

    Returns:
        0-d float32 tensor (float64 for float64 logits), attached to the graph even where nothing is labelled.

    Example:
        >>> logits = torch.tensor([[0.2, 2.1, 0.5, 0.3, 0.1], [0.0, 0.0, 0.0, 0.0, 0.0]])
        >>> round(mean_cross_entropy(logits, torch.tensor([1, -100])).item(), 3)
        0.502
    """
    labels, logits = labels.reshape(-1), logits.reshape(-1, logits.shape[-1])
    if logits.shape[-1] <= _FEW_CLASSES:
        total = F.cross_entropy(at_least_float32(logits), labels, ignore_index=IGNORE_INDEX, reduction="sum")
    else:
        total = _SummedCrossEntropy.apply(logits, labels)  # type: ignore[no-untyped-call]
    return mean_loss(total, (labels != IGNORE_INDEX).sum() if num_items_in_batch is None else num_items_in_batch)


def position_loss(logits: Tensor, positions: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Computes the mean cross-entropy of positions in a sequence, ignoring positions outside it.

    Args:
        logits: (B, S), one score for each token.
        positions: (B) or (B, 1) int64; outside [0, S) ignored. transformers moves a negative one to token 0 instead.
        num_items_in_batch: Positions in the global batch; None for those of this batch.

    Returns:
        0-d, the mean.
    """
    inside = (positions >= 0) & (positions < logits.shape[-1])
    return mean_cross_entropy(logits, positions.where(inside, IGNORE_INDEX), num_items_in_batch)


def problem_type(config: BertConfig, labels: Tensor) -> str:
    """Returns ``config.problem_type``, or derives it from the labels if it is None.

    Unlike in transformers, integer labels with one class are rejected instead of treated as regression targets, and the
    configuration is not modified.

    Args:
        config: Read for ``problem_type`` and ``num_labels``.
        labels: (B) or (B, 1) integers, or one without dimensions: one class each; (B, C) floats: several labels each;
            floats with ``num_labels=1``: regression.

    Returns:
        "single_label_classification", "multi_label_classification" or "regression".

    Raises:
        ValueError: The labels are ambiguous or invalid, or ``config.problem_type`` is another text.
    """
    if config.problem_type in PROBLEM_TYPES:
        return config.problem_type
    if config.problem_type is not None:
        raise ValueError(f"config.problem_type is {config.problem_type!r}; expected {', '.join(PROBLEM_TYPES)} or None")
    given = f"labels of {labels.dtype} and shape {tuple(labels.shape)} with num_labels={config.num_labels}"
    if labels.is_floating_point():
        if config.num_labels == 1:
            return "regression"
        if labels.dim() == 2 and labels.shape[-1] == config.num_labels:
            return "multi_label_classification"
        raise ValueError(
            f"{given}: set config.problem_type; several labels per item are floats of shape (B, {config.num_labels})"
        )
    if config.num_labels == 1:
        raise ValueError(
            f"{given}: for two classes set num_labels=2; for numbers to predict set "
            'config.problem_type="regression" or give float labels'
        )
    if labels.dim() > 1 and labels.numel() != labels.shape[0]:
        raise ValueError(f"{given}: for several labels per item give floats, or set config.problem_type")
    return "single_label_classification"


def sequence_classification_loss(
    config: BertConfig, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None
) -> Tensor:
    """Computes the cross-entropy, binary cross-entropy or squared error, as selected by `problem_type`.

    Args:
        config: Read for ``problem_type`` and ``num_labels``.
        logits: (B, C).
        labels: As in `problem_type`. Among classes -100 is ignored; elsewhere it is a number like any other, and NaN is
            ignored.
        num_items_in_batch: Labelled items in the global batch, where labels are (B, C) the numbers in it; None for
            those of this batch.

    Returns:
        0-d, the mean.

    Raises:
        ValueError: As `problem_type`.
    """
    return loss_of_problem(problem_type(config, labels), logits, labels, num_items_in_batch)


def loss_of_problem(
    kind: str, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None
) -> Tensor:
    """Computes the loss of one of the types of `problem_type`; otherwise as `sequence_classification_loss`."""
    if kind == "single_label_classification":
        return mean_cross_entropy(logits, labels, num_items_in_batch)
    logits = at_least_float32(logits)
    targets = labels.to(logits.dtype).reshape(logits.shape)
    labelled = ~targets.isnan()
    error = F.mse_loss if kind == "regression" else F.binary_cross_entropy_with_logits
    errors = error(logits, targets.where(labelled, 0.0), reduction="none")
    total = errors.where(labelled, 0.0).sum()
    return mean_loss(total, labelled.sum() if num_items_in_batch is None else num_items_in_batch)
