"""``bertkit finetune TASK``."""

from __future__ import annotations

import typer

from bertkit.cli import glue
from bertkit.cli.commands import command
from bertkit.cli.runs import FineTuning, finetune
from bertkit.cli.settings import Setting, run_settings
from bertkit.tasks.registry import TASKS

_HUB_SET = ("data.dataset_name", "data.dataset_config", "data.train_split", "data.validation_split")
_VALIDATION_AND_MORE = ("data.validation_file", "data.test_file", *_HUB_SET, "data.test_split")
_QUESTIONS = "SQuAD's JSON, or .jsonl or .parquet with id, context, question, answers."

app = typer.Typer(help="Fine-tune BERT for a task.", no_args_is_help=True)


@app.callback()
def _finetune() -> None:
    pass


command(app, "glue", glue.SETTINGS)(glue.glue)


@command(
    app,
    "classification",
    run_settings(
        "data.train_file",
        *_VALIDATION_AND_MORE,
        "task.text_columns",
        "task.label_column",
        Setting("task.label_separator", "Separator of several labels in a field of a CSV or TSV file."),
        Setting("task.problem", "Kind of the labels; without it, inferred from their values."),
        Setting("task.main_metric", "Score by which the best checkpoint is chosen, such as f1_macro or roc_auc."),
        "data.long_text",
        "data.stride",
        "data.pooling",
        "train.class_weights",
    ),
)
def classification(run: FineTuning) -> None:
    """Fine-tune on your own table: one class, several classes or a number per text or pair."""
    finetune("classification", "finetune/classification", run)


@command(
    app,
    "multiple_choice",
    run_settings(
        "data.train_file",
        *_VALIDATION_AND_MORE,
        Setting("task.context_column", "Column of the text that the endings continue."),
        Setting("task.ending_columns", "Column of lists of endings, or one column per ending.", "--ending-column"),
        "task.label_column",
    ),
)
def multiple_choice(run: FineTuning) -> None:
    """Fine-tune on multiple choice: SWAG, or any context with endings."""
    finetune("multiple_choice", "finetune/multiple-choice", run)


@command(
    app,
    "question_answering",
    run_settings(
        Setting("task.version_2_with_negative", "Questions may have no answer: SQuAD 2.0."),
        Setting("data.train_file", _QUESTIONS),
        Setting("data.validation_file", _QUESTIONS),
        *_HUB_SET,
        Setting("task.id_column", "Column of the ids in flat rows; id by default."),
        Setting("task.question_column", "Column of the questions; question by default."),
        Setting("task.context_column", "Column of the texts; context by default."),
        Setting("task.answers_column", "Column of the answers; answers by default."),
        Setting(
            "data.doc_stride",
            "Tokens that neighbouring windows of a text share (overlap); 128 by default. In Google's run_squad.py "
            "doc_stride is the step between windows: its 128 at 384 is an overlap of about 238.",
        ),
        Setting(
            "data.max_query_length", "Maximum number of tokens of a question; 64 by default. Longer questions are cut."
        ),
        Setting("task.max_answer_length", "Maximum number of tokens of an answer; 30 by default."),
        Setting("task.n_best_size", "Number of answers in nbest_predictions.json; 20 by default."),
        Setting(
            "task.null_score_diff_threshold",
            "Predict no answer if its score exceeds that of the best answer by more than this; 0 by default.",
        ),
    ),
)
def squad(run: FineTuning) -> None:
    """Fine-tune on SQuAD 1.1 or 2.0, or on your own questions; answers are spans of a text."""
    version = "v2" if "task.version_2_with_negative" in run.settings else "v1"
    finetune("question_answering", f"finetune/squad/{version}", run)


@command(
    app,
    "ner",
    run_settings(
        Setting("data.train_file", "Sentences to train on: columns as in CoNLL; .jsonl, .json or .parquet."),
        *_VALIDATION_AND_MORE,
        "data.comment_prefix",
        "data.snap",
        "data.offset_unit",
        Setting("task.token_column", "Column of words or texts: a name, or in a column file a number from 1."),
        Setting("task.tag_column", "Column of tags or spans, likewise; in a column file the last by default."),
        Setting("task.label_all_subwords", "Train on all pieces of a word, not only the first."),
        "data.stride",
        Setting("data.context", "Read each sentence alone, or with its neighbours in the document."),
        "train.class_weights",
    ),
)
def ner(run: FineTuning) -> None:
    """Fine-tune on sentences whose words have tags: entities, chunks, parts of speech."""
    finetune("ner", "finetune/ner", run)


def add_task(kind: str, package: str, app: typer.Typer = app) -> None:
    """Adds ``bertkit finetune KIND`` for a task of another package, with options for all its settings.

    The module of the task is imported only when the command is run or its help is shown.

    Args:
        kind: name of the task, as in ``task.kind``; the command has dashes instead of underscores.
        package: name of the package, for the help.
        app: app to register the command with.
    """

    def of_task(run: FineTuning) -> None:
        finetune(kind, TASKS.task(kind).recipe or {"task": {"kind": kind}}, run)

    of_task.__doc__ = f"Fine-tune for {kind}, a task of the package {package}."
    command(app, kind, name=kind.replace("_", "-"))(of_task)


for kind, package in TASKS.third_party().items():
    add_task(kind, package)
