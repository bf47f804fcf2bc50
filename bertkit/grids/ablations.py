"""Ablations of pre-training (BERT §5.1, Table 5): pre-training of each variant, fine-tuning, and a table of scores."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertkit.errors import BertkitError, DataError, OutputError, RecipeError, did_you_mean, listed
from bertkit.files import remove_unfinished, write_json, write_whole
from bertkit.grids.compare import compare
from bertkit.grids.grid import finetune_grid, given
from bertkit.grids.results import GridResults, SettingResult
from bertkit.grids.table import aligned
from bertkit.grids.workers import grid_lock
from bertkit.metrics.statistics import Test
from bertkit.progress import say
from bertkit.recipe.find import list_recipes
from bertkit.recipe.load import Recipe
from bertkit.tasks.construction import task_of_recipe
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe
from bertkit.training.glue_suite import FAMILY, glue_tasks
from bertkit.training.pretraining.pretrain import pretrain
from bertkit.training.pretraining.recipe import checked_recipe, pretraining_recipe
from bertkit.training.run_directory import check_place, check_repeated_run, contents, is_finished, recorded

VARIANTS = ("full", "no-nsp", "ltr-no-nsp")
"""Recipes in ``pretrain/ablations/``; the others are compared with the first."""
TASKS = ("mnli", "qnli", "mrpc", "sst2")
"""GLUE tasks of BERT's Table 5."""
RESULTS, TABLE, PRETRAINED, FINETUNED = "ablations.json", "ablations.csv", "pretrain", "finetune"
_RECIPES = "pretrain/ablations/"
_SIZE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True)
class TaskResult:
    """Scores of a variant on one task.

    Attributes:
        metric: the main metric of the task.
        scores: mean, sd and 95 % interval over the seeds.
        difference: from the first variant on the same examples and seeds; None for that variant.
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
    """

    output_dir: Path
    pretraining: dict[str, dict[str, float]]
    documents: dict[str, dict[str, int | str]]
    tasks: dict[str, dict[str, TaskResult]]
    failed: dict[str, str]


def ablations(
    corpus: Sequence[str | Path],
    *,
    data_dir: str | Path,
    output_dir: str | Path,
    size: str = "bert-base",
    tasks: Sequence[str] = TASKS,
    seeds: int = 3,
    overrides: Mapping[str, Any] | None = None,
    finetuning: Mapping[str, Any] | None = None,
) -> Ablations:
    """Pre-trains BERT, BERT without NSP and a left-to-right model alike, and fine-tunes each on several tasks.

    Repeating the call continues: finished runs stay, and interrupted ones are resumed.

    Args:
        corpus: as for `bertkit.pretrain`; the same for every variant.
        data_dir: folder with GLUE's data.
        output_dir: folder of all runs; new or empty, or that of an earlier call.
        size: a recipe in ``pretrain/`` that gives the size of the model, such as ``bert-mini``.
        tasks: names of GLUE tasks.
        seeds: fine-tunings of each variant on each task.
        overrides: recipe values of pre-training by dotted key, such as ``data.vocab_size`` and ``train.max_steps``.
        finetuning: recipe values of fine-tuning by dotted key.

    Raises:
        BertkitError: an argument, a recipe or data are invalid, or the folder holds other runs; then nothing has been
            trained. Or the corpus has changed since a variant was pre-trained in an earlier call.
    """
    folder = Path(output_dir)
    recipes = _checked(folder, corpus, data_dir, size, tasks, seeds, overrides, finetuning)
    pretraining: dict[str, dict[str, float]] = {}
    documents: dict[str, dict[str, int | str]] = {}
    grids: dict[str, dict[str, GridResults]] = {}
    for number, (variant, recipe) in enumerate(recipes.items(), start=1):
        place = folder / PRETRAINED / variant
        say(f"{number}/{len(recipes)} {variant}" + (f": already pre-trained; {place}" if is_finished(place) else ""))
        if not is_finished(place):
            pretrain(recipe, output_dir=place, resume=(place / "recipe.yaml").is_file())
        documents[variant] = _documents(place)
        _check_documents(documents, folder)
        grids[variant] = {}
        for task in tasks:
            say(f"{number}/{len(recipes)} {variant}: {task}")
            grids[variant][task] = finetune_grid(
                FAMILY + task,
                output_dir=folder / FINETUNED / variant / task,
                seeds=seeds,
                model=str(place),
                data_dir=data_dir,
                overrides=finetuning,
            )
        pretraining[variant] = _metrics(place)
    return _conclude(folder, pretraining, documents, grids)


def _checked(
    folder: Path,
    corpus: Sequence[str | Path],
    data_dir: str | Path,
    size: str,
    tasks: Sequence[str],
    seeds: int,
    overrides: Mapping[str, Any] | None,
    finetuning: Mapping[str, Any] | None,
) -> dict[str, Recipe]:
    """Checks folder, recipes and the data of all tasks, and returns the recipe of each variant.

    Raises:
        BertkitError: one message with all faults.
    """
    faults: list[str] = []
    recipes: dict[str, Recipe] = {}

    def collect(check: Any, *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except BertkitError as error:
            faults.append(str(error))
        return None

    collect(_check_folder, folder)
    if seeds < 1:
        faults.append(f"seeds: {seeds} is not at least 1")
    if not tasks or len(set(tasks)) < len(tasks):
        faults.append(f"tasks: expected one or more of {', '.join(glue_tasks())}, each once; got {list(tasks)}")
    values = {**(collect(_size, size) or {}), **(overrides or {})}
    for variant in VARIANTS:
        known = len(faults)
        recipe = collect(_variant, variant, corpus, values)
        if recipe is not None:
            recipes[variant] = recipe
            collect(check_repeated_run, recipe, folder / PRETRAINED / variant)
        if len(faults) > known:
            break  # the other variants have the same faults
    for task in tasks:
        collect(_check_task, task, data_dir, finetuning)
    if faults:
        raise RecipeError(listed(list(dict.fromkeys(faults))))
    return recipes


def _check_folder(folder: Path) -> None:
    check_place(folder)
    others = [name for name in contents(folder) if name not in (PRETRAINED, FINETUNED, RESULTS, TABLE)]
    if others:
        raise OutputError(f"--output-dir {folder}: contains {', '.join(others[:3])}; give another folder")


def _size(name: str) -> dict[str, Any]:
    """Returns the overrides that give a model the size of a recipe.

    Raises:
        RecipeError: there is no such recipe, or it gives no size.
    """
    known = [each.removeprefix("pretrain/") for each in list_recipes() if each.startswith("pretrain/bert-")]
    if name not in known:
        raise RecipeError(
            f"--size: unknown size {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}"
        )
    model = load_recipe(f"pretrain/{name}").model
    return {f"model.{key}": model[key] for key in _SIZE}


def _variant(variant: str, corpus: Sequence[str | Path], values: Mapping[str, Any]) -> Recipe:
    if "model.name_or_path" in values:
        raise RecipeError("model.name_or_path: the variants are pre-trained from new weights; remove it")
    for key in ("model.attention", "task.pair_objective"):
        if key in values:
            raise RecipeError(f"{key}: the variants differ in it; remove it")
    return checked_recipe(pretraining_recipe(_RECIPES + variant, corpus, None, values))


def _check_task(task: str, data_dir: str | Path, finetuning: Mapping[str, Any] | None) -> None:
    if task not in glue_tasks():
        raise RecipeError(
            f"--task: unknown glue task {task!r}; expected one of {', '.join(glue_tasks())}"
            f"{did_you_mean(task, glue_tasks())}"
        )
    load_splits(task_of_recipe(load_recipe(FAMILY + task, given(finetuning, None, data_dir))))


def _documents(place: Path) -> dict[str, int | str]:
    """Returns the numbers and digests of the documents of a finished pre-training."""
    corpus = recorded(place).get("data", {}).get("corpus", {})
    names = ("train_documents", "train_digest", "held_out_documents", "held_out_digest")
    return {name: corpus[name] for name in names if name in corpus}


def _check_documents(documents: Mapping[str, Mapping[str, int | str]], folder: Path) -> None:
    """Checks that the last variant was trained and evaluated on the documents of the first one.

    Raises:
        DataError: it was not, as the corpus has changed between two calls.
    """
    first, last = next(iter(documents)), next(reversed(documents))
    if documents[last] != documents[first]:
        raise DataError(
            f"{folder / PRETRAINED}: {first} and {last} were not pre-trained on the same documents, as the corpus has "
            "changed between them; restore it and remove the folder of the other one, or give another --output-dir"
        )


def _metrics(place: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((place / "all_results.json").read_text(encoding="utf-8"))
    return found


def _conclude(
    folder: Path,
    pretraining: dict[str, dict[str, float]],
    documents: dict[str, dict[str, int | str]],
    grids: dict[str, dict[str, GridResults]],
) -> Ablations:
    first = next(iter(grids))
    tasks: dict[str, dict[str, TaskResult]] = {}
    failed: dict[str, str] = {}
    for variant, of_variant in grids.items():
        tasks[variant] = {}
        for task, grid in of_variant.items():
            failed |= {f"{variant}/{task}/{name}": error for name, error in grid.failed.items()}
            if grid.best is None:
                continue
            difference = None
            if variant != first and grids[first][task].best is not None:
                compared = compare(grids[first][task].output_dir, grid.output_dir, metric=grid.metric)
                difference = compared.comparisons[0].by_example
            tasks[variant][task] = TaskResult(grid.metric, grid.settings[0], difference)
    results = Ablations(folder, pretraining, documents, tasks, failed)
    with grid_lock(folder):
        remove_unfinished(folder)
        write_json(folder / RESULTS, asdict(results), default=str)
        write_whole(folder / TABLE, _csv(results).encode())
    return results


def _csv(results: Ablations) -> str:
    text = io.StringIO()
    names = ("variant", "task", "metric", "n", "mean", "sd", "low", "high", "difference", "difference_low")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "difference_high", "p"])
    for variant, of_variant in results.tasks.items():
        for task, found in of_variant.items():
            row, test = found.scores, found.difference
            differences = [test.difference, test.low, test.high, test.p] if test else [None] * 4
            writer.writerow([variant, task, found.metric, row.n, row.mean, row.sd, row.low, row.high, *differences])
    return text.getvalue()


def ablations_table(results: Ablations) -> str:
    """Formats the results for a terminal: a line for each variant and task, with the difference from the first."""
    rows = []
    for variant, of_variant in results.tasks.items():
        for task, found in of_variant.items():
            row, test = found.scores, found.difference
            spread = "" if row.sd is None else f" ± {row.sd:.4f}"
            interval = "" if row.low is None else f"{row.low:.4f}–{row.high:.4f}"
            change = "" if test is None else f"{test.difference:+.4f}"
            change_interval = "" if test is None or test.low is None else f"{test.low:+.4f} to {test.high:+.4f}"
            mean = f"{row.mean:.4f}{spread}"
            rows.append((variant, task, found.metric, str(row.n), mean, interval, change, change_interval))
    first = next(iter(results.tasks))
    names = ("variant", "task", "metric", "n", "mean ± sd", "95 % interval", f"− {first}", "95 % interval of it")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)} if rows else {}
    lines = aligned(columns) if columns else []
    lines += [f"failed: {name}: {error}" for name, error in results.failed.items()]
    if results.failed:
        lines.append(f"{len(results.failed)} runs failed; repeat the command to try them again")
    return "\n".join(lines)
