"""Prediction files in the formats of SQuAD's official scorers and the released run_squad.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertkit.files import write_json
from bertkit.tasks.question_answering.decoding import Decoded

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


def answer_at(decoded: Decoded, threshold: float | None) -> str:
    """Returns the predicted text; empty if `Decoded.null_odds` exceeds the threshold.

    Args:
        decoded: decoded answers to one question.
        threshold: threshold of `Decoded.null_odds`; None if every question has an answer.
    """
    if not decoded.spans or (threshold is not None and decoded.null_odds > threshold):
        return ""
    return decoded.spans[0].text


def write_answers(folder: Path, ids: Sequence[str], decoded: Sequence[Decoded], threshold: float | None) -> Path:
    """Writes the predictions for N questions.

    ``predictions.json``: id → text, the input of both official scorers. ``nbest_predictions.json``: id → the best spans
    in descending order, each with ``text``, ``probability``, ``start_logit`` and ``end_logit``; with a threshold this
    includes no answer, as an empty text. ``null_odds.json``, only with a threshold: id → log-odds, the score of no
    answer minus the score of the best span; the input of evaluate-v2.0.py for ``--na-prob-file``.

    Args:
        folder: existing output folder.
        ids: question ids.
        decoded: decoded answers to each question.
        threshold: as for `answer_at`.

    Returns:
        The path of ``predictions.json``.
    """
    contents: dict[str, dict[str, Any]] = {
        PREDICTIONS: {key: answer_at(each, threshold) for key, each in zip(ids, decoded, strict=True)},
        N_BEST: {key: _n_best(each, threshold is not None) for key, each in zip(ids, decoded, strict=True)},
    }
    if threshold is not None:
        contents[NULL_ODDS] = {key: each.null_odds for key, each in zip(ids, decoded, strict=True)}
    for name, content in contents.items():
        write_json(folder / name, content)
    return folder / PREDICTIONS


def _n_best(decoded: Decoded, may_be_unanswerable: bool) -> list[dict[str, Any]]:
    found = [(span.text, span.probability, span.start_logit, span.end_logit) for span in decoded.spans]
    if may_be_unanswerable:
        found.append(("", decoded.null_probability, decoded.null_start_logit, decoded.null_end_logit))
        found.sort(key=lambda each: -(each[2] + each[3]))
    return [dict(zip(("text", "probability", "start_logit", "end_logit"), each, strict=True)) for each in found]
