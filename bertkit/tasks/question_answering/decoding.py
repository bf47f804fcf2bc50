"""Scores of starts and ends → the best spans of a text.

A span from token i to token j scores start[i] + end[j] (BERT §4.2). Considered are all with i ≤ j inside the text, of
at most ``max_answer_length`` tokens. Their text is cut out of the original text by characters, so that it is never put
together again from tokens. That there is no answer scores start[CLS] + end[CLS], of several windows the lowest (BERT
§4.3; the released run_squad.py): every window must say so.

A span that several windows have counts once, with the best score that any of them gives it. The released run_squad.py
counts it only in the window where its first token has the most tokens around it; where that window ends within the
answer, no score of the model could bring this answer out.

All spans of a text are one array; the loops of Python go over texts, windows and the best spans only.

Dimension letters: N windows, S tokens of a window, T tokens of a text, L tokens of the longest answer, K best spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

_NO_OTHER_CHOICE = 1e9  # odds of no answer where there is no span; a number, since JSON has no infinity

_COLUMNS = ("example", "cls", "context_begin", "first_token", "char_starts", "char_ends")


@dataclass(frozen=True)
class Span:
    """A part of a text that may be the answer.

    Attributes:
        text: its characters.
        start, end: the first of these characters, and the one after the last, in the text.
        start_logit, end_logit: what the model gave its first and last token.
        probability: in (0, 1], its share among everything that was considered: exp(score) over the sum of exp(score) of
            all spans and, where that is possible, of no answer.
    """

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float

    @property
    def score(self) -> float:
        """What spans are compared by."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True)
class Decoded:
    """What the scores say about one question.

    Attributes:
        spans: the best ones, best first, each text once; none where the text has no tokens.
        null_start_logit, null_end_logit: of [CLS], from the window in which their sum is lowest.
        null_probability: of no answer, as `Span.probability`; 0 where every question has an answer.
    """

    spans: tuple[Span, ...]
    null_start_logit: float
    null_end_logit: float
    null_probability: float

    @property
    def null_odds(self) -> float:
        """The score of no answer less that of the best span: the larger, the likelier there is none."""
        if not self.spans:
            return _NO_OTHER_CHOICE
        return self.null_start_logit + self.null_end_logit - self.spans[0].score


def decode_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    features: Mapping[str, Sequence[Any]],
    contexts: Sequence[str],
    *,
    max_answer_length: int,
    n_best_size: int,
    may_be_unanswerable: bool,
) -> list[Decoded]:
    """The best answers to every question.

    Args:
        start_logits, end_logits: (N, S), from the model; what lies beyond a window's tokens is not looked at.
        features: what `encode_windows` gave for these windows, at least one for each text.
        contexts: the texts.
        max_answer_length: L, tokens of the longest answer.
        n_best_size: K, how many spans are looked at; of several with the same text the best is returned.
        may_be_unanswerable: whether no answer is one of the possibilities, and has a probability.

    Returns:
        One for each text.
    """
    features = {name: features[name] for name in _COLUMNS}  # each read once: reading a data set's takes long
    owners = np.asarray(features["example"])
    borders = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    longest = min(max_answer_length, start_logits.shape[1])
    cls = np.asarray(features["cls"])[:, None]
    null_logits = np.concatenate(
        [np.take_along_axis(logits, cls, axis=1) for logits in (start_logits, end_logits)], axis=1, dtype=np.float64
    )
    decoded = []
    for context, (first, last) in zip(contexts, pairwise(borders), strict=True):
        windows = range(first, last)
        scores, best_window = _scores(start_logits, end_logits, features, windows, longest)
        null_start, null_end = null_logits[first + null_logits[first:last].sum(axis=1).argmin()].tolist()
        total = _log_sum_exp(scores)
        if may_be_unanswerable:
            total = float(np.logaddexp(total, null_start + null_end))
        chosen = _largest(scores, n_best_size)
        spans = _distinct(chosen, best_window, start_logits, end_logits, features, context, total)
        null_probability = float(np.exp(null_start + null_end - total)) if may_be_unanswerable else 0.0
        decoded.append(Decoded(tuple(spans), null_start, null_end, null_probability))
    return decoded


def _scores(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    features: Mapping[str, Sequence[Any]],
    windows: range,
    longest: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of all spans of one text.

    Returns:
        (T, L) float32 for the T tokens of the text: the span from a token to the one so many after it, -inf where no
        window has it; and (T, L) int64, the window of that score.
    """
    tokens = features["first_token"][windows[-1]] + len(features["char_starts"][windows[-1]])
    scores = np.full((tokens, longest), -np.inf, np.float32)
    best_window = np.zeros((tokens, longest), np.int64)
    for window in windows:
        begin, count = features["context_begin"][window], len(features["char_starts"][window])
        if not count:
            continue
        ends = np.full(count + longest - 1, -np.inf, np.float32)
        ends[:count] = end_logits[window, begin : begin + count]
        from_each = np.lib.stride_tricks.sliding_window_view(ends, longest)
        of_window = start_logits[window, begin : begin + count, None].astype(np.float32) + from_each
        part = slice(features["first_token"][window], features["first_token"][window] + count)
        best_window[part][of_window > scores[part]] = window
        scores[part] = np.maximum(scores[part], of_window)
    return scores, best_window


def _log_sum_exp(scores: np.ndarray) -> float:
    """Of all spans, in float64; -inf where there is none."""
    if not scores.size:
        return -np.inf
    highest = scores.max()
    return float(highest + np.log(np.exp(scores - highest, dtype=np.float64).sum()))


def _largest(scores: np.ndarray, most: int) -> list[tuple[int, int]]:
    """First token and number of tokens after it of the best spans, best first; of equal ones the first and shortest."""
    flat = scores.ravel()
    most = min(most, np.isfinite(flat).sum())
    if not most:
        return []
    places = np.sort(np.argpartition(flat, -most)[-most:])
    places = places[np.argsort(-flat[places], kind="stable")]
    first, more = np.unravel_index(places, scores.shape)
    return list(zip(first.tolist(), more.tolist(), strict=True))


def _distinct(
    chosen: Sequence[tuple[int, int]],
    best_window: np.ndarray,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    features: Mapping[str, Sequence[Any]],
    context: str,
    total: float,
) -> Iterator[Span]:
    """The spans that were chosen, each text once; ``total`` is the log of the sum of exp(score) of everything."""
    seen = {""}
    for token, more in chosen:
        window = best_window[token, more]
        place = token - features["first_token"][window]
        start, end = features["char_starts"][window][place], features["char_ends"][window][place + more]
        if (text := context[start:end]) not in seen:
            seen.add(text)
            position = features["context_begin"][window] + place
            logits = float(start_logits[window, position]), float(end_logits[window, position + more])
            yield Span(text, start, end, *logits, min(float(np.exp(sum(logits) - total)), 1.0))
