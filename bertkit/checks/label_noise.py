"""Search for wrong labels (``--check-labels``).

Each training example is classified by a logistic regression on the vectors of the checkpoint, trained on the other
folds of a cross-validation; cleanlab's confident learning (Northcutt et al. 2021, arXiv:1911.00068) finds the labels
that disagree with these predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

import numpy as np

from bertkit.checks.extras import INSTALL, extra
from bertkit.checks.findings import Finding, note, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject
from bertkit.errors import RecipeError
from bertkit.progress import inflected

_FOLDS = 5
_LISTED = 20
_MOST_ITERATIONS = 300


class Suspect(NamedTuple):
    """A label that is probably wrong.

    Attributes:
        row: the example, from 0.
        given, predicted: ids of its label and of the most probable class.
        score: quality of the label, 0 to 1; the lower, the more suspicious.
    """

    row: int
    given: int
    predicted: int
    score: float


def check_installed() -> None:
    """Checks that cleanlab is installed.

    Raises:
        RecipeError: it is not.
    """
    if extra("cleanlab") is None:
        raise RecipeError(f"--check-labels: the package cleanlab is not installed; {INSTALL}")


def find_suspects(vectors: np.ndarray, labels: np.ndarray) -> list[Suspect]:
    """Returns the labels that are probably wrong, the most suspicious first.

    Args:
        vectors: (N, H) float32, vectors of the texts.
        labels: (N,) int64, ids of the classes; classes with fewer examples than folds are left out.
    """
    from cleanlab import Datalab
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classes, counts = np.unique(labels, return_counts=True)
    rows = np.flatnonzero(np.isin(labels, classes[counts >= _FOLDS]))
    kept, given = np.unique(labels[rows], return_inverse=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MOST_ITERATIONS))
    probabilities = cross_val_predict(model, vectors[rows], given, cv=_FOLDS, method="predict_proba")
    # Datalab prints its progress, and uses deprecated functions of pandas.
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab = Datalab({"label": given.tolist()}, label_name="label", verbosity=1)
        lab.find_issues(
            pred_probs=probabilities, issue_types={"label": {"n_jobs": 1}}
        )  # without forks of a process with threads
    issues = lab.get_issues("label")
    found = [
        Suspect(int(rows[row]), int(labels[rows[row]]), int(kept[predicted]), float(score))
        for row, (wrong, score, predicted) in enumerate(
            zip(issues["is_label_issue"], issues["label_score"], issues["predicted_label"], strict=True)
        )
        if wrong
    ]
    return sorted(found, key=lambda suspect: suspect.score)


def vectors_of(checkpoint: str, columns: Sequence[Sequence[str]], max_seq_length: int) -> np.ndarray:
    """Returns a vector for each example, (N, H) float32: the mean of its tokens' vectors in the last layer.

    The vectors u and v of a pair become u, v, |u - v| and u · v by element, as in InferSent (Conneau et al. 2017).
    """
    from bertkit.inference.loaded import load

    encoder = load(checkpoint)
    parts = [encoder.embed(list(texts), max_seq_length=max_seq_length) for texts in columns]
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return np.concatenate([first, second, abs(first - second), first * second], axis=1)


@rule("label-noise", "check_labels", "splits", "stored")
def label_noise(subject: Subject) -> Iterator[Finding]:
    """Finds training labels that are probably wrong; only with ``--check-labels``."""
    classes = subject.classes.get("train", [])
    texts = subject.texts[0]
    if not classes or any(len(names) != 1 for names in classes) or len(texts.columns) > 2:
        yield note(
            "--check-labels",
            "the labels were not checked: this is for tasks with one class per text or pair of texts",
            "remove --check-labels",
        )
        return
    names, labels = np.unique([names[0] for names in classes], return_inverse=True)
    vectors = vectors_of(
        str(subject.checkpoint), list(texts.columns.values()), min(128, subject.recipe.data.max_seq_length)
    )
    suspects = find_suspects(vectors, labels)
    if suspects:
        yield note(
            "train",
            f"{len(suspects):,} of {len(labels):,} labels ({100 * len(suspects) / len(labels):.1f} %) "
            f"{inflected(len(suspects), 'is', 'are')} probably wrong, by cross-validated logistic regression on the "
            f"vectors of {subject.checkpoint}; the most suspicious follow",
            "read these rows first; some of them are right, but difficult",
        )
    for suspect in suspects[:_LISTED]:
        text = next(iter(texts.columns.values()))[suspect.row]
        given, predicted = str(names[suspect.given]), str(names[suspect.predicted])
        yield warning(
            texts.place(suspect.row),
            f"label {given!r} (score {suspect.score:.3f}), predicted {predicted!r}: {text.strip()[:80]!r}",
            "correct the label, or keep it if it is right",
        )
