"""Thresholds of labels and calibration of their probabilities, fitted to a validation set; and scores of classes.

Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import numpy as np

from bertkit.metrics import counted_pairs

Threshold = float | str | dict[str, float]
"""Threshold of all labels, ``tuned``, or thresholds by label."""

Temperature = float | dict[str, float]
"""What the logits of all classes are divided by, or those of each label."""


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Computes the sigmoid in float64, in a form that does not overflow."""
    # SciPy has it too, but its import takes longer than a prediction.
    probabilities: np.ndarray = 0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64)))
    return probabilities


def best_threshold(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the threshold with the highest F1 of a label; of several, the one closest to 0.5.

    It lies halfway between a probability that occurs and the next lower one, or 0, so that the last digits of a
    probability do not matter.

    Args:
        labels: (N,), 0 or 1; without a 1 the threshold is 0.5.
        probabilities: (N,).

    >>> best_threshold(np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.3, 0.05, 0.6, 0.4]))
    0.2
    """
    from sklearn.metrics import precision_recall_curve

    if not labels.any():
        return 0.5
    precision, recall, occurring = precision_recall_curve(labels, probabilities)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    lower = np.concatenate([[0.0], occurring[:-1]])
    halfway = np.clip((lower + occurring) / 2, 1e-9, 1 - 1e-9)
    best = np.flatnonzero(np.isclose(f1[:-1], f1[:-1].max()))
    return float(halfway[best[np.abs(halfway[best] - 0.5).argmin()]])


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Computes the mean negative log-likelihood in nats.

    Args:
        logits: (N, C).
        labels: class ids (N,), or the labels of each example (N, C), 0 or 1, or in between for labels that are unsure.
    """
    logits = logits.astype(np.float64)
    if labels.ndim == 1:
        return float(np.mean(np.logaddexp.reduce(logits, axis=-1) - logits[np.arange(len(labels)), labels]))
    return float(np.mean(np.logaddexp(0, logits) - labels * logits))


def best_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the temperature between 0.05 and 20 with the lowest `log_loss` (Guo et al. 2017, arXiv:1706.04599).

    One more example is counted that may have any label: few examples that are all right do not make a model certain.

    Args:
        logits: (N, C); divided by the temperature.
        labels: class ids (N,), or the labels of each example (N, C), 0 or 1.
    """
    from scipy.optimize import minimize_scalar

    unknown = 1 / (len(labels) + 1)

    def loss(log_temperature: float) -> float:
        scaled = logits.astype(np.float64) / np.exp(log_temperature)
        if labels.ndim == 2:
            return log_loss(scaled, (1 - unknown) * labels + unknown / 2)
        of_any = float(np.mean(np.logaddexp.reduce(scaled, axis=-1) - scaled.mean(axis=-1)))
        return (1 - unknown) * log_loss(scaled, labels) + unknown * of_any

    found = minimize_scalar(loss, bounds=(np.log(0.05), np.log(20.0)), method="bounded")
    return float(np.exp(found.x))


def best_temperatures(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns what logits are divided by: one temperature for exclusive classes, (1,), else one for each label, (C,).

    Args:
        logits: (N, C).
        labels: as for `best_temperature`.
    """
    if labels.ndim == 1:
        return np.array([best_temperature(logits, labels)])
    return np.array([best_temperature(logits[:, [label]], labels[:, [label]]) for label in range(labels.shape[1])])


# ---- scores of classes ----------------------------------------------------------------------------------------------

MOST_CLASSES = 20
"""Number of classes up to which the scores of each class are among the results."""

SINGLE_LABEL = ("accuracy", "f1_macro", "balanced_accuracy", "average_precision", "roc_auc")
"""Scores of single-label classification; rows of one class alone have no ``roc_auc``, see `class_scores`."""

MULTI_LABEL = ("f1_micro", "f1_macro", "accuracy", "average_precision", "roc_auc")
"""Scores of multi-label classification, of which ``roc_auc`` may be missing too."""

OF_A_CLASS = ("precision", "recall", "f1")
"""Scores of each class, see `key_of_class`."""


def key_of_class(name: str, value: str) -> str:
    """Returns the key of a value of a class in the results; no metric has such a key.

    >>> key_of_class("negative", "f1")
    'class/negative/f1'
    """
    return f"class/{name}/{value}"


def class_scores(
    predicted: np.ndarray, probabilities: np.ndarray, labels: np.ndarray, names: list[str]
) -> dict[str, float]:
    """Computes the scores that the metrics of the evaluate library do not have, all in [0, 1].

    ``average_precision`` and ``roc_auc`` compare each class with the rest and are means over the classes that both
    occur and do not occur in the labels; for two exclusive classes they are those of the second one. Without such a
    class ``average_precision`` is 0 and ``roc_auc`` is absent. ``balanced_accuracy`` is the mean recall of the classes
    that occur, 0 if all rows are of other classes; multi-label classification has none.

    Args:
        predicted: class ids (N,), or the labels of each example (N, C), 0 or 1.
        probabilities: (N, C).
        labels: the true values in the form of ``predicted``.
        names: names of the C classes.
    """
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score

    is_single = labels.ndim == 1
    found: dict[str, float] = {}
    if is_single:
        true, given, counts = counted_pairs(labels, predicted)
        of_ids = {"labels": range(len(names)), "sample_weight": counts, "zero_division": 0}
        of_classes = list(zip(*precision_recall_fscore_support(true, given, **of_ids), strict=True))
        found["balanced_accuracy"] = float(np.mean([recall for _, recall, _, number in of_classes if number] or [0.0]))
    elif len(names) <= MOST_CLASSES:
        of_classes = [
            precision_recall_fscore_support(true, given, average="binary", zero_division=0)
            for true, given in zip(labels.T, predicted.T, strict=True)
        ]
    del predicted  # frees 8 bytes or more an example before the sorts
    ranked = [1] if is_single and len(names) == 2 else range(len(names))
    precisions, areas = [], []
    for label in ranked:
        occurs = labels == label if is_single else labels[:, label] == 1
        if 0 < occurs.sum() < len(occurs):
            precisions.append(average_precision_score(occurs, probabilities[:, label]))
            areas.append(roc_auc_score(occurs, probabilities[:, label]))
    found["average_precision"] = float(np.mean(precisions or [0.0]))
    if areas:
        found["roc_auc"] = float(np.mean(areas))
    if len(names) <= MOST_CLASSES:
        for name, scores in zip(names, of_classes, strict=True):
            found |= {key_of_class(name, score): float(scores[place]) for place, score in enumerate(OF_A_CLASS)}
    return found
