"""Padding is no answer: what fills up a batch takes no part in the softmax over the positions of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel


def mask_padding(model: PreTrainedModel) -> None:
    """Makes a question answering head score the positions that ``attention_mask`` leaves out as low as can be.

    The released run_squad.py pads every input to one length, and its softmax runs over the padding, too. Where a batch
    is only padded to its longest input, the loss of an input would then depend on the others in its batch, and so on
    how the global batch is cut.

    Args:
        model: of any family; the scores of its head are (B, S, 2), and its ``attention_mask`` is given by name.

    Raises:
        CheckpointError: the family's head has a name that is not known here.
    """
    head = getattr(model, "qa_outputs", None) or getattr(model, "classifier", None)
    if head is None:
        raise CheckpointError(f"{type(model).__name__}: its head has no layer qa_outputs or classifier; give a BERT")
    hooks = _PaddingHooks()
    model.register_forward_pre_hook(hooks.take_mask, with_kwargs=True)
    head.register_forward_hook(hooks.mask_scores)


class _PaddingHooks:
    """Remembers the mask that the model is given, until its head has given the scores."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None

    def take_mask(self, model: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        self.mask = kwargs.get("attention_mask")

    def mask_scores(self, head: nn.Module, args: Any, scores: Tensor) -> Tensor | None:
        import torch

        mask, self.mask = self.mask, None
        if mask is None or scores.shape[:2] != mask.shape:  # kernels that take the padding out themselves
            return None
        return scores.masked_fill(mask[:, :, None] == 0, torch.finfo(scores.dtype).min)
