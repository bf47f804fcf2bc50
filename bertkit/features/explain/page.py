"""Rendering of the pages, and what they show of attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from bertkit.features.explain.attention import Attention
from bertkit.features.explain.attribution import Attribution
from bertkit.features.explain.pictures import MOST_TOKENS, sprites
from bertkit.runtime.json_text import dumps
from bertkit.runtime.pages.page import render_page

_MEANINGS = {
    "previous": "the token before",
    "next": "the token after",
    "same": "the token itself",
    "first": "the first token",
    "separator": "separators",
    "broad": "many tokens: entropy as a part of that of equal attention",
    "mixed": "none of these: the largest of the measures",
}


def render(template: str, **values: Any) -> str:
    """Renders a template of this folder with its style and script."""
    filters: dict[str, Callable[..., str]] = {
        "number": lambda value: f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}",
        "percent": lambda share: f"{100 * share:.1f} %",
        "sentence": lambda words: f"{words[0].upper()}{words[1:]}.",
    }
    return render_page("bertkit.features.explain", template, "explain.js", "explain.css", filters, **values)


def draw_attribution(attribution: Attribution) -> dict[str, Any]:
    """Returns what the page shows of an attribution beside its values: the lines of a curve."""
    drawn: dict[str, Any] = {}
    if (curve := attribution.curve) is not None:
        most = float(max(curve.start.max(), curve.end.max())) or 1.0
        step = 1000 / max(len(curve.words) - 1, 1)
        lines = {
            name: " ".join(f"{step * place:.1f},{150 - 130 * value / most:.1f}" for place, value in enumerate(values))
            for name, values in (("start", curve.start), ("end", curve.end))
        }
        drawn["curve_points"] = {**lines, "most": most}
    return drawn


def draw_attention(attention: Attention) -> dict[str, Any]:
    """Returns what the page shows of attention: pictures, names of heads, and the data that its script reads."""
    drawn = attention.weights[..., :MOST_TOKENS, :MOST_TOKENS]
    urls, levels, error = sprites(drawn)
    layers, heads = attention.names.shape
    values = [[round(attention.value(layer, head), 3) for head in range(heads)] for layer in range(layers)]
    counts = Counter(attention.names.flat)
    layer, head = attention.strongest()
    tokens = attention.tokens[:MOST_TOKENS]
    padding = attention.padding
    shown = padding.attention[:MOST_TOKENS, :MOST_TOKENS]
    return {
        "layers": layers,
        "heads": heads,
        "pictures": {"urls": urls, "levels": levels, "error": error},
        "numbers": values,
        "names": attention.names.tolist(),
        "kinds": [(name, _MEANINGS[name], counts[name]) for name in _MEANINGS if counts[name]],
        "first": (layer, head),
        "left_out": len(attention.tokens) - len(tokens),
        "data": dumps({"tokens": tokens, "names": attention.names.tolist(), "values": values, "head": [layer, head]}),
        "padding": padding,
        "padding_picture": sprites(shown[None, None])[0][0],
        "padding_tokens": int(padding.mask.sum()),
        "padding_drawn": shown.shape[-1],
    }
