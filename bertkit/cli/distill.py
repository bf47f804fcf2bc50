"""``bertkit distill``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import bertkit
from bertkit.cli import options, training
from bertkit.cli.commands import OF_DATA, OF_EVERY_RUN
from bertkit.cli.finetune import task_recipe
from bertkit.cli.printing import print_results
from bertkit.cli.texts import parse_numbers
from bertkit.runtime.errors import RecipeError

KINDS = ("classification", "glue", "multiple_choice", "ner", "pretraining", "question_answering")
KEYS = (
    *OF_DATA,
    "task.text_columns",
    "task.label_column",
    "task.token_column",
    "task.tag_column",
    "train.distill.objective",
    "train.distill.alpha",
    "train.distill.temperature",
    "train.distill.hidden",
    "train.distill.teacher_layer",
    "train.distill.relation_heads",
    *OF_EVERY_RUN,
)
_PANEL = "Distillation"


@dataclass(frozen=True, kw_only=True)
class Run(training.Run):
    """Arguments of a distillation: as for fine-tuning, but the student takes the place of the checkpoint."""

    recipe: Annotated[
        str | None,
        options.option(help="Name or file of a recipe; by default of the teacher's task or student's size."),
    ] = None
    model: Annotated[
        str | None,
        options.option(
            "--student",
            help="Checkpoint to start from, or the size of a new model, such as bert-mini.",
            panel=_PANEL,
        ),
    ] = None


def distill(
    *,
    teacher: Annotated[
        str,
        options.option(
            help="Checkpoint to learn from: a folder or a Hub id.",
            panel=_PANEL,
        ),
    ],
    corpus: Annotated[
        list[str] | None,
        options.option(
            help=f"Pre-train the student on text. {options.CORPUS_HELP}",
            metavar="PATH_OR_HUB_ID",
            panel=_PANEL,
        ),
    ] = None,
    more: options.MorePaths = None,
    student_layers: Annotated[
        str | None,
        options.option(
            help="Layers of the teacher that the student starts from, such as 0,2,4; instead of --student.",
            panel=_PANEL,
        ),
    ] = None,
    task: Annotated[
        str | None, options.option(help="A GLUE task such as sst2; by default the task of the teacher.")
    ] = None,
    run: Run,
) -> None:
    """Train a small student on the outputs of a teacher. It is fine-tuned as the teacher was, or pre-trained on text
    (--corpus).
    """
    if more and not corpus:
        raise RecipeError(f"{more[0]}: expected an option; text to pre-train on needs --corpus")
    texts = [*(corpus or []), *(more or [])] or None
    if texts and task is not None:
        raise RecipeError("--corpus is for pre-training and --task for fine-tuning; give only one of them")
    recipe = run.recipe if task is None else task_recipe(task, run.recipe)
    layers = None if student_layers is None else parse_numbers(student_layers, "--student-layers", "0,2,4")
    sources: dict[str, Any] = {"recipe": recipe, "corpus": texts, "overrides": run.overrides()}

    def resolved() -> Mapping[str, Any]:
        from bertkit.training.runs.distill import distillation_recipe

        return {"": distillation_recipe(teacher, run.model, layers, **sources)}

    command = training.Training(run=run, recipes=resolved, given={"model": None})
    if run.of_features.start(command):
        return
    arguments = {**command.arguments, **sources}
    del arguments["model"]  # given as the student
    done = bertkit.distill(teacher, run.model, student_layers=layers, output_dir=run.output_dir, **arguments)
    from bertkit.training.runs.pretrain import SHOWN

    of_text = [(key, name) for key, name in SHOWN if key in done.metrics]
    next_commands = training.AFTER_PRETRAINING if of_text else training.AFTER_FINETUNING
    print_results(done, of_text or training.scores(done.metrics), run.json, next_commands)
