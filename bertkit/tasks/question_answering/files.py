"""Answers in the files that SQuAD's official scorers and the released run_squad.py have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertkit.files import write_whole
from bertkit.tasks.question_answering.decoding import Decoded

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


def answer_at(decoded: Decoded, threshold: float | None) -> str:
    """The text that is predicted: empty where no answer is likelier by more than the threshold.

    Args:
        decoded: of one question.
        threshold: of `Decoded.null_odds`; None where every question has an answer.
    """
    if not decoded.spans or (threshold is not None and decoded.null_odds > threshold):
        return ""
    return decoded.spans[0].text


def write_answers(folder: Path, ids: Sequence[str], decoded: Sequence[Decoded], threshold: float | None) -> Path:
    """Writes what was found for N questions.

    ``predictions.json``: id → text, what both official scorers take. ``nbest_predictions.json``: id → the best spans,
    best first, each with ``text``, ``probability``, ``start_logit`` and ``end_logit``; with a threshold also no answer,
    as an empty text. ``null_odds.json``, with a threshold: id → log-odds, the score of no answer less that of the best
    span; what evaluate-v2.0.py takes as ``--na-prob-file``.

    Args:
        folder: exists.
        ids: of the questions.
        decoded: of each.
        threshold: as for `answer_at`.

    Returns:
        The first of these files.
    """
    contents: dict[str, dict[str, Any]] = {
        PREDICTIONS: {key: answer_at(each, threshold) for key, each in zip(ids, decoded, strict=True)},
        N_BEST: {key: _n_best(each, threshold is not None) for key, each in zip(ids, decoded, strict=True)},
    }
    if threshold is not None:
        contents[NULL_ODDS] = {key: each.null_odds for key, each in zip(ids, decoded, strict=True)}
    for name, content in contents.items():
        write_whole(folder / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return folder / PREDICTIONS


def _n_best(decoded: Decoded, may_be_unanswerable: bool) -> list[dict[str, Any]]:
    found = [(span.text, span.probability, span.start_logit, span.end_logit) for span in decoded.spans]
    if may_be_unanswerable:
        found.append(("", decoded.null_probability, decoded.null_start_logit, decoded.null_end_logit))
        found.sort(key=lambda each: -(each[2] + each[3]))
    return [dict(zip(("text", "probability", "start_logit", "end_logit"), each, strict=True)) for each in found]
