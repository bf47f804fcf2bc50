"""The result of `bertkit.choose`: a table, sentences, a page with drawings in one file that loads nothing, and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from bertkit.features.choosing.wording import Wording
from bertkit.inference.facts import percent
from bertkit.metrics import score_range
from bertkit.runtime.files import readable_size
from bertkit.runtime.formats import amount
from bertkit.runtime.pages.page import frame_page, render_page

_UNKNOWN = "–"
_WIDEST = 22  # characters of a name in a table
_LEFT, _WIDTH = 40, 360  # pixels of the drawings: of the axis, and of the values
_HEIGHT = 200


@dataclass(frozen=True)
class FrozenScore:
    """Cross-validated score of linear heads on the frozen vectors of a checkpoint.

    Attributes:
        score: the metric; None where it is undefined, as a correlation is of equal predictions.
        low, high: ends of its 95 % interval over examples; None if unknown.
        layer: the best layer, from 1.
        layers: number of layers.
        pooling: the best vectors of it.
        by_layer: vectors → score of each layer, 0 the embeddings; None where it is undefined.
    """

    score: float | None
    low: float | None
    high: float | None
    layer: int
    layers: int
    pooling: str
    by_layer: dict[str, list[float | None]]


@dataclass(frozen=True)
class Candidate:
    """What is known of a checkpoint.

    Attributes:
        model: as given.
        name: short name in tables.
        frozen: its score; None without labels.
        wording: how its tokenizer cuts the texts.
        perplexity: pseudo-perplexity per word; None without a masked-LM head, or without a word that all have pieces
            for.
        perplexity_low, perplexity_high: ends of its 95 % interval over words; None if unknown.
        no_perplexity: why there is none; empty if there is one.
        parameters: of the encoder, without heads.
        bytes: size of the files of weights; None if unknown.
        milliseconds: time to encode a text in batches, on this machine.
    """

    model: str
    name: str
    frozen: FrozenScore | None
    wording: Wording
    perplexity: float | None
    perplexity_low: float | None
    perplexity_high: float | None
    no_perplexity: str
    parameters: int
    bytes: int | None
    milliseconds: float

    @property
    def score(self) -> float:
        """Its score; −∞ without labels, and where it is undefined."""
        return -math.inf if self.frozen is None or self.frozen.score is None else self.frozen.score


@dataclass(frozen=True)
class Choice:
    """Checkpoints beside each other, and what can be concluded.

    Attributes:
        candidates: in the order given.
        metric: metric of the scores; None without labels.
        examples: number of labelled examples, or of texts.
        source: file or data set of them.
        folds: number of folds; None without labels.
        masked_words: number of words of the pseudo-perplexities.
        device: where the times were measured.
        best: name of the best candidate; None if several have the same score, or there is none.
        sentences: what can be concluded.
        command: command that continues with the best checkpoint; if several have the same score, with the first of
            them, and if nothing ranks them, with the first one given.
    """

    candidates: list[Candidate]
    metric: str | None
    examples: int
    source: str
    folds: int | None
    masked_words: int
    device: str
    best: str | None
    sentences: list[str]
    command: str

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data."""
        return asdict(self)

    def html(self) -> str:
        """Returns the page: one HTML file that loads nothing."""
        drawn: dict[str, Any] = {**_draw_scores(self), **_draw_perplexities(self.candidates)}
        drawn |= {"left": _LEFT, "width": _WIDTH, "height": _HEIGHT}
        return render_page("bertkit.features.choosing", "choose.html", "choose.js", "choose.css", choice=self, **drawn)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return frame_page(self.html(), "Choice of a checkpoint")

    def tables(self) -> list[dict[str, list[str]]]:
        """Returns tables for a terminal of 80 columns, each heading → cells, one for each candidate.

        The words of a heading are separated by ``_``, see `bertkit.runtime.formats.align_columns`.
        """
        every = self.candidates
        of_each = [each.name for each in every]
        names = {"model": [name if len(name) <= _WIDEST else f"…{name[1 - _WIDEST :]}" for name in of_each]}
        texts = {
            "pieces_per_word": [f"{each.wording.pieces_per_word:.2f}" for each in every],
            "split_words": [percent(each.wording.split) for each in every],
            "unknown_words": [percent(each.wording.unknown) for each in every],
            "texts_too_long": [percent(each.wording.too_long) for each in every],
            "pseudo-perplexity_per_word": [
                with_interval(each.perplexity, each.perplexity_low, each.perplexity_high, amount) for each in every
            ],
        }
        cost = {
            "parameters": [f"{amount(each.parameters / 1e6)} M" for each in every],
            "weights": [_UNKNOWN if each.bytes is None else readable_size(each.bytes) for each in every],
            "ms per_text": [milliseconds(each.milliseconds) for each in every],
        }
        tables = [{**names, **texts}, {**names, **cost}]
        if self.metric is None:
            return tables
        known = [each.frozen for each in every if each.frozen is not None]
        scores = {
            self.metric: ["undefined" if each.score is None else f"{each.score:.4f}" for each in known],
            "95 %_interval": [_UNKNOWN if each.low is None else f"{each.low:.3f} to {each.high:.3f}" for each in known],
            "best_layer": [f"{each.layer} of {each.layers}" for each in known],
            "vectors": [each.pooling for each in known],
        }
        return [{**names, **scores}, *tables]

    def lines(self) -> list[str]:
        """Returns what is concluded, for a terminal; ends with the command."""
        reasons: dict[str, list[str]] = {}
        for each in self.candidates:
            if each.no_perplexity:
                reasons.setdefault(each.no_perplexity, []).append(each.name)
        without = [f"No pseudo-perplexity of {', '.join(names)}: {reason}." for reason, names in reasons.items()]
        return [*without, *self.sentences, self.command]


def short_names(models: Sequence[str]) -> list[str]:
    """Returns the last parts of the names of checkpoints by which they differ.

    >>> short_names(["google-bert/bert-base-uncased", "runs/a/best", "runs/b/best", "."])
    ['bert-base-uncased', 'a/best', 'b/best', '.']
    >>> short_names(["/a/best", "runs/a/best"])
    ['/a/best', 'runs/a/best']
    """
    parts = [PurePath(model).parts for model in models]
    names = []
    for one in parts:
        number = 1
        while number < len(one) and sum(other[-number:] == one[-number:] for other in parts) > 1:
            number += 1
        names.append(str(PurePath(*one[-number:])))
    return names


def milliseconds(value: float) -> str:
    """Formats a time with one decimal, or in two digits if it is short.

    >>> milliseconds(12.34), milliseconds(0.5123)
    ('12.3', '0.51')
    """
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def with_interval(value: float | None, low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    """Formats a value with the ends of its interval, as far as they are known.

    >>> with_interval(12, 9, 15, amount), with_interval(12, None, None, amount)
    ('12 (9 to 15)', '12')
    """
    if value is None:
        return _UNKNOWN
    return form(value) + ("" if low is None or high is None else f" ({form(low)} to {form(high)})")


# ---- drawings of the page --------------------------------------------------------------------------------------------


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


def _draw_scores(choice: Choice) -> dict[str, Any]:
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
        "score_ticks": [(place(value), f"{value:.2f}") for value in _place_ticks(low, high)],
        "layers": lines_of,
        "layer_ticks": [(height(value), f"{value:.2f}") for value in _place_ticks(low, high)],
        "most_layers": most_layers,
    }


def _draw_perplexities(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Returns the marks of the pseudo-perplexities, and the ticks of their axis, which is logarithmic."""
    of_candidates = [(each.perplexity, each.perplexity_low, each.perplexity_high) for each in candidates]
    known = [value for values in of_candidates for value in values if value is not None]
    first, last = (math.log10(min(known)), math.log10(max(known))) if known else (0.0, 1.0)
    last = max(last, first + math.log10(2))  # 1 to 2 is the longest way from one tick to the next

    def place(value: float) -> float:
        return round(_WIDTH * (math.log10(value) - first) / (last - first), 1)

    # Digits times powers of ten, one to six of them: the shorter the axis, the more digits.
    digits = (1, 2, 3, 5, 7) if last - first < 0.5 else (1, 2, 5) if last - first < 1.5 else (1,)
    powers = range(math.floor(first), math.ceil(last) + 1, math.ceil((last - first) / 5))
    rounds = [digit * 10.0**power for power in powers for digit in digits]
    return {
        "perplexities": [_mark(*values, amount, place) for values in of_candidates],
        "perplexity_ticks": [(place(value), amount(value)) for value in rounds if first <= math.log10(value) <= last],
        "has_perplexities": bool(known),
    }


def _place_ticks(low: float, high: float) -> list[float]:
    """Returns multiples of a quarter, a half or a whole of a power of ten between both ends, four to eleven of them."""
    step = 10 ** math.floor(math.log10(high - low)) / 4
    while high - low > 10 * step:
        step *= 2
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
