"""BERT's forward pass on the CPU in torch alone.

The modelling code of transformers takes longer to import than torch does, since it brings generation, distributed
tensors and ``torch._dynamo``. A prediction needs none of them. This is the arithmetic of
`bertkit.model.modeling_bert` for inference, for the heads that predict; tests compare the two. Whatever is not read
here, such as a sharded checkpoint, is left to that model, with its checks and errors.

Dimension letters: B texts, S tokens, H hidden size, A heads, D head size, C labels, R tokens whose outputs are
computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertkit.runtime.placement.processor import has_onednn, product

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_WEIGHTS = "model.safetensors"
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_LAYER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")
# Head -> its layer, and whether it reads the pooled [CLS].
_HEADS = {
    "BertForSequenceClassification": ("classifier", True),
    "BertForTokenClassification": ("classifier", False),
    "BertForQuestionAnswering": ("qa_outputs", False),
}


def load_plain_bert(head: str | type, checkpoint: str, config: PreTrainedConfig) -> PlainBert | None:
    """Loads a BERT with a head from a folder, in float32; None if only `load_model` reads or refuses it."""
    path = Path(checkpoint) / _WEIGHTS
    if not isinstance(head, str) or head not in _HEADS:
        return None
    known = config.model_type == "bertkit" and config.hidden_act in _ACTIVATIONS
    if not known or config.feature_layers is not None or config.attention != "bidirectional" or not path.is_file():
        return None
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except (SafetensorError, OSError):
        return None
    expected = _list_shapes(head, config)
    if any(name not in weights or tuple(weights[name].shape) != shape for name, shape in expected.items()):
        return None
    if any(values.dtype not in _TYPES for name, values in weights.items() if name in expected):
        return None
    layers = [int(layer[1]) for name in weights if (layer := _LAYER.match(name))]
    if max(layers, default=0) >= config.num_hidden_layers:
        return None
    return PlainBert(head, config, {name: weights[name].float() for name in expected})


def _list_shapes(head: str, config: PreTrainedConfig) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of the weights, as in `bertkit.model.modeling_bert`."""
    hidden, inner = config.hidden_size, config.intermediate_size
    layer, pooled = _HEADS[head]
    shapes: dict[str, tuple[int, ...]] = {
        "bert.embeddings.word_embeddings.weight": (config.vocab_size, hidden),
        "bert.embeddings.position_embeddings.weight": (config.max_position_embeddings, hidden),
        "bert.embeddings.token_type_embeddings.weight": (config.type_vocab_size, hidden),
    }

    def dense(name: str, width: int, inputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (width, inputs), (width,)

    def norm(name: str) -> None:
        shapes[f"{name}.LayerNorm.weight"] = shapes[f"{name}.LayerNorm.bias"] = (hidden,)

    norm("bert.embeddings")
    for number in range(config.num_hidden_layers):
        prefix = f"bert.encoder.layer.{number}."
        for name in ("query", "key", "value"):
            dense(f"{prefix}attention.self.{name}", hidden, hidden)
        dense(f"{prefix}attention.output.dense", hidden, hidden)
        dense(f"{prefix}intermediate.dense", inner, hidden)
        dense(f"{prefix}output.dense", hidden, inner)
        norm(f"{prefix}attention.output")
        norm(f"{prefix}output")
    if pooled:
        dense("bert.pooler.dense", hidden, hidden)
    dense(layer, 2 if layer == "qa_outputs" else config.num_labels, hidden)
    return shapes


class PlainBert(nn.Module):
    """The part of a network's interface that `bertkit.inference` uses, on the CPU.

    Args:
        head: name of the class in ``bertkit.model.modeling_bert`` whose outputs are computed.
        config: its configuration.
        weights: all weights by name, float32.
    """

    def __init__(self, head: str, config: PreTrainedConfig, weights: Mapping[str, Tensor]):
        super().__init__()
        self.config = config
        self.device, self.dtype = torch.device("cpu"), torch.float32
        # Copies, since the given weights are mapped from a file, which may be overwritten or truncated meanwhile; the
        # matrices of the layers and of the pooler are in the order in which oneDNN reads them.
        reorders = has_onednn()
        self._weights = {
            name: torch.ops.mkldnn._reorder_linear_weight(values)
            if reorders and values.ndim == 2 and name.startswith(("bert.encoder.", "bert.pooler."))
            else values.clone()
            for name, values in weights.items()
        }
        self._activation = _ACTIVATIONS[config.hidden_act]
        self._name, self._pooled = _HEADS[head]
        weight, bias = (
            nn.Parameter(self._weights[f"{self._name}.{part}"], requires_grad=False) for part in ("weight", "bias")
        )
        # A module, so that a task can register hooks on it.
        layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
        layer.weight, layer.bias = weight, bias
        setattr(self, self._name, layer)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Returns the outputs of the head by name: ``logits`` (B, C) or (B, S, C), or ``start_logits`` and
        ``end_logits``, (B, S); the arguments are (B, S) int64."""
        words, positions, types = (
            self._weights[f"bert.embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        embedded = F.embedding(input_ids, words) + F.embedding(segments, types) + positions[: input_ids.shape[1]]
        states = self._norm("bert.embeddings", embedded)  # (B, S, H)
        mask = None
        if attention_mask is not None and not bool(attention_mask.all()):
            mask = attention_mask[:, None, None, :].bool()  # (B, 1, 1, S)
        last = self.config.num_hidden_layers - 1
        for number in range(last + 1):
            # The pooler reads the last layer's [CLS] only, so the other tokens are only attended to there.
            read = states[:, :1] if self._pooled and number == last else states
            states = self._layer(f"bert.encoder.layer.{number}.", read, states, mask)
        if self._pooled:
            states = self._dense("bert.pooler.dense", states[:, 0]).tanh()
        scores = getattr(self, self._name)(states)
        if self._name != "qa_outputs":
            return {"logits": scores}
        start, end = scores.unbind(dim=-1)
        return {"start_logits": start, "end_logits": end}

    def _layer(self, prefix: str, read: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
        """Computes one Transformer layer for the tokens ``read``, (B, R, H) to (B, R, H), which attend to ``states``,
        (B, S, H)."""
        query, key, value = (
            self._dense(f"{prefix}attention.self.{name}", inputs)
            .view(*inputs.shape[:2], self.config.num_attention_heads, -1)
            .transpose(1, 2)
            for name, inputs in (("query", read), ("key", states), ("value", states))
        )  # (B, A, R or S, D) each
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)
        attended = self._dense(f"{prefix}attention.output.dense", context) + read
        attended = self._norm(f"{prefix}attention.output", attended)
        inner = self._activation(self._dense(f"{prefix}intermediate.dense", attended))
        return self._norm(f"{prefix}output", self._dense(f"{prefix}output.dense", inner) + attended)

    def _dense(self, name: str, states: Tensor) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if not weight.is_mkldnn:
            return F.linear(states, weight, bias)
        return product(states, weight, bias)

    def _norm(self, name: str, states: Tensor) -> Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(states, weight.shape, weight, bias, self.config.layer_norm_eps)
