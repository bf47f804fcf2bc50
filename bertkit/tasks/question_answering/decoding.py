"""Decoding of start and end logits to answer spans, and the files of predictions.

The score of a span from token i to token j is start[i] + end[j] (BERT §4.2). Candidates are all spans with i ≤ j inside
the text, of at most ``max_answer_length`` tokens. Answers are substrings of the original text by character offsets;
they are not reassembled from tokens. The score of no answer is start[CLS] + end[CLS], the minimum over the windows
(BERT §4.3; the released run_squad.py): all windows have to agree.

A span that several windows contain counts once, with its best score. The released run_squad.py scores it only in the
window in which its first token has the most context; if that window ends within the answer, the answer cannot be
predicted.

All spans of a text are scored in one array; Python loops run over texts, windows and the best spans only.

Dimension letters: N windows, S tokens of a window, T tokens of a text, L tokens of the longest answer, K best spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.runtime.files import write_json

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"

_NO_OTHER_CHOICE = 1e9  # log-odds of no answer if there is no span; finite, since JSON has no infinity

_COLUMNS = ("example", "cls", "context_begin", "first_token", "char_starts", "char_ends")


@dataclass(frozen=True)
class Span:
    """Candidate answer.

    Attributes:
        text: text of the span.
        start, end: character positions in the text; ``end`` is exclusive.
        start_logit, end_logit: logits of its first and last token.
        probability: softmax of the scores over all spans and, if questions may be unanswerable, no answer; in [0, 1].
    """

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float

    @property
    def score(self) -> float:
        """Sum of the start and end logits, by which spans are ranked."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True)
class Decoded:
    """Decoded answers to one question.

    Attributes:
        spans: the best spans in descending order, with distinct texts; empty if the text has no tokens.
        null_start_logit, null_end_logit: logits of [CLS], from the window with their smallest sum.
        null_probability: probability of no answer, as `Span.probability`; 0 if every question has an answer.
    """

    spans: tuple[Span, ...]
    null_start_logit: float
    null_end_logit: float
    null_probability: float

    @property
    def null_odds(self) -> float:
        """Score of no answer minus the score of the best span; no answer is more likely the larger it is."""
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
    """Decodes the best answers to every question; one entry per text.

    Args:
        start_logits, end_logits: (N, S), from the model; positions beyond a window's tokens are ignored.
        features: columns from `encode_windows` for these windows, at least one window per text.
        contexts: the texts.
        max_answer_length: L, maximum number of tokens of an answer.
        n_best_size: K, number of spans to consider; among spans with the same text only the best is returned.
        may_be_unanswerable: include no answer among the candidates.
    """
    features = {name: features[name] for name in _COLUMNS}  # a data set's columns are slow to read
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
        total = -np.inf  # the log of the sum of exp(score) of all candidates
        if scores.size:
            highest = scores.max()
            total = float(highest + np.log(np.exp(scores - highest, dtype=np.float64).sum()))
        if may_be_unanswerable:
            total = float(np.logaddexp(total, null_start + null_end))
        spans = _best_spans(scores, best_window, start_logits, end_logits, features, context, n_best_size, total)
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
    """Computes the scores of all spans of one text.

    Returns:
        Scores (T, L) float32, indexed by the first token and the number of tokens after it, -inf if no window contains
        the span; and the windows of these scores, (T, L) int64.
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


def _best_spans(
    scores: np.ndarray,
    best_window: np.ndarray,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    features: Mapping[str, Sequence[Any]],
    context: str,
    most: int,
    total: float,
) -> Iterator[Span]:
    """Yields the spans among the ``most`` best that have distinct texts, in descending order; ties go to the first and
    shortest span.

    ``scores`` and ``best_window`` are from `_scores`, ``total`` is the log of the sum of exp(score) of all candidates.
    """
    flat = scores.ravel()
    most = min(most, np.isfinite(flat).sum())
    if not most:
        return
    places = np.flatnonzero(flat >= np.partition(flat, -most)[-most])  # all that tie with the last one among them
    places = places[np.argsort(-flat[places], kind="stable")][:most]
    seen = {""}
    for token, more in zip(*(each.tolist() for each in np.unravel_index(places, scores.shape)), strict=True):
        window = best_window[token, more]
        place = token - features["first_token"][window]
        start, end = features["char_starts"][window][place], features["char_ends"][window][place + more]
        if (text := context[start:end]) not in seen:
            seen.add(text)
            position = features["context_begin"][window] + place
            logits = float(start_logits[window, position]), float(end_logits[window, position + more])
            yield Span(text, start, end, *logits, min(float(np.exp(sum(logits) - total)), 1.0))


# ---- files: the formats of SQuAD's official scorers and the released run_squad.py ------------------------------------


def answer_at(decoded: Decoded, threshold: float | None) -> str:
    """Returns the predicted text; empty if the context has no tokens, or if `Decoded.null_odds` exceeds the threshold.

    ``threshold`` is None if every question has an answer.
    """
    if not decoded.spans or (threshold is not None and decoded.null_odds > threshold):
        return ""
    return decoded.spans[0].text


def write_answers(folder: Path, ids: Sequence[str], decoded: Sequence[Decoded], threshold: float | None) -> Path:
    """Writes the predictions for N questions; returns the path of ``predictions.json``.

    ``predictions.json``: id → text, the input of both official scorers. ``nbest_predictions.json``: id → the best spans
    in descending order, each with ``text``, ``probability``, ``start_logit`` and ``end_logit``; with a threshold this
    includes no answer, as an empty text. ``null_odds.json``, only with a threshold: id → log-odds, the score of no
    answer minus the score of the best span; the input of evaluate-v2.0.py for ``--na-prob-file``.
    """
    contents: dict[str, dict[str, Any]] = {PREDICTIONS: {}, N_BEST: {}}
    if threshold is not None:
        contents[NULL_ODDS] = {}
    for key, each in zip(ids, decoded, strict=True):
        contents[PREDICTIONS][key] = answer_at(each, threshold)
        answers = [(span.text, span.probability, span.start_logit, span.end_logit) for span in each.spans]
        if threshold is not None:
            answers.append(("", each.null_probability, each.null_start_logit, each.null_end_logit))
            answers.sort(key=lambda answer: -(answer[2] + answer[3]))
            contents[NULL_ODDS][key] = each.null_odds
        fields = ("text", "probability", "start_logit", "end_logit")
        contents[N_BEST][key] = [dict(zip(fields, answer, strict=True)) for answer in answers]
    for name, content in contents.items():
        write_json(folder / name, content)
    return folder / PREDICTIONS
