"""Cheap rivals of a fine-tuned classifier, on the same rows: linear classifiers of words and of frozen vectors.

Both take seconds. A model that is not better than them has cost its training for nothing, and its verdict says so.

Dimension letters: N rows that are scored, T rows that are trained on, D numbers of a vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.tables.table import same_texts
from bertkit.inference.forward import forward_in_batches
from bertkit.inference.predicted import Outcome, predicted
from bertkit.inference.verdict import Verdict, percent
from bertkit.metrics.statistics import by_example
from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.tasks.base import Task, padded, per_example, texts_of
from bertkit.tasks.splits import ColumnsOf, Split
from bertkit.training.linear_head import fit_by_folds, folds_to_fit
from bertkit.training.runs.folds import ModelsOfFolds
from bertkit.training.warm_start import has_exclusive_classes

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MOST_ROWS = 5000  # trained on or scored, beyond which a line takes long
_BATCH = 64  # texts whose vectors are computed at once
_WORDS, _FROZEN, _APART = "words", "frozen", "apart"
_TITLES = {
    _WORDS: "a linear classifier of words (TF-IDF)",
    _FROZEN: "a linear classifier of the frozen checkpoint's vectors",
    _APART: "a linear classifier of the frozen checkpoint's vectors of the two texts, read apart",
}


@dataclass(frozen=True)
class Rivals:
    """Predictions of cheap models for the rows that a run scores.

    Attributes:
        predictions: name → class ids, (N,) int64.
    """

    predictions: Mapping[str, np.ndarray]

    def results(self, outcome: Outcome) -> dict[str, float]:
        """Returns their accuracies, and that of the most frequent class: ``baseline_<name>_accuracy``."""
        _, references = outcome.predictions_and_references()
        labels = np.asarray(references)
        training = np.asarray((outcome.training or outcome.features)["labels"])
        shares = {name: float(np.mean(given == labels)) for name, given in self.predictions.items()}
        shares["most_frequent"] = float(np.mean(labels == np.bincount(training[training >= 0]).argmax()))
        return {f"baseline_{name}_accuracy": share for name, share in shares.items()}

    def added_to(self, verdict: Verdict, outcome: Outcome) -> Verdict:
        """Returns a verdict with the sentences on these models."""
        return Verdict((*verdict.sentences, *self._sentences(outcome)), verdict.proposal)

    def _sentences(self, outcome: Outcome) -> list[str]:
        """Returns what these models reach, with the difference to them and its 95 % interval."""
        task = per_example(outcome.task)
        own, references = outcome.predictions_and_references()
        terms = partial(predicted(outcome.task).terms, "accuracy")
        parts, better = [], []
        for name, given in self.predictions.items():
            test = by_example(
                [given.tolist()],
                [own],
                references,
                lambda *sides: float(task.compute_metrics(*sides)["accuracy"]),
                lambda *sides: terms(*sides),
                outcome.same_texts,
            )
            share = float(np.mean(given == np.asarray(references)))
            ends = "" if test.low is None or test.high is None else f", {100 * test.low:+.1f} to {100 * test.high:+.1f}"
            parts.append(f"{_TITLES[name]}: {percent(share)} ({100 * (test.difference or 0):+.1f}{ends})")
            if (test.difference or 0) <= 0:
                better.append(name)
        sentences = [f"On the same rows, and how far the model is above: {'; '.join(parts)}."]
        if better:
            sentences.append(_ADVICE[better[-1]])
        return sentences


_ADVICE = {
    _WORDS: "The model is not better than counting words: these rows teach no more than that. Label more rows.",
    _FROZEN: "The model is not better than the frozen checkpoint: on these rows, training has gained nothing.",
    _APART: "The model is not better than the two texts read apart: try bertkit finetune similarity.",
}


def rivals_of(
    task: Task,
    train: Split,
    scored: Split | None,
    folds: ModelsOfFolds | None,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> Rivals | None:
    """Fits the cheap models; None where the task has no exclusive classes, or there are too many rows.

    Args:
        task: the task of the training data.
        train: rows to fit to.
        scored: rows to predict; None predicts those of each fold by what is fitted to the others.
        folds: the models of folds of the run, if these score the rows.
        model: the classifier before its training.
        tokenizer: tokenizer of the model.
    """
    splits = [train] if scored is None else [train, scored]
    if not has_exclusive_classes(task) or max(len(split.examples) for split in splits) > _MOST_ROWS:
        return None
    if any("labels" not in split.examples.column_names for split in splits):
        return None
    labels = np.asarray(train.examples["labels"][:])
    if len(np.unique(labels)) < 2:
        return None
    texts = [list(texts_of(task, ColumnsOf(split.examples)).values()) for split in splits]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence
        of_texts = same_texts(zip(*texts[0], strict=True))
        of_rows = folds_to_fit(of_texts, labels.tolist()) if folds is None else folds.of_rows
        found = {_WORDS: _by_words(texts, labels, of_rows)}
        lengths = task.data.max_seq_length
        vectors = [[_vectors(model, tokenizer, column, lengths) for column in columns] for columns in texts]
        for name, inputs in _views(vectors).items():
            line, out_of_fold = fit_by_folds(inputs[0], labels, of_rows, int(labels.max()) + 1)
            found[name] = (out_of_fold if scored is None else line.logits(inputs[1])).argmax(axis=-1)
    return Rivals(found)


def _by_words(texts: Sequence[Sequence[Sequence[str]]], labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Returns the classes that a linear classifier of TF-IDF values of words and parts of words predicts.

    Args:
        texts: columns of texts of the training rows, and of the scored rows; without these every fold is predicted by
            what is fitted to the others.
        labels, folds: of the training rows, (T,).
    """
    rows = [[" \n ".join(of_row) for of_row in zip(*columns, strict=True)] for columns in texts]
    if len(rows) > 1:
        return np.asarray(_fitted_to_words(rows[0], labels).predict(rows[1]))
    found = np.zeros_like(labels)
    for fold in np.unique(folds):
        others, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if len(np.unique(labels[others])) < 2:
            found[own] = labels[others][0]
            continue
        model = _fitted_to_words([rows[0][row] for row in others], labels[others])
        found[own] = model.predict([rows[0][row] for row in own])
    return found


def _fitted_to_words(texts: list[str], labels: np.ndarray) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[^\w\s]")
    parts = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    return make_pipeline(make_union(words, parts), LinearSVC(random_state=0)).fit(texts, labels)


def _views(vectors: Sequence[Sequence[np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Returns what lines are fitted to, by name: the vectors of a text, or how those of a pair differ."""
    if len(vectors[0]) == 1:
        return {_FROZEN: [columns[0] for columns in vectors]}
    return {_APART: [np.concatenate([np.abs(u - v), u * v], axis=1) for u, v in vectors]}


def _vectors(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int
) -> np.ndarray:
    """Returns the mean of the last layer over the tokens of each text, (N, D) float32."""
    encoder: Any = model.base_model
    rows = tokenizer(list(texts), truncation=True, max_length=longest)
    inputs = model_inputs(model.config)
    lengths = [len(ids) for ids in rows["input_ids"]]

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        return padded([{name: rows[name][number] for name in inputs} for number in numbers], tokenizer, inputs)

    def keep(numbers: list[int], outputs: Any) -> Iterator[np.ndarray]:
        for number, states in zip(numbers, outputs[0].float().cpu(), strict=True):
            yield states[: lengths[number]].mean(dim=0).numpy().copy()

    return np.stack(forward_in_batches(encoder, lengths, collate, keep, _BATCH, "the frozen checkpoint"))
