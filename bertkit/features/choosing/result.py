"""The result of `bertkit.choose`: a table, sentences, a page and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from bertkit.features.choosing.page import amount, render, with_interval
from bertkit.features.choosing.wording import Wording
from bertkit.runtime.files import readable_size
from bertkit.runtime.pages.page import framed

_UNKNOWN = "–"
_WIDEST = 22  # characters of a name in a table


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
        perplexity: pseudo-perplexity per word; None without a masked-LM head.
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
        command: command that continues with the best checkpoint.
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
        return render(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return framed(self.html(), "Choice of a checkpoint")

    def tables(self) -> list[dict[str, list[str]]]:
        """Returns tables for a terminal of 80 columns, each heading → cells, one for each candidate.

        The words of a heading are separated by ``_``, see `bertkit.runtime.formats.aligned`.
        """
        every = self.candidates
        of_each = [each.name for each in every]
        names = {"model": [name if len(name) <= _WIDEST else f"…{name[1 - _WIDEST :]}" for name in of_each]}
        texts = {
            "pieces_per_word": [f"{each.wording.pieces_per_word:.2f}" for each in every],
            "split_words": [_percent(each.wording.split) for each in every],
            "unknown_words": [_percent(each.wording.unknown) for each in every],
            "texts_too_long": [_percent(each.wording.too_long) for each in every],
            "pseudo-perplexity_per_word": [
                with_interval(each.perplexity, each.perplexity_low, each.perplexity_high, amount) for each in every
            ],
        }
        cost = {
            "parameters": [f"{each.parameters / 1e6:.3g} M" for each in every],
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

    >>> short_names(["google-bert/bert-base-uncased", "runs/a/best", "runs/b/best"])
    ['bert-base-uncased', 'a/best', 'b/best']
    """
    parts = [PurePath(model).parts for model in models]
    names = []
    for one in parts:
        number = 1
        while number < len(one) and sum(other[-number:] == one[-number:] for other in parts) > 1:
            number += 1
        names.append("/".join(one[-number:]))
    return names


def milliseconds(value: float) -> str:
    """Formats a time with one decimal, or in two digits if it is short.

    >>> milliseconds(12.34), milliseconds(0.5123)
    ('12.3', '0.51')
    """
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
