"""Joined sequences: the encoder of BERT computes the tokens of a batch in one row, without padding.

The padding is removed behind the embeddings and put back, as zeros, behind the last layer, so that positions, segments,
heads and losses are those of the padded form. The layers are the same modules, and compute (1, T, H) instead of
(B, S, H); only their attention knows where a sequence ends. It is torch's flash attention, which computes in half
precision on GPUs; on a CPU a plain reference stands in for it. Measured on no GPU, and therefore off by default:
``placement.attn_implementation=joined``, and for inference `bertkit.inference.forward`.

B sequences, S tokens of the longest one, T tokens of all of them, P tokens that are read, H hidden size, A heads,
D width of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface

from bertkit.model.modeling_bert import BertModel
from bertkit.runtime.placement.resolve import JOINED

LENGTHS = "sequence_lengths"
"""Name of the list in a batch that has the tokens of each sequence; read from a GPU, they would be waited for."""


class Sequences(NamedTuple):
    """Where the sequences of a batch are in a row of T tokens; an attention mask of the joined form.

    Attributes:
        indices: (T,) int64, places of the tokens among the B * S of the padded form.
        places: (B * S,) int64, for each place of the padded form its token among the T; any token for padding.
        bounds: (B + 1,) int32, the first token of each sequence, and T.
        longest: no sequence has more tokens; S, which is known without a wait.
    """

    indices: Tensor
    places: Tensor
    bounds: Tensor
    longest: int

    @classmethod
    def of(cls, attention_mask: Tensor, tokens: int) -> Sequences:
        """Returns where the tokens of a batch are, without a wait for its device.

        Args:
            attention_mask: (B, S) bool, True = token, in any place.
            tokens: their number T.
        """
        is_token = attention_mask.flatten()
        bounds = F.pad(attention_mask.sum(dim=1).cumsum(dim=0), (1, 0)).to(torch.int32)
        indices = torch.nonzero_static(is_token, size=tokens).squeeze(1)
        places = (is_token.cumsum(dim=0) - 1).clamp(min=0)
        return cls(indices, places, bounds, attention_mask.shape[1])


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Sequences | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Computes the attention of each token to those of its sequence; of padded sequences as transformers' ``sdpa``.

    Takes query, key and value (1, A, T, D), and returns the weighted values (1, T, A, D), and None.
    """
    if not isinstance(attention_mask, Sequences):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if query.device.type == "cpu":
        tokens = torch.arange(query.shape[2])
        sequence = torch.searchsorted(attention_mask.bounds[1:], tokens, right=True)  # (T,)
        is_same = sequence[:, None] == sequence
        context = F.scaled_dot_product_attention(query, key, value, is_same, dropout, scale=scaling)
        return context.transpose(1, 2), None
    rows = (each.squeeze(0).transpose(0, 1) for each in (query, key, value))  # (T, A, D)
    bounds, longest = attention_mask.bounds, attention_mask.longest
    # What `torch.nn.attention.varlen` calls, which has no dropout.
    context, *_ = torch.ops.aten._flash_attention_forward(
        *rows, bounds, bounds, longest, longest, dropout, False, False, scale=scaling
    )
    return context.unsqueeze(0), None


def padding_mask(*sizes: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """Returns an attention mask, (B, S), as booleans that broadcast to (B, A, S, S); None stays None."""
    return None if attention_mask is None else attention_mask[:, None, None].bool()


AttentionInterface.register(JOINED, attention_forward)
AttentionMaskInterface.register(JOINED, padding_mask)


def missing_on_device(device: str) -> str:
    """Returns what a device, in torch's name for its kind, lacks for joined sequences; empty if it has all."""
    if device == "cuda" and torch.cuda.get_device_capability() >= (8, 0):
        return ""
    return "an NVIDIA GPU of compute capability 8.0 or more"


def reason_not_to_join(model: PreTrainedModel) -> str:
    """Returns why a model cannot compute joined sequences on any device; empty if it can."""
    encoder, config = model.base_model, model.config
    if not isinstance(encoder, BertModel):
        return f"the layers of {type(model).__name__} are not those of BERT"
    if config.attention != "bidirectional":
        return "attention is left to right"
    if config.feature_layers is not None:
        return "hidden states of several layers are read"
    width = config.hidden_size // config.num_attention_heads
    return f"heads are {width} wide, flash attention takes multiples of 8 up to 256" if width % 8 or width > 256 else ""


def with_lengths(collate: Callable[..., Mapping[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Returns ``collate`` with the tokens of each sequence of a batch as a list, `LENGTHS`, that stays on the host."""
    return partial(_collate_with_lengths, collate)


def _collate_with_lengths(collate: Callable[..., Mapping[str, Any]], examples: Any) -> dict[str, Any]:
    batch = dict(collate(examples))
    return {**batch, LENGTHS: batch["attention_mask"].sum(dim=-1).tolist()}


class _Hooks:
    """Hooks of an encoder that remove the padding between its embeddings and its head.

    A call that returns hidden states of all layers, and one in float32 on a GPU, is computed with padding.
    """

    def __init__(self, model: BertModel):
        self._model = model
        self._lengths: list[int] = []
        self._returns_all = False
        self._of_call: Sequences | None = None
        self._shape = torch.Size()
        self.handles = [
            model.register_forward_pre_hook(self._take_lengths, with_kwargs=True),
            model.encoder.register_forward_pre_hook(self._join),
            model.encoder.register_forward_hook(self._pad),
        ]

    def _take_lengths(self, model: BertModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._lengths = _flat(kwargs.pop(LENGTHS, []))
        asked = kwargs.get("output_hidden_states")
        self._returns_all = bool(model.config.output_hidden_states if asked is None else asked)
        return args, kwargs

    def _join(self, encoder: nn.Module, args: tuple[Any, ...]) -> Any:
        self._of_call = None
        states, mask, output_attentions, *read = args
        joins = self._model.config._attn_implementation == JOINED and isinstance(mask, Tensor) and not self._returns_all
        # Other devices are those of tests: the reference on a CPU, and without values what a GPU would compute.
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else self._model.dtype
        fits = states.device.type != "cuda" or dtype in (torch.float16, torch.bfloat16)
        if not joins or not self._model.encoder.skips_unread or not fits:
            return None
        mask = mask[:, 0, 0]  # (B, S)
        # Parts of a batch, as those whose vectors a loss computes again, have lengths that are not known.
        is_known = len(self._lengths) == len(mask)
        sequences = Sequences.of(mask, sum(self._lengths) if is_known else int(mask.count_nonzero()))
        self._of_call, self._shape = sequences, mask.shape
        states = states.flatten(0, 1).index_select(0, sequences.indices).unsqueeze(0)  # (1, T, H)
        if not read:
            return states, sequences, output_attentions
        first = torch.arange(0, mask.numel(), mask.shape[1], device=states.device)
        places = sequences.places[(read[0] + first[:, None]).flatten()]
        self._shape = read[0].shape
        return states, sequences, output_attentions, places.unsqueeze(0)  # (1, B * P)

    def _pad(self, encoder: nn.Module, args: tuple[Any, ...], states: Tensor) -> Tensor | None:
        of_call, self._of_call, self._lengths = self._of_call, None, []
        if of_call is None:
            return None
        rows = states.squeeze(0)
        if len(args) < 4:  # all tokens are read
            padded = rows.new_zeros(self._shape.numel(), rows.shape[-1])
            rows = padded.index_copy(0, of_call.indices, rows)
        return rows.view(*self._shape, -1)


def _flat(lengths: Any) -> list[int]:
    return [each for row in lengths for each in _flat(row)] if isinstance(lengths, list) else [lengths]


@contextmanager
def joined_sequences(model: PreTrainedModel) -> Iterator[None]:
    """Context in which the encoder of a model with the attention `JOINED` computes without padding.

    Weights and their names stay. A batch without `LENGTHS` is waited for on a GPU. A context within another one does
    nothing.

    Args:
        model: BERT with any head, for which `reason_not_to_join` is empty.
    """
    hooks = _Hooks(model.base_model)
    try:
        yield
    finally:
        for handle in hooks.handles:
            handle.remove()
