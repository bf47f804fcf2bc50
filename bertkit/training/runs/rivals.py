"""Cheap rivals of a fine-tuned classifier, on the same rows: linear models of words and of frozen vectors.

The words take seconds, the vectors one pass of the encoder over the rows. A model that is not better than them has cost
its training for nothing, and its verdict says so.

Dimension letters: N rows that are scored, T rows that are trained on, C labels, D numbers of a vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.tables.table import same_texts
from bertkit.inference.facts import percent
from bertkit.inference.outcome import Outcome, task_inference
from bertkit.inference.verdict import Verdict
from bertkit.metrics import score_limits
from bertkit.metrics.statistics import Test, by_example
from bertkit.runtime.progress import display_name
from bertkit.tasks.base import Task, per_example, texts_of
from bertkit.tasks.classification.decisions import best_threshold, sigmoid
from bertkit.tasks.splits import ColumnsOf, Split
from bertkit.training.runs.folds import ModelsOfFolds
from bertkit.training.warm_start.linear_head import fit_by_folds, folds_to_fit
from bertkit.training.warm_start.pairs import differences, means_of_texts
from bertkit.training.warm_start.phases import problem_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MOST_ROWS = 5000  # trained on or scored, beyond which a line takes long
_WORDS, _FROZEN, _APART = "words", "frozen", "apart"
_TITLES = {
    _WORDS: "a linear model of words (TF-IDF)",
    _FROZEN: "a linear model of the frozen checkpoint's vectors",
    _APART: "a linear model of the frozen checkpoint's vectors of the two texts, read apart",
}

_METRICS = {
    "single_label_classification": "accuracy",
    "multi_label_classification": "f1_micro",
    "regression": "pearson",
}
"""By ``problem_type``, what models are compared by."""


@dataclass(frozen=True)
class Rivals:
    """Predictions of cheap models for the rows that a run scores.

    Attributes:
        metric: what they are compared by, one of `_METRICS`.
        predictions: name → class ids (N,), labels (N, C) of 0 and 1, or numbers (N,).
    """

    metric: str
    predictions: Mapping[str, np.ndarray]

    def results(self, outcome: Outcome) -> dict[str, float]:
        """Returns their scores, ``baseline_<name>_<metric>``, and the accuracy of the most frequent class."""
        _, references = outcome.predictions_and_references()
        scores = {name: self._score(outcome, given, references) for name, given in self.predictions.items()}
        if self.metric == "accuracy":
            training = np.asarray((outcome.training or outcome.features)["labels"])
            usual = np.bincount(training[training >= 0]).argmax()
            scores["most_frequent"] = float(np.mean(np.asarray(references) == usual))
        return {f"baseline_{name}_{self.metric}": score for name, score in scores.items() if np.isfinite(score)}

    def _score(self, outcome: Outcome, given: Any, references: Any) -> float:
        return float(per_example(outcome.task).compute_metrics(given, references)[self.metric])

    def added_to(self, verdict: Verdict, outcome: Outcome) -> Verdict:
        """Returns a verdict with the sentences on these models."""
        own, references = outcome.predictions_and_references()
        terms = partial(task_inference(outcome.task).terms, self.metric)
        parts, better = [], []
        for name, given in self.predictions.items():
            sides = [given.tolist()], [own], references
            measure, bounds = partial(self._score, outcome), score_limits(self.metric)
            test = by_example(*sides, measure, terms, outcome.same_texts, bounds)
            parts.append(f"{_TITLES[name]}: {self._in_words(self._score(outcome, given, references), test)}")
            if test.difference is not None and test.difference <= 0:
                better.append(name)
        what = "" if self.metric == "accuracy" else f", by {display_name(self.metric)}"
        sentences = [f"On the same rows{what}, and how far the model is above: {'; '.join(parts)}."]
        if better:
            sentences.append(_ADVICE[better[-1]])
        return Verdict((*verdict.sentences, *sentences), verdict.proposal)

    def _in_words(self, score: float, test: Test) -> str:
        """Returns a score with the difference to it and its interval: percents of an accuracy, or numbers of 1."""
        if not np.isfinite(score):
            return "undefined"
        scale, digits = (100, 1) if self.metric == "accuracy" else (1, 4)
        low, high = test.low, test.high
        ends = "" if low is None or high is None else f", {scale * low:+.{digits}f} to {scale * high:+.{digits}f}"
        shown = percent(score) if self.metric == "accuracy" else f"{score:.4f}"
        if test.difference is None:
            return f"{shown} (that of the model is undefined)"
        return f"{shown} ({scale * test.difference:+.{digits}f}{ends})"


_ADVICE = {
    _WORDS: "The model is not better than counting words: these rows teach no more than that. Label more rows.",
    _FROZEN: "The model is not better than the frozen checkpoint: on these rows, training has gained nothing.",
    _APART: "The model is not better than the two texts read apart: try bertkit finetune similarity.",
}


def rivals_of(
    task: Task,
    train: Split,
    scored: Split | ModelsOfFolds,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> Rivals | None:
    """Fits the cheap models; None where a text has neither classes nor a number, labels are missing or all the same, or
    there are too many rows.

    Args:
        task: the task of the training data.
        train: rows to fit to.
        scored: rows to predict, or the models of folds of the run: then the training rows of each fold are predicted by
            what is fitted to those of the others.
        model: the classifier before its training.
        tokenizer: tokenizer of the model.
    """
    folds = scored if isinstance(scored, ModelsOfFolds) else None
    splits = [train, scored] if isinstance(scored, Split) else [train]
    metric = _METRICS.get(problem_of(task))
    if metric is None or max(len(split.examples) for split in splits) > _MOST_ROWS:
        return None
    if any("labels" not in split.examples.column_names for split in splits):
        return None
    labels = np.asarray(train.examples["labels"][:])
    if labels.ndim == 1 and len(np.unique(labels)) < 2:
        return None
    outputs = 1
    if labels.ndim == 2:
        labels, outputs = labels.astype(np.int64), labels.shape[1]
    elif metric == "accuracy":
        outputs = int(labels.max()) + 1
    texts = [list(texts_of(task, ColumnsOf(split.examples)).values()) for split in splits]
    of_texts = same_texts(zip(*texts[0], strict=True))
    strata = labels.tolist() if metric == "accuracy" else None
    of_rows = folds_to_fit(of_texts, strata) if folds is None else folds.of_rows
    found = {_WORDS: _by_words(texts, labels, of_rows)}
    longest = task.data.max_seq_length
    vectors = [[means_of_texts(model, tokenizer, column, longest) for column in columns] for columns in texts]
    # Lines are fitted to the vectors of a text, or to how those of a pair differ.
    name = _FROZEN if len(texts[0]) == 1 else _APART
    inputs = [columns[0] if name == _FROZEN else differences(*columns) for columns in vectors]
    line, out_of_fold = fit_by_folds(inputs[0], labels, of_rows, outputs)
    logits = out_of_fold if folds is not None else line.logits(inputs[1])
    if metric == "pearson":
        found[name] = logits.reshape(-1)
    elif metric == "accuracy":
        found[name] = logits.argmax(axis=-1)
    else:
        found[name] = sigmoid(logits)
        # Labels by one threshold that is fitted to the scored rows, if that of the run is.
        known = np.asarray(splits[-1].examples["labels"][:]).astype(np.int64).ravel()
        is_tuned = getattr(task.settings, "threshold", None) == "tuned"
        found = {
            each: (chances >= (best_threshold(known, chances.ravel()) if is_tuned else 0.5)).astype(np.int64)
            for each, chances in found.items()
        }
    return Rivals(metric, found)


def _by_words(texts: Sequence[Sequence[Sequence[str]]], labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Predicts by a linear model of TF-IDF values of words and parts of words.

    Args:
        texts: columns of texts of the training rows, and of the scored rows; without these every fold is predicted by
            what is fitted to the others.
        labels, folds: of the training rows, (T,) or (T, C), and (T,).

    Returns:
        Predictions in the form of ``labels``; of several labels a number in [0, 1] that is greater for likely ones.
    """
    rows = [[" \n ".join(of_row) for of_row in zip(*columns, strict=True)] for columns in texts]
    if len(rows) > 1:
        return _predicted_by_words(rows[0], labels, rows[1])
    found = np.zeros(labels.shape, dtype=float if labels.ndim == 2 else labels.dtype)
    for fold in np.unique(folds):
        others, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if (labels[others] == labels[others][0]).all():
            found[own] = labels[others][0]
            continue
        known, asked = ([rows[0][row] for row in part] for part in (others, own))
        found[own] = _predicted_by_words(known, labels[others], asked)
    return found


def _predicted_by_words(texts: list[str], labels: np.ndarray, asked: list[str]) -> np.ndarray:
    """Fits the model of `_by_words` to some texts, and predicts for others."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[^\w\s]")
    parts = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    line: Any = LinearSVC(random_state=0)
    if labels.ndim == 2:
        line = OneVsRestClassifier(line)
    elif np.issubdtype(labels.dtype, np.floating):
        line = Ridge()
    model = make_pipeline(make_union(words, parts), line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence, and on labels that all rows have
        model.fit(texts, labels)
    if labels.ndim == 1:
        return np.asarray(model.predict(asked))
    chances = sigmoid(model.decision_function(asked).reshape(len(asked), -1))
    chances[:, ~labels.any(axis=0)] = 0.0  # no row to learn the label from
    return chances
