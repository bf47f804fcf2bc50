"""Output of few tokens: in the last layer, all tokens are attended to, but only some of them are read.

Keys and values are needed of every token; queries, projection and feed-forward only of the tokens that a head reads,
such as [CLS] or the masked ones. The results are the same.

With left-to-right attention, an ablation of the paper (BERT §5.1), the pooled token is the last one.

B sequences, S tokens, P tokens that are read, H hidden size.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import create_causal_mask

from .configuration_bert import BertConfig


def tokens_at(states: Tensor, positions: Tensor) -> Tensor:
    """Selects tokens, (B, S, H) to (B, P, H); ``positions`` are (B, P) int64."""
    return states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))


def all_positions_read(
    config: BertConfig, states: Tensor, attention_mask: Tensor | None, pools: bool, others: Tensor | tuple[()]
) -> Tensor:
    """Returns the positions of the pooled token, if one is, and then of the others, (B, 1 + P) or (B, P) int64.

    Args:
        states: (B, S, H).
        attention_mask: (B, S), 1 = token, 0 = padding; None for no padding.
        pools: Whether the pooler reads a token.
        others: (B, P) or (1, P) int64, or none.
    """
    positions = []
    if pools and config.attention == "left_to_right":
        positions.append(last_position(states, attention_mask).unsqueeze(1))
    elif pools:
        positions.append(torch.zeros(states.shape[0], 1, dtype=torch.long, device=states.device))
    if isinstance(others, Tensor):
        positions.append(others.expand(states.shape[0], -1))
    return torch.cat(positions, dim=1)


def takes_few_queries(implementation: str) -> bool:
    """Returns whether an attention kernel takes fewer queries than keys, with a mask that has a row for each query.

    Others compute the attention of all tokens: flash's mask is (B, S), and flex has blocks.
    """
    return implementation.startswith(("eager", "sdpa"))


def rows_of_mask(mask: Any, positions: Tensor, states: Tensor, is_causal: bool) -> Any:
    """Selects the rows of the read tokens in a mask that broadcasts to (B, A, S, S), as (B, 1, P, S) or (B, A, P, S).

    Without a mask, left-to-right attention gets one, (B, 1, P, S) bool, True = attend: a kernel knows which tokens come
    before a query only if it has all queries. Attention to both sides stays without, None.

    Args:
        mask: Of the kernel; None for no padding.
        positions: (B, P) int64.
        states: (B, S, H).
        is_causal: Whether attention is left-to-right.
    """
    if mask is not None:
        index = positions[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3])
        return mask.expand(positions.shape[0], -1, states.shape[1], -1).gather(2, index)
    if not is_causal:
        return None
    return torch.arange(states.shape[1], device=positions.device) <= positions[:, None, :, None]


# ---- left-to-right attention -----------------------------------------------------------------------------------------


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
    return tokens_at(hidden_states, last_position(hidden_states, attention_mask).unsqueeze(1)).squeeze(1)
