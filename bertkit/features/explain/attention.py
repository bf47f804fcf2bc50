"""Attention of all heads to a text, and names of heads by what they do on it.

The measures are those of Clark et al. (2019), "What does BERT look at?": the mean attention of a token to the one
before it, to the one after it, to itself, to separators; and the entropy of its attention. They describe a head, and
explain no prediction.

A page shows matrices as PNG of 8 bits, in which opacity is the square root of the attention: that keeps small values
apart, of which most attention consists. Its script reads the values back from the pictures.

L layers, A heads of a layer, S tokens.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted
from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 0.5  # a head is named for what gets most of its attention, as in the paper
_BROAD = 0.8  # entropy as a part of that of equal attention
_ROUNDING = 1e-3
_MOST_TOKENS = 128  # of a drawn matrix
_MOST_BYTES = 1_700_000  # of all pictures of a page, as base64
_COLOUR = (43, 140, 196)  # readable on white and on black
_MEANINGS = {
    "previous": "the token before",
    "next": "the token after",
    "same": "the token itself",
    "first": "the first token",
    "separator": "separators",
    "broad": "many tokens: entropy as a part of that of equal attention",
    "mixed": "none of these: the largest of the measures",
}


@dataclass(frozen=True)
class Padding:
    """A text in a batch with a longer one: the tokens behind its own are padding, which the mask hides.

    Attributes:
        tokens: S tokens, of which the last are padding.
        mask: (S,) int64, 1 = token, 0 = padding.
        attention: (S, S) float32, mean over the heads of the last layer.
        to_padding: largest attention of a token to padding, of all heads and layers.
    """

    tokens: list[str]
    mask: np.ndarray
    attention: np.ndarray
    to_padding: float

    def page_values(self) -> dict[str, Any]:
        """Returns what a page shows of it."""
        drawn = self.attention[:_MOST_TOKENS, :_MOST_TOKENS]
        return {
            "padding": self,
            "padding_picture": sprites(drawn[None, None])[0][0],
            "padding_tokens": int(self.mask.sum()),
            "padding_drawn": drawn.shape[-1],
        }


@dataclass(frozen=True)
class Attention:
    """Attention of all heads.

    Attributes:
        tokens: S names of tokens.
        weights: (L, A, S, S) float32: from a token (row) to a token (column); rows sum to one.
        measures: name, such as ``previous`` → (L, A) float32 in [0, 1].
        names: (L, A) of names: the measure with most of the attention, ``broad``, or ``mixed``.
        padding: the text's first half in a batch with the whole text.
    """

    tokens: list[str]
    weights: np.ndarray
    measures: dict[str, np.ndarray]
    names: np.ndarray
    padding: Padding

    def value(self, layer: int, head: int) -> float:
        """Returns the measure by which a head, counted from 0, is named; for ``mixed`` the largest one."""
        name = str(self.names[layer, head])
        measures = {key: values[layer, head] for key, values in self.measures.items()}
        return float(measures[name] if name in measures else max(measures.values()))

    def strongest(self) -> tuple[int, int]:
        """Returns layer and head, counted from 0, of the one with most attention to one kind of token."""
        best = np.max([values for name, values in self.measures.items() if name != "broad"], axis=0)
        layer, head = np.unravel_index(int(best.argmax()), best.shape)
        return int(layer), int(head)

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data: the name of each head and its measure, by layer."""
        layers, heads = self.names.shape
        named = [
            [{"name": str(self.names[layer, head]), "value": self.value(layer, head)} for head in range(heads)]
            for layer in range(layers)
        ]
        return {"tokens": self.tokens, "heads": named}

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        layers, heads = self.names.shape
        counts = ", ".join(f"{count} {name}" for name, count in Counter(self.names.flat).most_common())
        layer, head = self.strongest()
        clearest = "no head has most of its attention on one kind of token"
        if (name := self.names[layer, head]) not in ("broad", "mixed"):
            clearest = f"most clearly: layer {layer + 1}, head {head + 1}, {name} {self.value(layer, head):.2f}"
        return [
            f"attention: {counted(layers, 'layer')} × {counted(heads, 'head')}: {counts}",
            f"  {clearest}; attention describes a head and explains no prediction",
        ]

    def page_values(self) -> dict[str, Any]:
        """Returns what a page shows: pictures, names of heads, and the data that its script reads."""
        urls, levels, error = sprites(self.weights[..., :_MOST_TOKENS, :_MOST_TOKENS])
        layers, heads = self.names.shape
        values = [[round(self.value(layer, head), 3) for head in range(heads)] for layer in range(layers)]
        names, counts = self.names.tolist(), Counter(self.names.flat)
        layer, head = self.strongest()
        tokens = self.tokens[:_MOST_TOKENS]
        return {
            "layers": layers,
            "heads": heads,
            "pictures": {"urls": urls, "levels": levels, "error": error},
            "numbers": values,
            "names": names,
            "kinds": [(name, _MEANINGS[name], counts[name]) for name in _MEANINGS if counts[name]],
            "first": (layer, head),
            "left_out": len(self.tokens) - len(tokens),
            "data": dumps({"tokens": tokens, "names": names, "values": values, "head": [layer, head]}),
            **self.padding.page_values(),
        }


def attention_of(network: Network, pieces: Pieces) -> Attention:
    """Computes the attention of all heads.

    Raises:
        CheckpointError: the family does not return probabilities of attention to all tokens.
        DataError: the first text has no word.
    """
    own = [word for word in pieces.words if word.segment == 0]
    if not own:
        raise DataError("text 1: the tokenizer leaves no word of it; give a text with at least one word")
    start, end = own[0].start, own[(len(own) - 1) // 2].end  # of the first half of its words
    ids = [*pieces.ids[:start][pieces.is_special[:start]].tolist(), *pieces.ids[start:end].tolist()]
    # Behind one text are its last special tokens; behind the first of a pair one or two of them, and the second text.
    behind = pieces.ids[own[-1].end :].tolist()
    ids += behind if len(pieces.texts) == 1 else behind[:1]
    first_half = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
    whole = {name: values[0].tolist() for name, values in pieces.batch(network).items()}
    both = padded([whole, {name: first_half[name] for name in whole}], network.tokenizer, list(whole))
    of_both = _compute_weights(network, network.on_device(both), len(pieces.ids))
    weights = of_both[0]
    measures = measure_heads(weights, separators=pieces.ids == network.tokenizer.sep_token_id)
    mask = both["attention_mask"][1].numpy()
    to_padding = of_both[1][:, :, mask == 1][..., mask == 0]
    padding = Padding(
        tokens=network.tokenizer.convert_ids_to_tokens(both["input_ids"][1].tolist()),
        mask=mask,
        attention=of_both[1][-1].mean(axis=0),
        to_padding=float(to_padding.max()) if to_padding.size else 0.0,
    )
    return Attention(pieces.labels(), weights, measures, name_heads(measures), padding)


def _compute_weights(network: Network, batch: Mapping[str, Tensor], length: int) -> np.ndarray:
    """Returns the attention to a batch, (B, L, A, S, S) float32."""
    import torch

    with torch.inference_mode():
        outputs = network.model.base_model(**batch, output_attentions=True, return_dict=True)
    refusal = CheckpointError(
        f"{network.name}: models of type {network.family!r} do not return the attention between all tokens, so it is "
        "not shown"
    )
    layers = getattr(outputs, "attentions", None) or ()
    if not layers or any(each is None or each.shape[2:] != (length, length) for each in layers):
        raise refusal
    weights = torch.stack(list(layers), dim=1).float().cpu().numpy()
    own = batch["attention_mask"].cpu().numpy().astype(bool)
    sums = weights.sum(axis=-1).transpose(0, 3, 1, 2)[own]
    if abs(sums - 1).max() > _ROUNDING:
        raise refusal
    return weights


def measure_heads(weights: np.ndarray, separators: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the measures of the heads, (L, A) each, from (L, A, S, S)."""
    length = weights.shape[-1]
    logs = np.log(np.maximum(weights, np.finfo(np.float32).tiny))
    entropy = -(weights * logs).sum(axis=-1).mean(axis=-1)
    measures = {
        "previous": np.diagonal(weights, -1, axis1=2, axis2=3).mean(axis=-1),
        "next": np.diagonal(weights, 1, axis1=2, axis2=3).mean(axis=-1),
        "same": np.diagonal(weights, axis1=2, axis2=3).mean(axis=-1),
        "first": weights[..., 0].mean(axis=-1),
    }
    if separators.any():
        measures["separator"] = weights[..., separators].sum(axis=-1).mean(axis=-1)
    return {**measures, "broad": entropy / math.log(max(length, 2))}


def name_heads(measures: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the names of the heads, (L, A)."""
    kinds = [name for name in measures if name != "broad"]
    stacked = np.stack([measures[name] for name in kinds])
    best = np.array(kinds, dtype=object)[stacked.argmax(axis=0)]
    others = np.where(measures["broad"] >= _BROAD, "broad", "mixed")
    return np.where(stacked.max(axis=0) >= _MOST, best, others)


def sprites(weights: np.ndarray) -> tuple[list[str], int, float]:
    """Draws attention (L, A, S, S) in 256 levels; in fewer, if the pictures would be larger than 1.7 MB.

    Returns:
        L data URLs, each of a picture with the matrices of the heads below each other, (A * S, S) pixels; the number of
        different opacities; and the largest difference between an attention and what a picture shows.
    """
    from PIL import Image

    opacity = np.sqrt(np.clip(weights, 0, 1)) * 255
    for step in (1, 2, 4, 8, 16, 32):
        levels = (np.rint(opacity / step).astype(np.int64) * step).clip(0, 255).astype(np.uint8)
        urls = []
        for layer in levels:
            picture, file = Image.fromarray(layer.reshape(-1, layer.shape[-1])), io.BytesIO()
            picture.putpalette(bytes(_COLOUR) * 256)
            picture.save(file, "PNG", compress_level=9, transparency=bytes(range(256)))
            urls.append(f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}")
        if sum(map(len, urls)) <= _MOST_BYTES:
            break
    error = float(abs((levels / 255.0) ** 2 - weights).max())
    return urls, 256 // step + (step > 1), error  # 0, step, …, and 255
