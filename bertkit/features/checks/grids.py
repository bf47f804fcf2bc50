"""`bertkit.check_grid`: checks of a grid before it starts: the first run of each setting, equal findings once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertkit.features.checks.check import check, finding_of
from bertkit.features.checks.findings import Finding, Report, in_order
from bertkit.features.grids.definition import define
from bertkit.features.grids.grid import all_values, key_of_rows, prepare, settings_to_check
from bertkit.features.grids.values import Values
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import BertkitError
from bertkit.runtime.progress import without_repetitions
from bertkit.tasks.arguments import with_settings


def check_grid(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    output_dir: str | Path,
    grid: Values = (),
    search: Values = (),
    trials: int | None = None,
    seeds: int | Sequence[int] = 1,
    folds: int | None = None,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    labels: bool = False,
    strict: bool = False,
    fix: str | Path | None = None,
    **settings: Any,
) -> Report:
    """Checks a grid of `bertkit.finetune_grid` before it starts, as `bertkit.check` does for one run.

    The first run of each setting is prepared by its own code; of a search, runs with the ends of the ranges. Nothing is
    trained for later use, and nothing is written but temporary files and the two tables of ``fix``.

    Args:
        recipe, output_dir, grid, search, trials, seeds, folds, model, data_dir, overrides, settings: as for
            `finetune_grid`.
        labels, strict: as for `check`.
        fix: as for `check`, for the rows of the first setting.

    Returns:
        The findings, equal ones of several settings once, and for each setting the plan of a run, with ``runs``, the
        number of its seeds and folds, and ``settings``, the number of settings that it stands for: 1, or of a search
        its part of the trials. What the grid would refuse is an error among the findings.

    Raises:
        RecipeError: ``labels`` is set and cleanlab is not installed.
        BertkitError: ``fix`` is refused, see `bertkit.features.checks.fix.fix`.

    Examples:
        ```python
        found = bertkit.check_grid(
            "classification", grid="paper", train_file="reviews.csv", model="my-bert", output_dir="grid"
        )
        for setting, plan in found.plan.items():
            print(setting, plan["runs"], plan["steps"], plan["seconds"])
        ```
    """
    try:
        values = all_values(with_settings(recipe, overrides, settings), model, data_dir)
        definition = define(recipe, values, grid, search, trials, seeds, folds)
    except BertkitError as refused:
        return Report((finding_of(refused),))
    findings: dict[tuple[str, str], Finding] = {}
    plans: dict[str, Any] = {}
    rows_with_checked_labels: set[str] = set()
    with without_repetitions():
        checked = settings_to_check(definition)
        stands_for = 1 if definition.trials is None else definition.trials / len(checked)
        for number, setting in enumerate(checked):
            try:
                of_recipe = definition.recipe_of(definition.cells(setting)[0])
            except BertkitError as refused:  # its values do not fit each other
                finding = finding_of(refused)
                findings[finding.code, finding.message] = finding
                continue
            rows = key_of_rows(of_recipe)  # usually those of all settings
            report = check(
                of_recipe, labels=labels and rows not in rows_with_checked_labels, fix=fix if number == 0 else None
            )
            rows_with_checked_labels.add(rows)
            for finding in report.findings:
                findings.setdefault((finding.code, finding.message), finding)
            if report.plan:
                plans[setting.name] = {"runs": definition.runs_per_setting, "settings": stands_for, **report.plan}
        if not any(each.level == "error" for each in findings.values()):
            try:
                prepare(recipe, Path(output_dir), grid, search, trials, seeds, folds, values)
            except BertkitError as refused:
                finding = finding_of(refused)
                findings[finding.code, finding.message] = finding
    report = Report(in_order(list(findings.values())), plans)
    return report.strict() if strict else report
