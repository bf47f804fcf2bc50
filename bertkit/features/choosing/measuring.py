"""Measurements of one checkpoint: its score with frozen weights, its pieces, masked words, size and speed.

The score is that of regularized linear heads on frozen vectors, by cross-validation. The layer, the kind of vector and
the strength of the regularization are chosen for each fold by the predictions for the other folds, so that the score of
the predictions is not that of the luckiest of many candidates.

Dimension letters: L + 1 layers (0 the embeddings), I items, D numbers of a vector, C classes, N examples, M candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertkit.features.choosing.data import Labelled
from bertkit.features.choosing.frozen import frozen_vectors
from bertkit.features.choosing.result import Candidate, FrozenScore
from bertkit.features.choosing.wording import WordInContext, log_probabilities, wording_of
from bertkit.inference.comparison import System
from bertkit.inference.embedding import Embedder
from bertkit.inference.facts import percent
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.inference.options import EmbedOptions
from bertkit.inference.outcome import task_inference
from bertkit.metrics import score_limits
from bertkit.metrics.intervals import Measure, score_interval
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.runtime.errors import CheckpointError, shown
from bertkit.runtime.progress import Bar, unreported
from bertkit.tasks.base import per_example
from bertkit.tasks.encoding import fit_length
from bertkit.training.warm_start.linear_head import out_of_fold_logits

_TIMED = 64  # texts

STRENGTHS = (100.0, 10.0)
"""Strengths of the penalty that are tried, see `bertkit.training.warm_start.linear_head`."""


@dataclass(frozen=True)
class Measured:
    """A checkpoint with its measurements.

    Attributes:
        candidate: what is known of it, without a pseudo-perplexity: that is of the words that all have pieces for.
        metric: metric of its score; None without labels.
        system: its cross-validated predictions; None without labels.
        guess: sentence on what always guessing the most frequent class gives; none where there are no classes.
        logs: log-probability of each masked word, (N,); None without a masked-LM head.
    """

    candidate: Candidate
    metric: str | None
    system: System | None
    guess: Sequence[str]
    logs: np.ndarray | None


def measure(
    checkpoint: LoadedCheckpoint,
    model: str,
    name: str,
    texts: Sequence[tuple[str, ...]],
    words: Sequence[WordInContext],
    labelled: Labelled | None,
) -> Measured:
    """Measures a checkpoint; CheckpointError if it has no complete encoder, or an output is NaN or infinite."""
    encoder = checkpoint.embedder
    metric, frozen, system, guess = (
        (None, None, None, ()) if labelled is None else _score_vectors(encoder, name, labelled)
    )
    logs, reason = None, ""
    try:
        logs = log_probabilities(words, checkpoint.mask_filler)
    except CheckpointError as error:
        reason = str(error).removeprefix(f"{checkpoint.name}: ")
    timed, seconds = [" ".join(row) for row in texts[:_TIMED]], []
    for _ in range(2):  # two passes, which warm each other up; the faster one counts
        start = time.perf_counter()
        encoder.embed(timed, EmbedOptions(pooling="mean"), unreported)
        seconds.append(time.perf_counter() - start)
    candidate = Candidate(
        model,
        name,
        frozen,
        wording_of(texts, encoder.tokenizer, longest_input(encoder.model.config)),
        perplexity=None,
        perplexity_low=None,
        perplexity_high=None,
        no_perplexity=reason,
        parameters=sum(parameter.numel() for parameter in encoder.model.parameters()),
        bytes=_measure_weights(checkpoint.name),
        milliseconds=1000 * min(seconds) / len(timed),
    )
    return Measured(candidate, metric, system, guess, logs)


def _score_vectors(encoder: Embedder, name: str, labelled: Labelled) -> tuple[str, FrozenScore, System, Sequence[str]]:
    """Scores linear heads on the frozen vectors of an encoder; also returns the metric, the predictions, and what
    guessing gives."""
    kind, examples, folds = labelled.task, labelled.examples, labelled.folds
    longest, cut = longest_input(encoder.model.config), kind.task.with_settings()
    fitted = fit_length(kind.task, examples, encoder.tokenizer, longest)
    cut.data = replace(fitted, max_seq_length=min(longest, fitted.max_seq_length))
    task = per_example(cut)
    features = task.encode(examples, encoder.tokenizer)
    with Bar(f"{name}: vectors", "inputs") as progress:
        vectors = frozen_vectors(kind, features, encoder, progress)
    targets, of_example = kind.targets(features), kind.examples(features)
    with Bar(f"{name}: heads", "heads") as progress:
        logits = cross_validate(vectors, targets, folds[of_example], kind.classes, progress)
    sides = {
        head: task.predictions_and_references(kind.outputs(of_items, features), features, examples)
        for head, of_items in logits.items()
    }
    of_first, references = next(iter(sides.values()))
    known = task.compute_metrics(of_first, references)  # from predictions alone
    metric = task.main_metric if task.main_metric in known else next(iter(known))

    def metric_of(found: Sequence[object], expected: Sequence[object]) -> float:
        return float(task.compute_metrics(found, expected)[metric])

    of_heads = {head: predictions for head, (predictions, _) in sides.items()}
    predictions, best, by_layer = choose_head(of_heads, references, folds, metric_of)
    terms = task_inference(task).terms
    of_means, limits = terms(metric, predictions, references), score_limits(metric, known)
    interval = score_interval(predictions, references, metric_of, of_means, labelled.same_texts, limits)
    low, high = interval or (None, None)
    score = metric_of(predictions, references)
    frozen = FrozenScore(
        score=score if np.isfinite(score) else None,
        low=low,
        high=high,
        layer=best.layer,
        layers=len(next(iter(vectors.values()))) - 1,
        pooling=best.pooling,
        by_layer={
            pooling: [value if np.isfinite(value) else None for value in scores] for pooling, scores in by_layer.items()
        },
    )
    system = System(
        name,
        [predictions],
        references,
        task.compute_metrics,
        terms,
        task.main_metric,
        task.to_labels,
        same_texts=labelled.same_texts,
        folds=tuple(np.bincount(folds).tolist()),
    )
    guess = _guess(kind.most_frequent(references), metric, metric_of, references)
    return metric, frozen, system, guess


def _guess(usual: tuple[str, object] | None, metric: str, measure: Measure, references: Sequence[Any]) -> Sequence[str]:
    """Returns the sentence on always guessing the most frequent class, by its name and its value; none without one."""
    if usual is None:
        return ()
    name, value = usual
    share = sum(reference == value for reference in references) / len(references)
    score = measure([value] * len(references), references)
    return (
        f"{percent(share)} of the examples are {shown(name)}, the most frequent class: always guessing it gives "
        f"{metric} {score:.4f}.",
    )


def _measure_weights(name: str) -> int | None:
    """Returns the size of the weights of a checkpoint on disk; None if it has no file of them."""
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(name, local_files_only=True))
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        sizes = [file.stat().st_size for file in folder.glob(pattern)]
        if sizes:
            return sum(sizes)
    return None


# ---- linear heads on frozen vectors ----------------------------------------------------------------------------------


class Head(NamedTuple):
    """A linear head that is tried.

    Attributes:
        layer: number of the layer, 0 the embeddings.
        pooling: name of the vectors.
        strength: of the penalty.
    """

    layer: int
    pooling: str
    strength: float


def cross_validate(
    vectors: Mapping[str, np.ndarray],
    targets: np.ndarray,
    folds: np.ndarray,
    classes: int,
    on_progress: Callable[[int, int], object],
) -> dict[Head, np.ndarray]:
    """Returns the logits of every candidate, (I, C) each; of each item by a head that was fitted to the other folds.

    Args:
        vectors: name → (L + 1, I, D) float32.
        targets: labels of the items, see `bertkit.features.choosing.frozen.FrozenTask.targets`; their form tells the
            problem.
        folds: fold of each item, (I,).
        classes: C.
        on_progress: called with the number of fitted heads and of all.
    """
    heads = [
        Head(layer, pooling, strength)
        for pooling, of_layers in vectors.items()
        for layer in range(len(of_layers))
        for strength in STRENGTHS
    ]
    logits = {}
    for number, head in enumerate(heads, start=1):
        inputs = vectors[head.pooling][head.layer]
        logits[head] = out_of_fold_logits(inputs, targets, folds, classes, head.strength)
        on_progress(number, len(heads))
    return logits


def choose_head(
    predictions: Mapping[Head, Sequence[Any]],
    references: Sequence[Any],
    folds: np.ndarray,
    measure: Callable[[Sequence[Any], Sequence[Any]], float],
) -> tuple[list[Any], Head, dict[str, list[float]]]:
    """Chooses a head for each fold by the other folds, and takes its predictions.

    Layer 0, the embeddings, is scored but not chosen: a checkpoint and its first layers share it, and what it tells is
    the same at the start of their training.

    Args:
        predictions: M candidates → N predictions in the form of the metric.
        references: N references.
        folds: fold of each example, (N,).
        measure: the metric; larger is better.

    Returns:
        N predictions, each by the head that was chosen for its fold; the head with the highest score over all folds,
        not of layer 0; and name of the vectors → highest score of each layer over the strengths, 0 the embeddings, with
        -inf where it is undefined.
    """
    heads, numbers = [head for head in predictions if head.layer > 0], np.unique(folds)

    def score(head: Head, rows: np.ndarray) -> float:
        value = measure([predictions[head][row] for row in rows], [references[row] for row in rows])
        return value if np.isfinite(value) else -np.inf

    taken: list[Any] = [None] * len(references)
    for fold in numbers:
        others = np.flatnonzero(folds != fold)
        best = max(heads, key=lambda head: score(head, others))
        for row in np.flatnonzero(folds == fold).tolist():
            taken[row] = predictions[best][row]
    everything = np.arange(len(references))
    scores = {head: score(head, everything) for head in predictions}
    layers = range(1 + max(head.layer for head in heads))
    by_layer = {
        pooling: [max(scores[Head(layer, pooling, strength)] for strength in STRENGTHS) for layer in layers]
        for pooling in dict.fromkeys(head.pooling for head in heads)
    }
    return taken, max(heads, key=scores.__getitem__), by_layer
