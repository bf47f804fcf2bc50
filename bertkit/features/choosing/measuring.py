"""What is measured of one checkpoint: its score with frozen weights, its pieces, masked words, size and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.features.choosing.data import Labelled
from bertkit.features.choosing.frozen import frozen_vectors
from bertkit.features.choosing.heads import choose_head, cross_validate
from bertkit.features.choosing.result import Candidate, FrozenScore
from bertkit.features.choosing.wording import WordInContext, log_probabilities, wording_of
from bertkit.inference.comparison import System
from bertkit.inference.embedding import Embedder
from bertkit.inference.facts import percent
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.inference.options import EmbedOptions
from bertkit.inference.outcome import task_inference
from bertkit.metrics.intervals import Measure, score_interval
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.runtime.errors import CheckpointError, shown
from bertkit.runtime.progress import Bar, unreported
from bertkit.tasks.base import per_example

_TIMED = 64  # texts
_LONGEST = 512  # tokens, as of vectors


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
        bytes=_size_of_weights(checkpoint.name),
        milliseconds=1000 * min(seconds) / len(timed),
    )
    return Measured(candidate, metric, system, guess, logs)


def _score_vectors(encoder: Embedder, name: str, labelled: Labelled) -> tuple[str, FrozenScore, System, Sequence[str]]:
    """Scores linear heads on the frozen vectors of an encoder; also returns the metric, the predictions, and what
    guessing gives."""
    kind, examples, folds = labelled.task, labelled.examples, labelled.folds
    cut, longest = kind.task, longest_input(encoder.model.config)
    if longest < cut.data.max_seq_length:
        cut = kind.task.with_settings()
        cut.data = replace(kind.task.data, max_seq_length=longest)
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
    references = next(iter(sides.values()))[1]
    known = task.compute_metrics(*next(iter(sides.values())))  # from predictions alone
    metric = task.main_metric if task.main_metric in known else next(iter(known))

    def metric_of(predictions: Sequence[object], references: Sequence[object]) -> float:
        return float(task.compute_metrics(predictions, references)[metric])

    of_heads = {head: predictions for head, (predictions, _) in sides.items()}
    predictions, best, by_layer = choose_head(of_heads, references, folds, metric_of)
    terms = task_inference(task).terms
    low, high = score_interval(
        predictions, references, metric_of, terms(metric, predictions, references), labelled.same_texts
    ) or (None, None)
    score = metric_of(predictions, references)
    frozen = FrozenScore(
        score if np.isfinite(score) else None,
        low,
        high,
        best.layer,
        len(next(iter(vectors.values()))) - 1,
        best.pooling,
        {pooling: [value if np.isfinite(value) else None for value in scores] for pooling, scores in by_layer.items()},
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


def _size_of_weights(name: str) -> int | None:
    """Returns the size of the weights of a checkpoint on disk; None if they are not found."""
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(name, local_files_only=True))
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        sizes = [file.stat().st_size for file in folder.glob(pattern)]
        if sizes:
            return sum(sizes)
    return None
