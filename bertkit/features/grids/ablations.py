"""Ablations of pre-training (BERT §5.1, Table 5): pre-training of each variant, fine-tuning, and a table of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from bertkit.features.grids.compare import compare
from bertkit.features.grids.definition import check_stored, define
from bertkit.features.grids.glue import check_tasks
from bertkit.features.grids.grid import all_values, check_run, finetune_grid
from bertkit.features.grids.results import COLLAPSED, GridResults, SettingResult
from bertkit.features.grids.table import OF_DIFFERENCE, cells_of_test, failures, interval_of_test, notes, p_of_test
from bertkit.features.grids.workers import grid_lock
from bertkit.metrics.statistics import Test, adjust_tests
from bertkit.recipe.files import GLUE, recipes_in
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import BertkitError, DataError, RecipeError, did_you_mean, noted, raise_all
from bertkit.runtime.files import read_json, write_json, write_whole
from bertkit.runtime.formats import Format, ResultTable, interval_text, score_text, to_csv
from bertkit.runtime.options import several
from bertkit.runtime.progress import counted, say
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.training.pretraining.recipe import checked_recipe, pretraining_recipe
from bertkit.training.runs.directory import check_contents, check_repeated_run
from bertkit.training.runs.pretrain import pretrain
from bertkit.training.runs.record import is_finished, recorded
from bertkit.training.runs.resolve import finetuning_recipe

VARIANTS = ("full", "no-nsp", "ltr-no-nsp")
"""Recipes in ``pretrain/ablations/``; the others are compared with the first."""
TASKS = ("mnli", "qnli", "mrpc", "sst2")
"""GLUE tasks of BERT's Table 5."""
RESULTS, TABLE, PRETRAINED, FINETUNED = "ablations.json", "ablations.csv", "pretrain", "finetune"
_RECIPES = "pretrain/ablations/"
_SIZE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
_OF_DOCUMENTS = ("train_documents", "train_digest", "held_out_documents", "held_out_digest")
# Keys of recipes that have their values from the variant.
_OF_VARIANTS = {
    "model.name_or_path": "the variants are pre-trained from new weights",
    "model.attention": "the variants differ in it",
    "task.pair_objective": "the variants differ in it",
}
# Keys of fine-tuning that have their values from elsewhere.
_OF_FINETUNING = {"model.name_or_path": "the variants are fine-tuned", "data.data_dir": "--data-dir gives the folder"}


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

    def row(self) -> dict[str, Any]:
        """Returns the result as the cells of a table, with all digits."""
        return (
            {"metric": self.metric}
            | {name: getattr(self.scores, name) for name in ("n", "mean", "sd", "low", "high")}
            | cells_of_test(self.difference)
            | {"collapsed": len(self.scores.collapsed)}
        )


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


def ablations(
    corpus: str | Path | Sequence[str | Path],
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
            trained. Or the corpus has changed since a variant was pre-trained in an earlier call, or a value of
            ``finetuning`` does not fit the variants, such as a length above their positions; what is trained stays.

    Examples:
        ```python
        results = bertkit.ablations(
            ["texts/"], tasks=["mrpc"], data_dir="GLUE", output_dir="out", overrides={"data.vocab_size": 30522}
        )
        results.tasks["no-nsp"]["mrpc"].difference  # from the whole of BERT
        ```
    """
    folder, tasks = Path(output_dir), several(tasks)
    recipes = _prepare(folder, corpus, data_dir, size, tasks, seeds, overrides, finetuning)
    pretraining: dict[str, dict[str, float]] = {}
    documents: dict[str, dict[str, int | str]] = {}
    grids: dict[str, dict[str, GridResults]] = {}
    for number, (variant, recipe) in enumerate(recipes.items(), start=1):
        place = folder / PRETRAINED / variant
        say(f"{number}/{len(recipes)} {variant}" + (f": already pre-trained; {place}" if is_finished(place) else ""))
        if not is_finished(place):
            pretrain(recipe, output_dir=place, resume=(place / "recipe.yaml").is_file())
        of_corpus = recorded(place).get("data", {}).get("corpus", {})
        documents[variant] = {name: of_corpus[name] for name in _OF_DOCUMENTS if name in of_corpus}
        first = next(iter(documents))
        if documents[variant] != documents[first]:
            raise DataError(
                f"{folder / PRETRAINED}: {first} and {variant} were not pre-trained on the same documents, as the "
                "corpus has changed between them; restore it and remove the folder of the other one, or give another "
                "--output-dir"
            )
        grids[variant] = {}
        for task in tasks:
            say(f"{number}/{len(recipes)} {variant}: {task}")
            grids[variant][task] = finetune_grid(
                GLUE + task,
                output_dir=folder / FINETUNED / variant / task,
                seeds=seeds,
                model=str(place),
                data_dir=data_dir,
                overrides=finetuning,
            )
        pretraining[variant] = read_json(place / "all_results.json")
    return _conclude(folder, pretraining, documents, grids)


def _prepare(
    folder: Path,
    corpus: str | Path | Sequence[str | Path],
    data_dir: str | Path,
    size: str,
    tasks: Sequence[str],
    seeds: int,
    overrides: Mapping[str, Any] | None,
    finetuning: Mapping[str, Any] | None,
) -> dict[str, Recipe]:
    """Checks folder, recipes and the data of all tasks, and returns the recipe of each variant."""
    faults: list[str] = []
    recipes: dict[str, Recipe] = {}

    with noted(faults, BertkitError):
        check_contents(folder, (PRETRAINED, FINETUNED, RESULTS, TABLE))
    if not isinstance(seeds, Integral) or seeds < 1:
        faults.append(f"seeds: {seeds!r} is not an integer of at least 1")
    with noted(faults, BertkitError):
        check_tasks(tasks)
    values: dict[str, Any] = {}
    known = [each for each in recipes_in("pretrain/") if each.startswith("bert-")]
    if size in known:
        model = load_recipe(f"pretrain/{size}").model
        values = {f"model.{key}": model[key] for key in _SIZE}
    else:
        near = did_you_mean(size, known)
        faults.append(f"--size: unknown size {size!r}; expected one of {', '.join(known)}{near}")
    values |= overrides or {}
    for variant in VARIANTS:
        number = len(faults)
        with noted(faults, BertkitError):
            for key, reason in _OF_VARIANTS.items():
                if key in values:
                    raise RecipeError(f"{key}: {reason}; remove it")
            recipes[variant] = checked_recipe(pretraining_recipe(_RECIPES + variant, corpus, None, values))
            if size in known:  # else the model of an earlier call would seem to have changed
                check_repeated_run(recipes[variant], folder / PRETRAINED / variant)
        if len(faults) > number:
            break  # the other variants have the same faults
    of_tasks: list[str] = []
    for task in tasks:
        with noted(of_tasks, BertkitError):
            _check_finetuning(folder, task, data_dir, seeds, finetuning)
    faults += [fault.replace("--set ", "--finetune-set ") for fault in of_tasks]
    raise_all(list(dict.fromkeys(faults)), RecipeError)
    return recipes


def _check_finetuning(
    folder: Path, task: str, data_dir: str | Path, seeds: int, finetuning: Mapping[str, Any] | None
) -> None:
    """Checks recipe and data of a task, and that they are those of its grids of an earlier call."""
    for key, reason in _OF_FINETUNING.items():
        if key in (finetuning or {}):
            raise RecipeError(f"--finetune-set {key}: {reason}; remove it")
    recipe = finetuning_recipe(GLUE + task, overrides=all_values(finetuning, None, data_dir))
    check_run(recipe, folder)
    _, splits = load_splits(task_of_recipe(recipe))
    data = {name: split.fingerprint for name, split in splits.items()}
    for variant in VARIANTS:
        place, grid = folder / PRETRAINED / variant, folder / FINETUNED / variant / task
        if is_finished(place):
            given = all_values(finetuning, str(place), data_dir)
            check_stored(define(GLUE + task, given, (), (), None, seeds, None), grid, data)


def _conclude(
    folder: Path,
    pretraining: dict[str, dict[str, float]],
    documents: dict[str, dict[str, int | str]],
    grids: dict[str, dict[str, GridResults]],
) -> Ablations:
    """Compares the variants with the first one, and writes the results."""
    first = next(iter(grids))
    failed = {
        f"{variant}/{task}/{name}": error
        for variant, of_variant in grids.items()
        for task, grid in of_variant.items()
        for name, error in grid.failed.items()
    }
    scored = {
        (variant, task): grid
        for variant, of_variant in grids.items()
        for task, grid in of_variant.items()
        if grid.best is not None
    }
    compared = [(variant, task) for variant, task in scored if variant != first and (first, task) in scored]
    pairs = [(scored[first, task], scored[variant, task]) for variant, task in compared]
    comparisons = [compare(one.output_dir, other.output_dir, metric=one.metric) for one, other in pairs]
    tests = adjust_tests([each.comparisons[0].by_example for each in comparisons])
    differences = dict(zip(compared, tests, strict=True))
    tasks: dict[str, dict[str, TaskResult]] = {variant: {} for variant in grids}
    for (variant, task), grid in scored.items():
        tasks[variant][task] = TaskResult(grid.metric, grid.settings[0], differences.get((variant, task)))
    results = Ablations(folder, pretraining, documents, tasks, failed, _notes_of(first, documents[first], tasks, tests))
    with grid_lock(folder):
        write_json(folder / RESULTS, asdict(results), default=str)
        write_whole(folder / TABLE, to_csv(ablation_rows(results)))
    return results


def _notes_of(
    first: str,
    documents: Mapping[str, int | str],
    tasks: Mapping[str, Mapping[str, TaskResult]],
    tests: Sequence[Test],
) -> tuple[str, ...]:
    """Returns the limits of the comparison; ``documents`` are those of all variants."""
    trained_on = f"{documents['train_documents']} to train on, " if "train_documents" in documents else ""
    number = sum(test.p is not None for test in tests)
    sentences = [
        f"one pre-training of each variant, so the differences are those of these {len(tasks)} models; whether the "
        "variants differ needs several pre-trainings of each: --set train.seed=N with another --output-dir",
        f"the same documents for all variants, by digest: {trained_on}{documents['held_out_documents']} held out",
    ]
    if number:
        correction = "; p has Holm's correction for their number" if number > 1 else ""
        sentences.insert(1, f"{counted(number, 'comparison')} with {first}{correction}")
    if any(result.scores.collapsed for of_variant in tasks.values() for result in of_variant.values()):
        sentences.append(
            f"collapsed: {COLLAPSED}; the scores of such runs say nothing about pre-training: train longer, or give "
            "another --finetune-set train.learning_rate"
        )
    return tuple(sentences)


def ablation_rows(results: Ablations) -> list[dict[str, Any]]:
    """Returns a row for each variant and task, with all digits."""
    return [
        {"variant": variant, "task": task} | result.row()
        for variant, of_variant in results.tasks.items()
        for task, result in of_variant.items()
    ]


def ablations_table(results: Ablations, width: int | None = None, format: Format = "text") -> str:
    """Formats a line for each variant and task, with the difference from the first variant.

    Args:
        results: results of the ablations.
        width, format: as of `ResultTable.formatted`. Intervals that do not fit into the terminal are left out.
    """
    first = next(iter(results.tasks))
    rows = []
    for variant, of_variant in results.tasks.items():
        for task, result in of_variant.items():
            row, test = result.scores, result.difference
            cells = {"variant": variant, "task": task, "metric": result.metric, "n": str(row.n)}
            cells |= {
                "mean ± sd": score_text(row.mean, row.sd),
                "95 % interval": interval_text(row.low, row.high, unknown=""),
                f"− {first}": "" if test is None or test.difference is None else f"{test.difference:+.4f}",
                OF_DIFFERENCE: interval_of_test(test),
                "p": "" if test is None else p_of_test(test),
                "notes": notes(row),
            }
            rows.append(cells)
    columns = {name: column for name in rows[0] if any(column := [row[name] for row in rows])} if rows else {}
    lines = [*(f"note: {note}" for note in results.notes), *failures(results.failed)]
    optional = ("95 % interval", OF_DIFFERENCE)
    return ResultTable(columns, ablation_rows(results), "", lines, optional).formatted(format, width)
