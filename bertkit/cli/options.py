"""Options that several commands share, and how they become recipe overrides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bertkit.errors import RecipeError, did_you_mean
from bertkit.recipe.find import list_recipes
from bertkit.recipe.load import load_placement
from bertkit.recipe.yaml_files import parse_value

CORPUS_HELP = "Text: files (.txt, .jsonl, .parquet, also .gz, .zst), folders, patterns, Hub ids. Repeatable."
OutputDir = Annotated[Path, typer.Option("--output-dir", help="The run directory; new or empty.", show_default=False)]
MorePaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...", help="More of the corpus: --corpus a.txt b.txt, --corpus texts/*.txt.", show_default=False
    ),
]
OptionalRecipe = Annotated[
    str | None, typer.Option("--recipe", help="A recipe's name (bertkit recipes list) or file.", show_default=False)
]
Cased = Annotated[bool, typer.Option("--cased", help="Keep upper case and accents in the vocabulary that is trained.")]
MergeScore = Annotated[
    Literal["frequency", "likelihood"] | None,
    typer.Option(help="What the vocabulary's trainer merges pairs by; frequency by default.", show_default=False),
]
MinPairFrequency = Annotated[
    int | None, typer.Option(help="How often a pair has to occur to be merged.", show_default=False)
]
TextColumn = Annotated[
    str | None, typer.Option(help="Where rows have their text; text by default.", show_default=False)
]
DatasetConfig = Annotated[str | None, typer.Option(help="Configuration of a Hub set.", show_default=False)]
DatasetSplit = Annotated[str | None, typer.Option(help="Split of a Hub set; train by default.", show_default=False)]
Streaming = Annotated[
    bool, typer.Option("--streaming", help="Read the corpus as it is trained on: for what does not fit the disk.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any recipe value: block.key=value. Repeatable.", metavar="KEY=VALUE", show_default=False
    ),
]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.", show_default=False)]
Epochs = Annotated[float | None, typer.Option("--num-train-epochs", help="Passes over the data.", show_default=False)]
MaxSteps = Annotated[int | None, typer.Option(help="Optimizer steps; wins over epochs.", show_default=False)]
GlobalBatch = Annotated[
    int | None,
    typer.Option(
        "--global-train-batch-size",
        help="Sequences per optimizer step, over all processes and accumulation.",
        show_default=False,
    ),
]
MaxSeqLength = Annotated[int | None, typer.Option(help="Tokens of one input with specials.", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="Seed of weights, order, masks, dropout.", show_default=False)]
MaxTrainSamples = Annotated[int | None, typer.Option(help="Only the first so many examples.", show_default=False)]
MaxEvalSamples = Annotated[int | None, typer.Option(help="Only the first so many examples.", show_default=False)]
Placement = Annotated[
    str | None,
    typer.Option(help="Where to run: auto, cpu, single_gpu, ddp, fsdp, or a file of your own.", show_default=False),
]
NumProcesses = Annotated[
    int | None,
    typer.Option(help="Processes to start here, one for each device; with ddp and fsdp all GPUs.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --output-dir.")]
PushToHub = Annotated[
    str | None,
    typer.Option(
        "--push-to-hub",
        help="Push the finished run to this repository; licence and the like: --set hub.license=mit.",
        metavar="REPO_ID",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with the data; without it the set is loaded from the Hub.", show_default=False),
]
Model = Annotated[str | None, typer.Option(help="Checkpoint to start from: a folder or a Hub id.", show_default=False)]
TrainFile = Annotated[
    Path | None, typer.Option(help="Table to train on: .csv, .tsv, .jsonl or .parquet.", show_default=False)
]
ValidationFile = Annotated[
    Path | None,
    typer.Option(help="Table to score on; without it some training rows are held out.", show_default=False),
]
TestFile = Annotated[Path | None, typer.Option(help="Table to predict, with or without labels.", show_default=False)]
DatasetName = Annotated[str | None, typer.Option(help="A set of the Hub instead of files.", show_default=False)]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text-column", help="The column of the text; twice for a pair.", show_default=False),
]
LabelColumn = Annotated[str | None, typer.Option(help="The column of the labels.", show_default=False)]
LabelSeparator = Annotated[
    str | None, typer.Option(help="What parts several labels in a field of a CSV or TSV file.", show_default=False)
]
LongText = Annotated[
    Literal["cut", "chunk"] | None,
    typer.Option(
        help="Cut a text beyond --max-seq-length, or read all of it in overlapping windows.", show_default=False
    ),
]
Stride = Annotated[
    int | None, typer.Option(help="Tokens that neighbouring windows share; by default a quarter.", show_default=False)
]
TokenColumn = Annotated[
    str | None,
    typer.Option(help="The column of the words: a name, or a number from 1 in a file of columns.", show_default=False),
]
TagColumn = Annotated[
    str | None, typer.Option(help="The column of the tags, likewise; without it the last.", show_default=False)
]
Context = Annotated[
    Literal["sentence", "document"] | None,
    typer.Option(help="Read each sentence alone, or with its neighbours in the document.", show_default=False),
]
Pooling = Annotated[
    Literal["mean", "max"] | None, typer.Option(help="Of the windows of a text; mean by default.", show_default=False)
]

QuestionFile = "SQuAD's JSON, or .jsonl or .parquet with id, context, question, answers."
TrainQuestions = Annotated[Path | None, typer.Option("--train-file", help=QuestionFile, show_default=False)]
ValidationQuestions = Annotated[Path | None, typer.Option("--validation-file", help=QuestionFile, show_default=False)]
DocStride = Annotated[
    int | None,
    typer.Option(
        help="Tokens that neighbouring windows of a text share: the overlap; 128 by default. Google's run_squad.py "
        "calls the step from window to window so: its 128 at 384 is an overlap near 238.",
        show_default=False,
    ),
]
MaxQueryLength = Annotated[
    int | None, typer.Option(help="Tokens of a question; 64 by default, more are cut off.", show_default=False)
]


# Flags of several commands, and the recipe block that has their key; other flags are the command's own.
_TRAIN = ("learning_rate", "num_train_epochs", "max_steps", "global_train_batch_size", "seed")
_LIMITS = ("max_seq_length", "max_train_samples", "max_eval_samples", "long_text", "stride", "pooling", "context")
_WINDOWS = ("doc_stride", "max_query_length")
_TABLES = ("train_file", "validation_file", "test_file", "dataset_name", "dataset_config")
_BLOCKS = {
    "num_processes": "placement",
    **dict.fromkeys(_TRAIN, "train"),
    **dict.fromkeys((*_LIMITS, *_TABLES, *_WINDOWS), "data"),
}


def overrides(flags: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Recipe overrides from ``--set``, ``--placement`` and the flags that were given.

    Args:
        flags: the command's parameters by name, its ``locals()``; ``set_`` has ``block.key=value`` each, ``placement``
            the name or file of a recipe that has only a ``placement`` block. Those of `_BLOCKS` are read here.
        own: the command's own: recipe key, with ``__`` for the dot, to the flag's value; ``None`` means not given.

    Raises:
        RecipeError: not ``key=value``, or one key given twice with different values.
    """
    placement = flags["placement"]
    placed = {f"placement.{key}": value for key, value in load_placement(placement).items()} if placement else {}
    shared = {f"{block}.{name}": flags.get(name) for name, block in _BLOCKS.items()}
    named = {**{key.replace("__", "."): value for key, value in own.items()}, **shared}
    given: dict[str, Any] = {
        key: str(value) if isinstance(value, Path) else value for key, value in named.items() if value is not None
    }
    for value in flags["set_"] or []:
        key, equals, text = value.partition("=")
        if not equals:
            raise RecipeError(f"--set {value}: expected block.key=value, such as train.learning_rate=3e-5")
        parsed = parse_value(text)
        if key in given and given[key] != parsed:
            raise RecipeError(f"{key} is given twice: {given[key]!r} and {parsed!r}; keep one of them")
        given[key] = parsed
    return placed | given


def numbers(given: str, flag: str) -> list[int]:
    """Whole numbers with commas between them, such as ``-1,-2``.

    Raises:
        RecipeError: something in it is no whole number.
    """
    try:
        return [int(each) for each in given.split(",")]
    except ValueError as error:
        raise RecipeError(f"{flag} {given}: expected whole numbers with commas between them, such as -1,-2") from error


def print_results(output_dir: Path, metrics: dict[str, float], shown: list[tuple[str, str]], as_json: bool) -> None:
    """A finished run on stdout: one JSON object, or the metrics ``shown`` (key, name) and where the rest is."""
    if as_json:
        print(json.dumps({"output_dir": str(output_dir), **metrics}))
        return
    for key, name in shown:
        if key in metrics:
            print(f"{name} {metrics[key]:.4f}")
    print(f"results, checkpoint and model card: {output_dir}")


def one_context(context: str | None, context_file: Path | None) -> str | Path | None:
    """The text of ``--context`` or the file of ``--context-file``, or None without either.

    Raises:
        RecipeError: both are given.
    """
    if context is not None and context_file is not None:
        raise RecipeError("--context and --context-file: give one of them")
    return context if context_file is None else context_file


def task_recipe(family: str, task: str | None, recipe: str | None) -> str:
    """The recipe that ``--task`` or ``--recipe`` names.

    Raises:
        RecipeError: neither or both are given, or there is no such task.
    """
    if (task is None) == (recipe is None):
        raise RecipeError(f"give either --task (one of {', '.join(_tasks(family))}) or --recipe")
    if recipe is not None:
        return recipe
    [name] = tasks(family, str(task), None)
    return f"finetune/{family}/{name}"


def tasks(family: str, given: str, recipe: str | None) -> list[str]:
    """The tasks that ``--task`` names: one, several with commas between them, or ``all``.

    Raises:
        RecipeError: there is no such task, one is named twice, or ``--recipe`` is given too.
    """
    known = _tasks(family)
    if recipe is not None:
        raise RecipeError(f"--recipe is for one run, and --task {given} names several; give one of them")
    names = known if given == "all" else given.split(",")
    for name in names:
        if name not in known:
            raise RecipeError(
                f"--task: unknown {family} task {name!r}; expected one of {', '.join(known)}, or all"
                f"{did_you_mean(name, known)}"
            )
    if len(set(names)) < len(names):
        raise RecipeError(f"--task {given}: names a task twice")
    return names


def _tasks(family: str) -> list[str]:
    return [name.rpartition("/")[2] for name in list_recipes() if name.startswith(f"finetune/{family}/")]
