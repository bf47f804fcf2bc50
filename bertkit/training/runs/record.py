"""Records of a run: its facts in ``run.json``, its results, and the value that the caller gets."""

from __future__ import annotations

import math
import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.inference.verdict import NO_VERDICT, Verdict
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import TrainingError
from bertkit.runtime.files import read_json, readable_size, write_json
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.placement.inference import EVALUATION_PRECISION
from bertkit.runtime.placement.processor import processor
from bertkit.runtime.progress import counted, is_of_class, is_score, warnings_said
from bertkit.runtime.version import __version__
from bertkit.training.arguments import has_tf32
from bertkit.training.progress import device_name

if TYPE_CHECKING:
    from bertkit.runtime.placement.resolve import Placement
    from bertkit.tasks.splits import Truncation

_LARGE = 10**8  # bytes of checkpoints that the end of a run names
_PACKAGES = ("torch", "transformers", "datasets", "accelerate", "evaluate", "tokenizers")

Results = dict[str, dict[str, float]]
"""Results of a run by the file that they are for: ``train``, ``eval`` and ``predict``."""


@dataclass(frozen=True)
class Run(Summarized):
    """Result of `bertkit.pretrain`, `bertkit.finetune` and `bertkit.distill`.

    Attributes:
        output_dir: the run directory; its top level loads with ``AutoModel….from_pretrained``.
        metrics: the contents of ``all_results.json``.
        collapse: description of the predictions if they are the same for all rows that the run is scored on, such as
            "all predictions are 'good'"; None for other runs, and for pre-training.
        verdict: what the scores say, and what to try next; empty for pre-training.
    """

    output_dir: Path
    metrics: dict[str, float]
    collapse: str | None = None
    verdict: Verdict = NO_VERDICT

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        scores = [(name, self.metrics[key]) for key, name in named_scores(self.metrics)]
        return Summary(f"Run {self.output_dir}", scores, self.verdict.sentences)

    @property
    def disk(self) -> str | None:
        """Lines on the disk space of a run with large checkpoints, and how to free theirs; None for other runs."""
        folders = [path for path in self.output_dir.glob("checkpoint-*") if path.is_dir()]
        of_checkpoints = sum(map(_size_of, folders))
        if of_checkpoints < _LARGE:
            return None
        size = readable_size(_size_of(self.output_dir))
        part = f"{readable_size(of_checkpoints)} of it in {counted(len(folders), 'checkpoint')}"
        free = f"rm -r {shlex.quote(str(self.output_dir))}/checkpoint-*"
        return f"disk: {size}, {part} that only --resume needs; to free them:\n  {free}"


def _size_of(folder: Path) -> int:
    """Returns the bytes of the files in a folder and below it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@dataclass(frozen=True)
class RunRecord:
    """Contents of ``run.json``; ``wall_time`` is in seconds, for a resumed run since its resumption.

    ``evaluation_precision`` is that of the scores at the end of the run, of its predictions, and of all later ones of
    `bertkit.report` and `bertkit.compare`.

    Attributes:
        recipe, placement: of the run.
        data: facts of each split, or of the corpus; and of the teacher, if there is one.
        truncation: what was cut of each split.
        main_metric: name of the score by which the task compares checkpoints; None if it has none.
        collapse, verdict: as in `Run`.
        curves: what the report draws in curves: ``baselines``, the values of simple models by metric, and ``phases``.
        further_scores: names of the scores of ``task.metrics``.
        estimate: how the scores were made: ``folds``, ``held_out`` or ``file``; None for pre-training.
        folds: what is known of the models of folds; empty without them.
        started: time of the start in seconds since 1970.
    """

    recipe: Recipe
    placement: Placement
    data: Mapping[str, Any] = field(default_factory=dict)
    truncation: Mapping[str, Truncation] = field(default_factory=dict)
    main_metric: str | None = None
    collapse: str | None = None
    verdict: Verdict = NO_VERDICT
    curves: Mapping[str, Any] = field(default_factory=dict)
    further_scores: Sequence[str] = ()
    estimate: str | None = None
    folds: Mapping[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    def versions(self) -> dict[str, str]:
        """Returns the versions of the packages that results depend on."""
        return {"bertkit": __version__, **{name: version(name) for name in _PACKAGES}}

    def wall_time(self) -> float:
        """Returns the seconds since the start, for a resumed run since its resumption."""
        return round(time.time() - self.started, 1)

    def write(self, output_dir: Path, **facts: Any) -> None:
        """Writes ``run.json``, with ``facts`` under their names at its end."""
        record = {
            "recipe": self.recipe.name,
            "versions": {**self.versions(), "python": platform.python_version()},
            "placement": {
                "device": self.placement.device,
                "num_processes": self.placement.num_processes,
                "strategy": self.placement.strategy,
                "mixed_precision": self.placement.mixed_precision,
                "tf32": has_tf32(self.recipe, self.placement),
                "per_device_train_batch_size": self.placement.per_device_train_batch_size,
                "gradient_accumulation_steps": self.placement.gradient_accumulation_steps,
                "evaluation_precision": EVALUATION_PRECISION,
            },
            "hardware": {"device": device_name(self.placement.device), "processor": processor()},
            "seed": self.recipe.train["seed"],
            "data": self.data,
            "truncation": {split: vars(cut) for split, cut in self.truncation.items()},
            "main_metric": self.main_metric,
            "collapse": self.collapse,
            "verdict": list(self.verdict.sentences),
            "proposal": None if self.verdict.proposal is None else asdict(self.verdict.proposal),
            "warnings": warnings_said(),
            **self.curves,
            **({"estimate": self.estimate} if self.estimate else {}),
            **({"folds": self.folds} if self.folds else {}),
            **({"further_scores": list(self.further_scores)} if self.further_scores else {}),
            "wall_time": self.wall_time(),
            **facts,
        }
        write_json(output_dir / "run.json", record, default=str)


def is_finished(output_dir: Path) -> bool:
    """Returns whether a folder holds a finished run."""
    try:
        return recorded(output_dir).get("finished") is True
    except (ValueError, AttributeError):  # no JSON, or no object
        return False


def recorded(output_dir: Path) -> Any:
    """Returns the contents of ``run.json``, ``{}`` if it does not exist; ValueError if it is not JSON."""
    return read_json(output_dir / "run.json")


# ---- results ---------------------------------------------------------------------------------------------------------


def finite_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numeric values of a Trainer's metrics as floats, for JSON.

    Raises:
        TrainingError: one of them is not finite.
    """
    numbers = {key: float(value) for key, value in metrics.items() if isinstance(value, Real)}  # of numpy too
    for name, value in numbers.items():
        if not math.isfinite(value):
            why = "the training diverged; "
            if "loss" not in name:
                why = (
                    "many scores are not defined if all labels, or all predictions, are the same. Look at the labels "
                    "of that set first; if they differ, "
                )
            raise TrainingError(
                f"{name} is {value}: {why}try another train.learning_rate, or more steps with a longer warm-up"
            )
    return numbers


def all_results(results: Results) -> dict[str, float]:
    """Returns the results of all files together."""
    return {name: value for numbers in results.values() for name, value in numbers.items()}


def write_results(folder: Path, results: Results) -> None:
    """Writes ``<file>_results.json`` of each file, and adds them to ``all_results.json``; all are flat."""
    for name, numbers in results.items():
        write_json(folder / f"{name}_results.json", numbers)
    path = folder / "all_results.json"
    write_json(path, {**read_json(path), **all_results(results)})


def named_scores(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """Returns the scores of a run as (key, name), without those of single classes; the names tell the sets of rows
    apart if a test set is labelled too.

    >>> named_scores({"eval_f1": 0.5, "eval_runtime": 2.0, "predict_runtime": 2.0})
    [('eval_f1', 'f1')]
    >>> named_scores({"eval_f1": 0.5, "predict_f1": 0.7, "predict_class/a/f1": 0.1})
    [('eval_f1', 'validation f1'), ('predict_f1', 'test f1')]
    """
    scores = [name for name in metrics if is_score(name) and not is_of_class(name)]
    validation, test = ([name for name in scores if name.startswith(prefix)] for prefix in ("eval_", "predict_"))
    if not test:
        return [(key, key.removeprefix("eval_")) for key in validation]
    of_validation = [(key, f"validation {key.removeprefix('eval_')}") for key in validation]
    return [*of_validation, *((key, f"test {key.removeprefix('predict_')}") for key in test)]
