"""Scores of a fine-tuned checkpoint on labelled data, and the outputs of a run for its validation set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.inference.facts import percent, right_of_all
from bertkit.inference.networks import is_ensemble
from bertkit.inference.outcome import OUT_OF_FOLD, OUT_OF_FOLD_FILE, Outcome, further_metrics, task_inference
from bertkit.inference.predictor import Predictor, build_predictor, joined_outputs, load_task
from bertkit.metrics import names as own_metrics
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.model.checkpoint.remote import at_revision
from bertkit.recipe.files import absolute
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError
from bertkit.runtime.files import read_record
from bertkit.runtime.options import several
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.placement.inference import EVALUATION_PRECISION, Precision
from bertkit.runtime.progress import Bar, Reached, counted, is_of_class, say, unreported
from bertkit.tasks.arguments import table_path
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.checkpoints import block_of_run, recipe_of
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.splits import Columns, ColumnsOf, Split, Truncation

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from bertkit.metrics.adapter import FurtherMetrics

_DRAWING = ("folds", "fold", "group_column", "split_seed", "validation_fraction")  # say which rows are held out
_ROWS_AT_ONCE = 4096  # of a split; the lists of numbers that `Task.encode` returns take about 40 bytes a token


@dataclass(frozen=True)
class Evaluation(Summarized):
    """The result of `evaluate`.

    Attributes:
        metrics: ``eval_…``, named as in ``eval_results.json``.
        examples: number of examples scored.
        source: the file or Hub set of the examples.
        truncation: what ``max_seq_length`` cut off.
        collapse: description of the predictions if they are all the same, such as "all predictions are 'good'", and the
            labels are not; None otherwise.
        units: metric → what it is a score of, such as ``10 queries``.
        unit: what an example is called: ``pair``, ``sentence``, ``question``, …
    """

    metrics: dict[str, float]
    examples: int
    source: str
    truncation: dict[str, int]
    collapse: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    unit: str = "example"

    @property
    def counts(self) -> str:
        """Returns the scored units in words: ``60 pairs of dev.csv; ndcg_at_10, mrr_at_10: 10 queries``."""
        examples = counted(self.examples, self.unit, form=",")
        names_of: dict[str, list[str]] = {}
        for name, units in self.units.items():
            if units != examples and not is_of_class(name):
                names_of.setdefault(units, []).append(name.removeprefix("eval_"))
        others = [f"; {', '.join(names)}: {units}" for units, names in names_of.items()]
        return f"{examples} of {self.source}{''.join(others)}"

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        scores = [(name.removeprefix("eval_"), value) for name, value in self.metrics.items() if not is_of_class(name)]
        return Summary(self.counts, scores, filter(None, [self.collapse]))


def evaluate(
    checkpoint: str | Path,
    *,
    split: str = "validation",
    max_samples: int | None = None,
    columns: Mapping[str, Any] | None = None,
    metrics: Sequence[str] = (),
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> Evaluation:
    """Scores a fine-tuned checkpoint on a labelled split of its task.

    The labels of a checkpoint that bertkit did not write are matched with those of the data by name.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        split: ``validation`` or ``train``, of a run without the rows that it held out, or another that has labels
            (``validation_mm`` of MNLI).
        max_samples: score only this number of examples, the first ones.
        columns: columns of the data, named as in the task's settings: ``text_columns``, ``label_column``,
            ``token_column``, ``tag_column``; and ``label_separator``, of several labels in a field. By default those of
            the training, or usual names if the checkpoint does not record them.
        metrics: further metrics of the evaluate library, as in ``task.metrics`` of a recipe. Those of a run directory
            are computed too, except code that may have come with it: names with an owner, and relative paths.
        precision: ``auto`` is float32 on CPUs and fp16 on GPUs.
        revision: branch, tag or commit of a Hub id; ``None`` for ``main``.
        trust_remote_code: run the code that the checkpoint brings, its metrics included; the revision is printed on
            stderr.
        data: values of the task's ``data`` block: ``data_dir``, ``validation_file``, ``max_seq_length``, …; ``None`` is
            not given. A file can be a table itself, as for `bertkit.finetune`. Without a file, a folder or a Hub data
            set, a run directory is scored on the data of its run. If it held rows out of data that have changed since,
            or others would be held out, that is refused; if it scored its rows by folds, the scores are those, and
            options that would change them are refused.

    Raises:
        BertkitError: the checkpoint or the data are not usable.

    Examples:
        ```python
        result = bertkit.evaluate("my-reviews", validation_file="more-reviews.csv")
        result.metrics["eval_accuracy"]
        ```
    """
    data = {key: value for key, value in {"max_eval_samples": max_samples, **data}.items() if value is not None}
    data = {key: table_path(value, key) if key.endswith("_file") else value for key, value in data.items()}
    data = {key: str(value) if isinstance(value, Path) else value for key, value in data.items()}
    name = at_revision(checkpoint, revision, trust_remote_code)
    names = [*map(absolute, map(str, several(metrics))), *metrics_of_run(name, trust_remote_code)]
    further = further_metrics(list(dict.fromkeys(names)))
    of_run = data_of_run(name, data)
    task, config = load_task(name, of_run | data)
    if columns:
        columns = {
            key: list(map(str, several(value))) if key.endswith("_columns") else value for key, value in columns.items()
        }
        task = task_inference(task).with_columns(columns)
    own = {key: of_run.get(key, getattr(type(task.data), key, None)) for key in _DRAWING}
    changed = {key: data[key] for key in _DRAWING if key in data and data[key] != own[key]}
    changed = {key: value for key, value in changed.items() if value or own[key] or key != "folds"}  # 0 is none, too
    if split == "validation" and task.data.scores_all_rows and not (of_run and "folds" in changed):
        given = [*data, *(columns or ()), *([] if precision == "auto" else ["precision"])]
        if given or not (Path(name) / "recipe.yaml").is_file():
            remedy = f"remove {', '.join(given)}" if given else "give the directory of the run"
            raise DataError(
                f"{name}: has no validation set, since its rows were scored by models of folds; {remedy}, or give "
                "other rows, with --validation-file"
            )
        say(f"{name} was trained on all rows; the scores are those of models of folds that had not seen them")
        return _score(outcome_of(name), further)
    if split not in task.splits:
        raise DataError(f"--split {split}: expected one of {', '.join(sorted(task.splits))}")
    # What a run has held out of its training set is no part of it.
    is_rest = bool(of_run) and split == "train" and not getattr(task.data, "validation_file", None)
    task, loaded = load_splits(task, ["train", "validation"] if is_rest else [split])
    if (labelled := loaded.get(split)) is None:
        raise DataError(f"--split {split}: the data have no such split")
    # The same rows must be drawn from the same data; from a Hub data set too, where it has no validation set.
    is_drawn = task.data.folds or not task.data.has_validation_set or getattr(task, "scored_split", "") == "train"
    if of_run and split in ("train", "validation") and is_drawn:
        for key, value in changed.items():
            raise DataError(
                f"data.{key}: {value!r} holds out other rows than {name} did, which was trained on some of them; "
                "remove it, or give other rows, with --validation-file"
            )
        check_unchanged(recipe_of(name).parent, {split: labelled})
    labelled = labelled.first(max_samples)
    for note in labelled.notes:
        say(f"{split}: {note}")
    # Without a file they are the rows that the run has held out of its own.
    if split == "validation" and getattr(task.data, "validation_file", None) and learned_from(name, labelled):
        say(f"warning: {name} was trained on {labelled.source}: its scores on other rows are lower")
    predictor = build_predictor(name, task, config, precision=precision)
    if not set(task.label_columns) <= set(task.encode(labelled.examples[:1], predictor.tokenizer)):
        raise DataError(f"{labelled.source}: no labels to score against; `bertkit predict` takes inputs without labels")
    with Bar("predicting", "rows") as bar:
        outputs, features, cut = _compute_outputs(predictor, labelled, bar)
    outcome = Outcome(task, outputs, features, ColumnsOf(labelled.examples), labelled.source, labelled.fingerprint)
    return _score(outcome, further, asdict(cut))


def learned_from(checkpoint: str, split: Split) -> bool:
    """Returns whether a run, or a checkpoint in it, was trained on the data of a split, by the record of the run."""
    data = read_record(recipe_of(checkpoint).parent / "run.json").get("data") or {}
    return (data.get("train") or {}).get("fingerprint") == split.fingerprint


def _score(outcome: Outcome, further: FurtherMetrics | None, truncation: Mapping[str, int] | None = None) -> Evaluation:
    """Returns the scores of predictions."""
    scores = {f"eval_{name}": value for name, value in outcome.scores(further).items()}
    units = {f"eval_{name}": each for name, each in outcome.units.items()}
    number, example = len(next(iter(outcome.examples.values()))), task_inference(outcome.task).example
    return Evaluation(scores, number, outcome.source, dict(truncation or {}), outcome.collapse, units, example)


def _compute_outputs(predictor: Predictor, split: Split, progress: Reached) -> tuple[Outputs, Columns, Truncation]:
    """Encodes a split and runs the model on it, some thousand rows at a time.

    Returns:
        The outputs for all rows; the columns of `Task.encode` without lengths and the inputs of the model, which take
        the most memory and which no score reads; and what ``max_seq_length`` cut off.
    """
    total = len(split.examples)
    blocks: list[Outputs] = []
    columns: dict[str, Any] = {}
    for start in range(0, total, _ROWS_AT_ONCE):
        features = predictor.task.encode(split.examples[start : start + _ROWS_AT_ONCE], predictor.tokenizer)
        rows = min(_ROWS_AT_ONCE, total - start)

        def reached(done: int, of: int, start: int = start, rows: int = rows) -> None:
            progress(start + rows * done // of, total)

        blocks.append(predictor.outputs(features, reached))
        if "example" in features:  # `encode` counts from 0 in each block
            features["example"] = [start + example for example in features["example"]]
        for name in features.keys() - set(predictor.inputs):
            columns.setdefault(name, []).extend(features[name])
    for name in columns.keys() & set(predictor.task.label_columns):
        if isinstance(columns[name][0], int | float):  # each score would make an array of its own
            columns[name] = np.asarray(columns[name])
    cut = Truncation.of_lengths(columns.pop("length"), columns.pop("full_length"))
    return joined_outputs(blocks), columns, cut


def data_of_run(checkpoint: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the ``data`` block that a run was trained with.

    Args:
        checkpoint: a run directory or a checkpoint in it, ``checkpoint-…``, or any other name of a checkpoint.
        overrides: values of the ``data`` block that the caller has.

    Returns:
        The values; none if the checkpoint is not of a run, if its recipe has paths without their folders, as those of
        runs that were pushed to the Hub, or if a file, a folder or a Hub data set is given.

    Raises:
        RecipeError: ``recipe.yaml`` cannot be read.
        DataError: the checkpoint is an ensemble of folds, whose members were trained on the rows of each other's folds.
    """
    if any(key.endswith(("_dir", "_file")) or key == "dataset_name" for key in overrides):
        return {}
    data = block_of_run(checkpoint, "data")
    if any(str(value).startswith("…") for value in data.values()):
        return {}
    if data.get("folds") and is_ensemble(checkpoint):
        raise DataError(
            f"{checkpoint}: its members were trained on different folds, so together they have seen all rows; give "
            "other data, with --validation-file or --data-dir"
        )
    return {key: value for key, value in data.items() if value is not None}


def outcome_of(place: str | Path, name: str = "validation", *, with_training: bool = False) -> Outcome:
    """Runs the model of a run directory on the validation set of the run, in `EVALUATION_PRECISION`.

    Of a run that scored all rows by folds it reads what the models of its folds predicted.

    Args:
        place: the run directory.
        name: another split of the data of the run, such as ``test``.
        with_training: read the training examples too.

    Raises:
        CheckpointError: the folder is no run directory, or its recipe names no folders, as that of a run from the Hub.
        DataError: the data of the run cannot be read, or have changed since the run.
    """
    path = Path(place)
    if not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{place}: contains no recipe.yaml; expected a run directory of `bertkit finetune`")
    data = load_recipe(path / "recipe.yaml").data
    if any(str(getattr(data, key)).startswith("…") for key in getattr(data, "paths", ())):
        raise CheckpointError(
            f"{place}: its recipe.yaml names no folders, as that of a run from the Hub; give the directory that the "
            "run was written to, or predict its validation set with `bertkit predict`"
        )
    task, config = load_task(str(path), {each.name: getattr(data, each.name) for each in fields(data)})
    task, splits = load_splits(task, ["train", name] if with_training else [name])
    check_unchanged(path, splits)
    split = splits[name]
    if name == "validation" and task.data.scores_all_rows:
        return _read_out_of_fold(path, task, config, split)
    predictor = build_predictor(str(path), task, config, precision=EVALUATION_PRECISION)
    outputs, features, _ = _compute_outputs(predictor, split, unreported)
    return Outcome(
        task,
        outputs,
        features,
        ColumnsOf(split.examples),
        split.source,
        split.fingerprint,
        training=ColumnsOf(splits["train"].examples) if with_training else None,
        numbers=split.numbers,
        unit=split.unit,
    )


def _read_out_of_fold(folder: Path, task: Task, config: PreTrainedConfig, split: Split) -> Outcome:
    """Returns what the models of the folds of a run have predicted for all rows, from its directory.

    Raises:
        DataError: the file is missing or damaged.
    """
    place = folder / OUT_OF_FOLD_FILE
    try:
        with place.open(encoding="utf-8") as lines:
            rows = list(map(json.loads, lines))
        logits = np.asarray([row["logits"] for row in rows], dtype=np.float32)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{place}: missing or damaged ({error}); restore it from a copy of the run") from error
    if len(logits) != len(split.examples):
        raise DataError(f"{place}: {counted(len(logits), 'row')}, and the data have {len(split.examples)}; restore it")
    examples = ColumnsOf(split.examples)
    features = task.encode(split.examples[:], load_tokenizer(str(folder), config=config))
    return Outcome(
        task,
        logits,
        {name: values for name, values in features.items() if name in (*task.label_columns, "example")},
        examples,
        split.source,
        split.fingerprint,
        training=examples,
        numbers=split.numbers,
        unit=split.unit,
        scored=OUT_OF_FOLD,
    )


def check_unchanged(folder: Path, splits: Mapping[str, Split | Outcome]) -> None:
    """Compares splits, or the outputs for them, with those that the run in a folder was trained and scored with.

    Raises:
        DataError: one has changed, or ``run.json`` is damaged.
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


def metrics_of_run(checkpoint: str, are_trusted: bool) -> list[str]:
    """Returns the further metrics of a run, without code that may have come with its folder, unless that is trusted."""
    recorded = block_of_run(checkpoint, "task").get("metrics")
    names = [str(name) for name in recorded] if isinstance(recorded, list) else []

    def is_known(metric: str) -> bool:  # a folder in its place, or a name without owner that is no folder here
        place = Path(metric)
        if place.is_absolute() or place.exists():
            return place.is_absolute() and place.exists()
        return "/" not in metric or metric in own_metrics()

    # A folder is absolute in the recipe of a run; a relative one may have been unpacked with the checkpoint.
    usable = [name for name in names if are_trusted or is_known(name)]
    if left_out := [name for name in names if name not in usable]:
        say(
            f"task.metrics: {', '.join(left_out)} left out: the recipe of {checkpoint} names code that is not here, or "
            "that may have come with it; give --metric to compute it"
        )
    return usable


def unsure_on_validation(checkpoint: str | Path, probability: float) -> str:
    """Returns a line on the validation set of a run, or on all rows of one that scored them by folds: the share of
    unsure predictions, and how many of the rest are right.

    Args:
        checkpoint: a run directory; other checkpoints, and runs whose data have changed, give the reason instead.
        probability: one number, as `PredictOptions.unsure_below`.
    """
    try:
        outcome = outcome_of(checkpoint)
    except BertkitError as error:
        return f"unsure below {probability:g}: the share of such predictions is not known: {error}"
    predicted, true = outcome.predictions_and_references()
    is_sure = np.array([row["probability"] >= probability for row in outcome.decoded()], dtype=bool)
    is_right = np.asarray(predicted) == np.asarray(true)
    unsure = int((~is_sure).sum())
    line = f"unsure below {probability:g} on {outcome.scored}: {unsure:,} of "
    line += f"{counted(len(is_sure), 'example', form=',')}, {percent(unsure / max(len(is_sure), 1))}"
    rest, _ = right_of_all(is_right[is_sure], texts=outcome.same_texts[is_sure])
    return f"{line}; of the rest, {rest[0]}" if rest else f"{line}; nothing is left"
