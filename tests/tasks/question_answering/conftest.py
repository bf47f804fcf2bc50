"""Scores of a model that is sure of the answers."""

from __future__ import annotations

from typing import Any

import numpy as np


def perfect_logits(features: dict[str, list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are sure of the positions in the features, (N, S) each, padded as transformers' Trainer pads."""
    made = []
    for name in ("start_positions", "end_positions"):
        logits = np.full((len(features[name]), max(features["length"])), -100, np.float32)
        for row, (position, length) in enumerate(zip(features[name], features["length"], strict=True)):
            logits[row, :length] = -9.0
            logits[row, position] = 9.0
        made.append(logits)
    return made[0], made[1]
