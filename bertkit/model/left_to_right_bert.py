"""Left-to-right attention, an ablation of the paper (BERT §5.1): its mask, and the token that is pooled."""

import torch
from torch import Tensor
from transformers.masking_utils import create_causal_mask

from .configuration_bert import BertConfig


def left_to_right_mask(config: BertConfig, embeddings: Tensor, attention_mask: Tensor | None, may_skip: bool) -> object:
    """Returns the mask by which a token attends to itself and to the tokens before it, in the form of the kernel.

    Args:
        embeddings: (B, S, H).
        attention_mask: (B, S), 1 = token, 0 = padding; None for no padding.
        may_skip: Whether None may stand for the direction alone, which the written-out attention cannot know.
    """
    return create_causal_mask(
        config=config,
        inputs_embeds=embeddings,
        attention_mask=attention_mask,
        past_key_values=None,
        allow_is_causal_skip=may_skip,
    )


def last_position(hidden_states: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Returns the position of each sequence's last token, (B) int64; ``hidden_states`` are (B, S, H)."""
    batch_size, length = hidden_states.shape[:2]
    if attention_mask is None:
        return torch.full((batch_size,), length - 1, device=hidden_states.device)
    positions = torch.arange(length, device=hidden_states.device)
    return ((attention_mask != 0) * positions).argmax(dim=1)


def last_token(hidden_states: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Returns the state of each sequence's last token, (B, S, H) to (B, H): the only one that attends to all others."""
    if attention_mask is None:
        return hidden_states[:, -1]
    last = last_position(hidden_states, attention_mask)
    return hidden_states.gather(1, last[:, None, None].expand(-1, 1, hidden_states.shape[-1])).squeeze(1)
