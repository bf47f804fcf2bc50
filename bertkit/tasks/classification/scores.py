"""Scores of classification beside the metric of the task: of each class, and of its ranking by probability.

They are computed by scikit-learn. Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import numpy as np

MOST_CLASSES = 20
"""Number of classes up to which the scores of each class are among the results."""

SINGLE_LABEL = ("accuracy", "f1_macro", "balanced_accuracy", "average_precision", "roc_auc")
"""Scores of single-label classification that every run has."""

MULTI_LABEL = ("f1_micro", "f1_macro", "accuracy", "average_precision", "roc_auc")
"""Scores of multi-label classification that every run has."""

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
    that occur; multi-label classification has none.

    Args:
        predicted: class ids (N,), or the labels of each example (N, C), 0 or 1.
        probabilities: (N, C).
        labels: the true values in the form of ``predicted``.
        names: names of the C classes.
    """
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score

    is_single = labels.ndim == 1
    columns = np.eye(len(names), dtype=np.int64)[labels] if is_single else labels
    found: dict[str, float] = {}
    if is_single:
        recalls = precision_recall_fscore_support(labels, predicted, labels=np.unique(labels), zero_division=0)[1]
        found["balanced_accuracy"] = float(np.mean(recalls))
    ranked = [1] if is_single and len(names) == 2 else range(len(names))
    ranked = [label for label in ranked if 0 < columns[:, label].sum() < len(columns)]
    of_labels = [(columns[:, label], probabilities[:, label]) for label in ranked]
    found["average_precision"] = float(np.mean([average_precision_score(*each) for each in of_labels] or [0.0]))
    if of_labels:
        found["roc_auc"] = float(np.mean([roc_auc_score(*each) for each in of_labels]))
    if len(names) <= MOST_CLASSES:
        own = np.eye(len(names), dtype=np.int64)[predicted] if is_single else predicted
        of_classes = [
            precision_recall_fscore_support(true, given, average="binary", zero_division=0)[:3]
            for true, given in zip(columns.T, own.T, strict=True)
        ]
        for name, scores in zip(names, of_classes, strict=True):
            found |= {key_of_class(name, score): float(value) for score, value in zip(OF_A_CLASS, scores, strict=True)}
    return found
