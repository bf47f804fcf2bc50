"""``bertkit finetune TASK``, and ``bertkit negatives`` for tables of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import command
from bertkit.cli.groups import Group
from bertkit.cli.printing import print_result
from bertkit.cli.training import FineTuning, finetune, finetune_several
from bertkit.recipe.files import GLUE, recipes_in
from bertkit.runtime.errors import RecipeError, did_you_mean
from bertkit.runtime.progress import counted
from bertkit.tasks.registry import TASKS
from bertkit.tasks.usual_recipes import recipe_of_package

app = typer.Typer(cls=Group, help="Fine-tune BERT for a task.", no_args_is_help=True)


@app.callback()
def _finetune() -> None:
    pass


def _add(kind: str, summary: str, *examples: str) -> None:
    """Adds ``bertkit finetune KIND`` for a task with one recipe."""
    name = kind.replace("_", "-")

    def of_task(run: FineTuning) -> None:
        finetune(kind, f"finetune/{name}", run)

    of_task.__doc__ = summary
    command(app, kind, name=name, examples=examples)(of_task)


@command(
    app,
    "glue",
    examples=(
        "finetune glue --task sst2 --model google-bert/bert-base-uncased --output-dir sst2",
        "finetune glue --task rte,mrpc --data-dir GLUE --model my-bert --output-dir glue",
        "finetune glue --task rte --grid paper --seeds 3 --output-dir rte-grid",
    ),
)
def glue(
    *,
    task: Annotated[
        str | None,
        options.option(
            help="A GLUE task such as sst2, run with its recipe; several, such as rte,mrpc; or all.",
            complete=options.complete_glue_tasks,
        ),
    ] = None,
    run: FineTuning,
) -> None:
    """Fine-tune on a GLUE task, from the Hub or its TSV folder."""
    if task is None or not (task == "all" or "," in task):
        finetune("glue", task_recipe(task, run.recipe), run)
        return
    if run.recipe is not None:
        raise RecipeError(f"--recipe is for one run, and --task {task} names several; give only one of them")
    finetune_several({name: GLUE + name for name in glue_tasks(task)}, run)


_add(
    "classification",
    "Fine-tune on your own table. A text, or a pair, has one class, several classes or a number.",
    "finetune classification --train-file mails.csv --model bert-base-uncased --output-dir mails",
    "check finetune classification --train-file mails.csv --model my-bert --output-dir mails",
    "finetune classification --train-file mails.csv --model my-bert --folds 5 --output-dir folds",
)

_add(
    "multiple_choice",
    "Fine-tune on multiple choice: SWAG, or your own endings.",
    "finetune multiple-choice --model google-bert/bert-base-uncased --output-dir swag",
    "finetune multiple-choice --train-file questions.csv --model my-bert --output-dir questions",
    "check finetune multiple-choice --train-file questions.csv --model my-bert --output-dir questions",
)


@command(
    app,
    "question_answering",
    examples=(
        "finetune squad --model google-bert/bert-base-uncased --output-dir squad",
        "finetune squad --train-file train.json --validation-file dev.json --model my-bert --output-dir answers",
        "finetune squad --version-2-with-negative --model my-bert --output-dir squad-2",
    ),
)
def squad(run: FineTuning) -> None:
    """Fine-tune on SQuAD 1.1 or 2.0, or your own questions. Answers are spans of a text."""
    version = "v2" if "task.version_2_with_negative" in run.settings else "v1"
    finetune("question_answering", f"finetune/squad/{version}", run)


_add(
    "ner",
    "Fine-tune on words with tags: entities, parts of speech.",
    "finetune ner --train-file train.conll --model google-bert/bert-base-cased --output-dir entities",
    "check finetune ner --train-file train.conll --model my-bert --output-dir entities",
    "finetune ner --train-file spans.jsonl --validation-file more.jsonl --model my-bert --output-dir entities",
)

_add(
    "reranking",
    "Fine-tune a reranker of passages. It is a cross-encoder, which reads a query and a passage together.",
    "finetune reranking --train-file queries.csv --model google-bert/bert-base-uncased --output-dir reranker",
    "check finetune reranking --train-file queries.csv --model my-bert --output-dir reranker",
    "finetune reranking --train-file queries.csv --model my-bert --seeds 3 --output-dir rerankers",
)

_add(
    "similarity",
    "Fine-tune sentence embeddings on pairs, triplets or NLI. The losses are those of sentence-transformers.",
    "finetune similarity --train-file pairs.csv --model google-bert/bert-base-uncased --output-dir similar",
    "check finetune similarity --train-file pairs.csv --model my-bert --output-dir similar",
    "finetune similarity --train-file triplets.jsonl --model my-bert --output-dir similar",
)


def task_recipe(task: str | None, recipe: str | None) -> str:
    """Returns the recipe that ``--task`` or ``--recipe`` names.

    Raises:
        RecipeError: neither or both are given, or ``--task`` is not one task that exists.
    """
    if (task is None) == (recipe is None):
        raise RecipeError(f"give either --task (one of {', '.join(recipes_in(GLUE))}) or --recipe")
    if recipe is not None:
        return recipe
    if len(glue_tasks(str(task))) > 1:
        raise RecipeError(f"--task {task}: names several, and this is one run; name one task")
    return f"{GLUE}{task}"


def glue_tasks(given: str) -> list[str]:
    """Returns the tasks that ``--task`` names: one, several separated by commas, or ``all``.

    Raises:
        RecipeError: a task does not exist or is named twice.
    """
    known = recipes_in(GLUE)
    names = known if given == "all" else given.split(",")
    for name in names:
        if name not in known:
            raise RecipeError(
                f"--task: unknown glue task {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}"
            )
    if len(set(names)) < len(names):
        raise RecipeError(f"--task {given}: names a task twice")
    return names


def add_task(kind: str, package: str) -> None:
    """Adds ``bertkit finetune KIND`` for a task of another package, with options for all its settings.

    The module of the task is imported only when the command is run or its help is shown.

    Args:
        kind: name of the task, as in ``task.kind``; the command has dashes instead of underscores.
        package: name of the package, for the help.
    """

    def of_task(run: FineTuning) -> None:
        finetune(kind, recipe_of_package(TASKS.task(kind)), run)

    of_task.__doc__ = f"Fine-tune for {kind}, a task of the package {package}."
    command(app, kind, name=kind.replace("_", "-"))(of_task)


for kind, package in TASKS.third_party().items():
    add_task(kind, package)


def negatives(
    pairs: Annotated[
        Path,
        typer.Argument(help="Table with a text and its positive, as for finetune.", show_default=False),
    ],
    out: Annotated[Path, typer.Argument(help="A new file: .csv or .jsonl.", show_default=False)],
    model: Annotated[
        str, options.option(help="Checkpoint whose vectors are compared, of bertkit or sentence-transformers.")
    ],
    number: Annotated[int, options.option(help="Negatives of each pair.", min=1)] = 3,
    margin: Annotated[
        float,
        options.option(
            help="A text is no negative if its cosine is above that of the positive less this share of it.", min=0
        ),
    ] = 0.05,
    text_column: Annotated[
        list[str] | None,
        options.option(help="Column of the text, then that of its positive; by default those with usual names."),
    ] = None,
    batch_size: Annotated[int, options.option(help="Texts that are encoded at once.", min=1)] = 32,
    json: options.AsJson = False,
) -> None:
    """Find near but wrong texts for similarity and reranking. They are negatives for finetune."""
    mined = bertkit.mine_negatives(
        pairs,
        out,
        model=model,
        number=number,
        margin=margin,
        text_columns=text_column or (),
        batch_size=batch_size,
    )
    of_each = counted(number, "negative")
    print_result(mined, [f"{mined.path}: {mined.rows} of {counted(mined.pairs, 'pair')} with {of_each} each"], json)
