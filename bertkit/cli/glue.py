"""``bertkit finetune glue``: one task, several, or all."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import bertkit
from bertkit.cli import completion
from bertkit.cli.grids import print_grid
from bertkit.cli.printing import print_text
from bertkit.cli.reports import print_report
from bertkit.cli.runs import FineTuning, finetune, grid_arguments
from bertkit.cli.settings import run_settings
from bertkit.errors import RecipeError, did_you_mean
from bertkit.json_text import dumps

SETTINGS = run_settings("data.data_dir", "data.long_text", "data.stride", "data.pooling")


def glue(
    *,
    task: Annotated[
        str | None,
        typer.Option(
            help="A GLUE task such as sst2, run with its recipe; several, such as rte,mrpc; or all.",
            show_default=False,
            autocompletion=completion.glue_tasks,
        ),
    ] = None,
    run: FineTuning,
) -> None:
    """Fine-tune on a GLUE task, with the data from the Hub or GLUE's TSV folder."""
    if task is None or not (task == "all" or "," in task):
        finetune("glue", task_recipe(task, run.recipe), run)
        return
    if run.many.is_given:
        from bertkit.grids.glue import glue_grid_table

        print_grid(
            bertkit.finetune_glue_grid(tasks(task, run.recipe), **grid_arguments(run)), run.json, glue_grid_table
        )
        return
    if run.push_to_hub is not None:
        raise RecipeError(f"--push-to-hub is for one run, and --task {task} names several; use bertkit push")
    names = tasks(task, run.recipe)
    if run.is_checked:
        from bertkit.checks.findings import merged

        reports = {name: run.report(f"finetune/glue/{name}", run.output_dir / name) for name in names}
        print_report(merged(reports), run.json)
        return
    from bertkit.run.glue_suite import glue_table

    # Repeating the command continues where it stopped, so --resume has no effect.
    results = bertkit.finetune_glue(names, output_dir=run.output_dir, model=run.model, overrides=run.overrides())
    print_text(dumps(asdict(results), default=str) if run.json else glue_table(results))


def task_recipe(task: str | None, recipe: str | None) -> str:
    """Returns the recipe that ``--task`` or ``--recipe`` names.

    Raises:
        RecipeError: neither or both are given, or the task does not exist.
    """
    if (task is None) == (recipe is None):
        raise RecipeError(f"give either --task (one of {', '.join(_known())}) or --recipe")
    if recipe is not None:
        return recipe
    [name] = tasks(str(task), None)
    return f"finetune/glue/{name}"


def tasks(given: str, recipe: str | None) -> list[str]:
    """Returns the tasks that ``--task`` names: one, several separated by commas, or ``all``.

    Raises:
        RecipeError: a task does not exist or is named twice, or ``--recipe`` is given too.
    """
    known = _known()
    if recipe is not None:
        raise RecipeError(f"--recipe is for one run, and --task {given} names several; give only one of them")
    names = known if given == "all" else given.split(",")
    for name in names:
        if name not in known:
            raise RecipeError(
                f"--task: unknown glue task {name!r}; expected one of {', '.join(known)}, or all"
                f"{did_you_mean(name, known)}"
            )
    if len(set(names)) < len(names):
        raise RecipeError(f"--task {given}: names a task twice")
    return names


def _known() -> list[str]:
    return [name.rpartition("/")[2] for name in bertkit.list_recipes() if name.startswith("finetune/glue/")]
