"""Scores as functions of predictions and references, as intervals and tests take them."""

from __future__ import annotations

import numpy as np


def accuracy(predictions, references):
    return float(np.mean(np.asarray(predictions) == np.asarray(references)))


def f1(predictions, references):
    predicted, true = np.asarray(predictions), np.asarray(references)
    return float(2 * np.sum(predicted * true) / max(np.sum(predicted) + np.sum(true), 1))
