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


class Layers(NamedTuple):
    """Scores by layer of one kind of vectors.

    Attributes:
        vectors: their name.
        lines: number of a candidate → points, ``x y`` in pixels and the score as text.
    """

    vectors: str
    lines: dict[int, list[tuple[float, float, str]]]


def amount(value: float) -> str:
    """Formats a pseudo-perplexity in three digits, or without decimals.

    >>> amount(12.3456), amount(105_800.2), amount(1.2e12)
    ('12.3', '105,800', '1.2e+12')
    """
    return f"{value:.3g}" if value < 1000 or value >= 1e7 else f"{value:,.0f}"


def render(choice: Any) -> str:
    """Returns the page of a `bertkit.features.choosing.result.Choice` as HTML."""
    return render_page(
        "bertkit.features.choosing", "choose.html", "choose.js", "choose.css", choice=choice, **_drawn(choice)
    )


def _drawn(choice: Any) -> dict[str, Any]:
    """Returns what the template draws."""
    frozen = [each.frozen for each in choice.candidates]
    scores = [each for each in frozen if each is not None]
    values = [value for each in scores for value in (each.score, each.low, each.high) if value is not None]
    by_layer = [value for each in scores for line in each.by_layer.values() for value in line if value is not None]
    low, high = _limits(choice.metric, [*values, *by_layer])
    known = [
        value
        for each in choice.candidates
        for value in (each.perplexity, each.perplexity_low, each.perplexity_high)
        if value is not None
    ]
    first, last = (math.log10(min(known)), math.log10(max(known))) if known else (0.0, 1.0)
    last = max(last, first + 0.3)

    def place_of_score(value: float) -> float:
        return round(_WIDTH * (value - low) / (high - low), 1)

    def place_of_perplexity(value: float) -> float:
        return round(_WIDTH * (math.log10(value) - first) / (last - first), 1)

    return {
        "scores": [_mark(each.score, each.low, each.high, "{:.3f}".format, place_of_score) for each in scores],
        "score_ticks": [(place_of_score(value), f"{value:.2f}") for value in _ticks(low, high)],
        "perplexities": [
            _mark(each.perplexity, each.perplexity_low, each.perplexity_high, amount, place_of_perplexity)
            for each in choice.candidates
        ],
        "perplexity_ticks": [(place_of_perplexity(value), amount(value)) for value in _log_ticks(first, last)],
        "has_perplexities": bool(known),
        "layers": _layers(choice, low, high),
        "layer_ticks": [
            (round(_HEIGHT * (high - value) / (high - low), 1), f"{value:.2f}") for value in _ticks(low, high)
        ],
        "most_layers": max((each.layers for each in scores), default=1),
        "left": _LEFT,
        "width": _WIDTH,
        "height": _HEIGHT,
    }


def _limits(metric: str | None, values: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of the axis of scores: their range, without the part below 0 if no score is there."""
    low, high = score_range(metric or "", [metric or ""])
    lowest, highest = min(values, default=0.0), max(values, default=1.0)
    low = 0.0 if lowest >= 0 else min(low, lowest)
    return low, max(highest, low + 1e-9) if high is None or highest > high else high


def _ticks(low: float, high: float) -> list[float]:
    """Returns multiples of a quarter of a power of ten between both ends, four to eleven of them."""
    step = 10 ** math.floor(math.log10(high - low)) / 4
    step *= 2 if high - low > 2 * 4 * step else 1
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _log_ticks(first: float, last: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten, or the powers alone, between 10 to the power of both ends."""
    powers = range(math.floor(first), math.ceil(last) + 1)
    factors = (1, 2, 5) if last - first < 1.5 else (1,)
    values = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in values if first <= math.log10(value) <= last]


def _mark(
    value: float | None,
    low: float | None,
    high: float | None,
    form: Callable[[float], str],
    place: Callable[[float], float],
) -> Mark:
    if value is None:
        return Mark(None, 0, 0, "–")
    if low is None or high is None:
        return Mark(place(value), place(value), place(value), form(value))
    return Mark(place(value), place(low), place(high), f"{form(value)} ({form(low)} to {form(high)})")


def _layers(choice: Any, low: float, high: float) -> list[Layers]:
    every = [(number, each.frozen) for number, each in enumerate(choice.candidates) if each.frozen is not None]
    most = max((each.layers for _, each in every), default=1)
    drawn = []
    for vectors in dict.fromkeys(name for _, each in every for name in each.by_layer):
        lines = {
            number: [
                (round(_WIDTH * layer / most, 1), round(_HEIGHT * (high - value) / (high - low), 1), f"{value:.3f}")
                for layer, value in enumerate(each.by_layer[vectors])
                if value is not None
            ]
            for number, each in every
        }
        drawn.append(Layers(vectors, lines))
    return drawn
