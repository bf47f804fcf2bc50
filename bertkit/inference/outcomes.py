"""Predictions of a finished run for its validation set, computed from its checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import CheckpointError, DataError
from bertkit.inference.predictor import build_predictor, load_task
from bertkit.inference.scored import scored
from bertkit.json_text import dumps
from bertkit.placement.inference import EVALUATION_PRECISION
from bertkit.progress import unreported
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.encoding import encode_once
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.splits import Columns, ColumnsOf, Split, load_splits


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

    def predictions_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, as the method of the task; computed once."""
        return self._predictions_and_references

    @cached_property
    def _predictions_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.task.predictions_and_references(self.outputs, self.features, self.examples)

    @cached_property
    def collapse(self) -> str | None:
        """Description of the predictions of a collapsed model, as "all predictions are 'good'"; None for others."""
        return scored(self.task).collapse(self.outputs, self.features, self.examples)

    def digests(self) -> list[str]:
        """Returns a digest of each example, by which the same example in another run is recognized."""
        columns = [self.examples[name] for name in sorted(self.examples)]
        return [hashlib.sha256(dumps(row).encode()).hexdigest()[:16] for row in zip(*columns, strict=True)]


def outcome_of(place: str | Path, *, with_training: bool = False) -> Outcome:
    """Runs the model of a run directory on the validation set of the run, in `EVALUATION_PRECISION`.

    Args:
        place: the run directory.
        with_training: read the training examples too.

    Raises:
        CheckpointError: the folder is no run directory.
        DataError: the data of the run cannot be read, or have changed since the run.
    """
    path = Path(place)
    if not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{place}: contains no recipe.yaml; expected a run directory of `bertkit finetune`")
    data = load_recipe(path / "recipe.yaml").data
    if any(str(getattr(data, name)).startswith("…") for name in getattr(data, "paths", ())):
        raise CheckpointError(
            f"{place}: its recipe.yaml names no folders, as that of a run from the Hub; give the directory that the "
            "run was written to, or predict its validation set with `bertkit predict`"
        )
    task, config = load_task(str(path), {field.name: getattr(data, field.name) for field in fields(data)})
    task, splits = load_splits(task, ["train", "validation"] if with_training else ["validation"])
    _check_unchanged(path, splits)
    split = splits["validation"]
    predictor = build_predictor(str(path), task, config, precision=EVALUATION_PRECISION)
    encoded, _ = encode_once(task, {"validation": split}, predictor.tokenizer)["validation"]
    features = encoded.to_dict()
    outputs = predictor.outputs(features, unreported)
    training = ColumnsOf(splits["train"].examples) if with_training else None
    return Outcome(task, outputs, features, ColumnsOf(split.examples), split.source, split.fingerprint, training)


def _check_unchanged(folder: Path, splits: Mapping[str, Split]) -> None:
    """Compares the splits with those that the run was trained and scored with.

    Raises:
        DataError: one of them has changed, or ``run.json`` is damaged.
    """
    record = folder / "run.json"
    if not record.is_file():
        return
    try:
        recorded = json.loads(record.read_text(encoding="utf-8")).get("data", {})
        fingerprints = {name: recorded.get(name, {}).get("fingerprint") for name in splits}
    except (ValueError, AttributeError) as error:
        raise DataError(f"{record}: damaged ({error}); restore it from a copy of the run") from error
    changed = [
        f"{name} ({split.source})"
        for name, split in splits.items()
        if fingerprints[name] and split.fingerprint and fingerprints[name] != split.fingerprint
    ]
    if changed:
        raise DataError(
            f"{folder}: the data of {' and '.join(changed)} have changed since the run, so numbers computed from them "
            "would not agree with its results; restore the data"
        )


def mean_outputs(members: Sequence[Outputs]) -> Outputs:
    """Averages the outputs of several models for the same inputs."""
    if isinstance(members[0], tuple):
        return tuple(np.mean(arrays, axis=0) for arrays in zip(*members, strict=True))
    return np.asarray(np.mean(members, axis=0))
