"""Results of ablations of pre-training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bertkit.features.grids.results import SettingResult
from bertkit.metrics.statistics import Test


@dataclass(frozen=True)
class TaskResult:
    """Scores of a variant on one task.

    Attributes:
        metric: the main metric of the task.
        scores: mean, sd and 95 % interval over the seeds of fine-tuning.
        difference: from the first variant by example, with Holm's correction in ``adjusted_p`` if there are several
            comparisons; None for that variant.
    """

    metric: str
    scores: SettingResult
    difference: Test | None


@dataclass(frozen=True)
class Ablations:
    """Results of `ablations`, also written to ``ablations.json`` and ``ablations.csv``.

    Attributes:
        output_dir: folder with ``pretrain/VARIANT``, and the grids ``finetune/VARIANT/TASK``.
        pretraining: variant → metrics of its pre-training run.
        documents: variant → numbers and digests of the documents that it was trained and evaluated on; all alike.
        tasks: variant → task → result; tasks without any finished run are missing.
        failed: errors of failed runs by name.
        notes: limits of the comparison.
    """

    output_dir: Path
    pretraining: dict[str, dict[str, float]]
    documents: dict[str, dict[str, int | str]]
    tasks: dict[str, dict[str, TaskResult]]
    failed: dict[str, str]
    notes: tuple[str, ...]
