"""Masking of padding in the softmax over the positions of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel


def mask_padding(model: PreTrainedModel) -> None:
    """Registers hooks that set the scores of masked positions to the smallest finite value of their dtype.

    The released run_squad.py pads every input to one length, and its softmax includes the padding. With padding to the
    longest input of a batch, the loss of an input would depend on the other inputs, and thereby on the division of the
    global batch.

    Args:
        model: a question-answering model of any family; the scores of its head are (B, S, 2), and ``attention_mask`` is
            passed by keyword.

    Raises:
        CheckpointError: the head of this model family has an unknown name.
    """
    head = getattr(model, "qa_outputs", None) or getattr(model, "classifier", None)
    if head is None:
        raise CheckpointError(
            f"{type(model).__name__}: its head has no layer qa_outputs or classifier; give a BERT checkpoint"
        )
    hooks = _PaddingHooks()
    model.register_forward_pre_hook(hooks.take_mask, with_kwargs=True)
    head.register_forward_hook(hooks.mask_scores)


class _PaddingHooks:
    """Hooks that keep a model's attention mask until its head has computed the scores."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None

    def take_mask(self, model: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        self.mask = kwargs.get("attention_mask")

    def mask_scores(self, head: nn.Module, args: Any, scores: Tensor) -> Tensor | None:
        import torch

        mask, self.mask = self.mask, None
        if mask is None or scores.shape[:2] != mask.shape:  # kernels that remove the padding themselves
            return None
        return scores.masked_fill(mask[:, :, None] == 0, torch.finfo(scores.dtype).min)
