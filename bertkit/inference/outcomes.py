"""Predictions of a finished run for its validation set, computed from its checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import CheckpointError
from bertkit.inference.predictor import build_predictor, load_task
from bertkit.json_text import dumps
from bertkit.progress import unreported
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.base import Task
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.shared_encoding import encode_once
from bertkit.tasks.splits import Columns, ColumnsOf


@dataclass(frozen=True)
class Outcome:
    """Outputs of a model for the validation set of its run.

    Attributes:
        task: task of the checkpoint.
        outputs, features, examples: as for `Task.decode`.
        source: file or Hub data set of the examples.
        fingerprint: digest of the whole split.
        training: the training examples; None if they were not read.
    """

    task: Task
    outputs: Outputs
    features: Columns
    examples: Columns
    source: str
    fingerprint: str = ""
    training: Columns | None = None

    def decoded(self) -> list[dict[str, Any]]:
        """Returns the predictions, one per example."""
        return self.task.decode(self.outputs, self.features, self.examples)

    def judged(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, see `Task.judged`; computed once."""
        return self._judged

    @cached_property
    def _judged(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.task.judged(self.outputs, self.features, self.examples)

    @cached_property
    def collapse(self) -> str | None:
        """Description of the predictions of a collapsed model, as "all predictions are 'good'"; None for others."""
        return self.task.collapse(self.outputs, self.features, self.examples)

    def digests(self) -> list[str]:
        """Returns a digest of each example, by which the same example in another run is recognized."""
        columns = [self.examples[name] for name in sorted(self.examples)]
        return [hashlib.sha256(dumps(row).encode()).hexdigest()[:16] for row in zip(*columns, strict=True)]


def outcome_of(place: str | Path, *, with_training: bool = False) -> Outcome:
    """Runs the model of a run directory on the validation set of the run, in float32.

    Args:
        place: the run directory.
        with_training: read the training examples too.

    Raises:
        CheckpointError: the folder is no run directory.
        DataError: the data of the run cannot be read.
    """
    path = Path(place)
    if not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{place}: contains no recipe.yaml; expected a run directory of `bertkit finetune`")
    data = load_recipe(path / "recipe.yaml").data
    task, config = load_task(str(path), {field.name: getattr(data, field.name) for field in fields(data)})
    task, splits = load_splits(task, ["train", "validation"] if with_training else ["validation"])
    split = splits["validation"]
    predictor = build_predictor(str(path), task, config)
    encoded, _ = encode_once(task, {"validation": split}, predictor.tokenizer)["validation"]
    features = encoded.to_dict()
    outputs = predictor.outputs(features, unreported)
    training = ColumnsOf(splits["train"].examples) if with_training else None
    return Outcome(task, outputs, features, ColumnsOf(split.examples), split.source, split.fingerprint, training)


def mean_outputs(members: Sequence[Outputs]) -> Outputs:
    """Averages the outputs of several models for the same inputs."""
    if isinstance(members[0], tuple):
        return tuple(np.mean(arrays, axis=0) for arrays in zip(*members, strict=True))
    return np.asarray(np.mean(members, axis=0))
