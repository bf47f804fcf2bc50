"""The page of `bertkit.choose`: scores, layers and pseudo-perplexities as drawings, in one file that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bertkit.metrics import score_range
from bertkit.runtime.pages.page import render_page

_LEFT, _WIDTH = 40, 360  # pixels of the drawings: of the axis, and of the values
_HEIGHT = 200


class Mark(NamedTuple):
    """A value with its interval in pixels, and as text.

    Attributes:
        at: place of the value; None where it is unknown.
        low, high: ends of the interval; equal to ``at`` where there is none.
        text: value and interval.
    """

    at: float | None
    low: float
    high: float
    text: str


def amount(value: float) -> str:
    """Formats a pseudo-perplexity in three digits, or without decimals.

    >>> amount(12.3456), amount(105_800.2), amount(1.2e12)
    ('12.3', '105,800', '1.2e+12')
    """
    return f"{value:.3g}" if value < 1000 or value >= 1e7 else f"{value:,.0f}"


def with_interval(value: float | None, low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    """Formats a value with the ends of its interval, as far as they are known.

    >>> with_interval(12, 9, 15, amount), with_interval(12, None, None, amount)
    ('12 (9 to 15)', '12')
    """
    if value is None:
        return "–"
    return form(value) + ("" if low is None or high is None else f" ({form(low)} to {form(high)})")


def render(choice: Any) -> str:
    """Returns the page of a `bertkit.features.choosing.result.Choice` as HTML."""
    drawn: dict[str, Any] = {**_draw_scores(choice), **_draw_perplexities(choice.candidates)}
    drawn |= {"left": _LEFT, "width": _WIDTH, "height": _HEIGHT}
    return render_page("bertkit.features.choosing", "choose.html", "choose.js", "choose.css", choice=choice, **drawn)


def _draw_scores(choice: Any) -> dict[str, Any]:
    """Returns the marks of the scores, the lines of the layers, and the ticks of both axes."""
    frozen = [each.frozen for each in choice.candidates]
    scores = [each for each in frozen if each is not None]
    values = [value for each in scores for value in (each.score, each.low, each.high) if value is not None]
    values += [value for each in scores for line in each.by_layer.values() for value in line if value is not None]
    # The axis of scores has their range, without the part below 0 if no score is there.
    low, most = score_range(choice.metric or "", [choice.metric or ""])
    lowest, highest = min(values, default=0.0), max(values, default=1.0)
    low = 0.0 if lowest >= 0 else min(low, lowest)
    high = max(highest, low + 1e-9) if most is None or highest > most else most

    def place(value: float) -> float:
        return round(_WIDTH * (value - low) / (high - low), 1)

    def height(value: float) -> float:
        return round(_HEIGHT * (high - value) / (high - low), 1)

    most_layers = max((each.layers for each in scores), default=1)
    lines_of = {
        vectors: {
            number: [
                (round(_WIDTH * layer / most_layers, 1), height(value), f"{value:.3f}")
                for layer, value in enumerate(each.by_layer[vectors])
                if value is not None
            ]
            for number, each in enumerate(frozen)
            if each is not None
        }
        for vectors in dict.fromkeys(name for each in scores for name in each.by_layer)
    }
    return {
        "scores": [_mark(each.score, each.low, each.high, "{:.3f}".format, place) for each in scores],
        "score_ticks": [(place(value), f"{value:.2f}") for value in _ticks(low, high)],
        "layers": lines_of,
        "layer_ticks": [(height(value), f"{value:.2f}") for value in _ticks(low, high)],
        "most_layers": most_layers,
    }


def _draw_perplexities(candidates: Sequence[Any]) -> dict[str, Any]:
    """Returns the marks of the pseudo-perplexities, and the ticks of their axis, which is logarithmic."""
    of_candidates = [(each.perplexity, each.perplexity_low, each.perplexity_high) for each in candidates]
    known = [value for values in of_candidates for value in values if value is not None]
    first, last = (math.log10(min(known)), math.log10(max(known))) if known else (0.0, 1.0)
    last = max(last, first + 0.3)

    def place(value: float) -> float:
        return round(_WIDTH * (math.log10(value) - first) / (last - first), 1)

    # 1, 2 and 5 times powers of ten, or the powers alone.
    powers = range(math.floor(first), math.ceil(last) + 1)
    rounds = [factor * 10.0**power for power in powers for factor in ((1, 2, 5) if last - first < 1.5 else (1,))]
    return {
        "perplexities": [_mark(*values, amount, place) for values in of_candidates],
        "perplexity_ticks": [(place(value), amount(value)) for value in rounds if first <= math.log10(value) <= last],
        "has_perplexities": bool(known),
    }


def _ticks(low: float, high: float) -> list[float]:
    """Returns multiples of a quarter of a power of ten between both ends, four to eleven of them."""
    step = 10 ** math.floor(math.log10(high - low)) / 4
    step *= 2 if high - low > 2 * 4 * step else 1
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _mark(
    value: float | None,
    low: float | None,
    high: float | None,
    form: Callable[[float], str],
    place: Callable[[float], float],
) -> Mark:
    text = with_interval(value, low, high, form)
    if value is None:
        return Mark(None, 0, 0, text)
    low, high = (value, value) if low is None or high is None else (low, high)
    return Mark(place(value), place(low), place(high), text)
