"""``bertkit choose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings, command
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_result

app = new_app()

_KEYS = (
    "data.data_dir",
    "data.train_file",
    "data.dataset_name",
    "data.dataset_config",
    "data.train_split",
    "data.max_seq_length",
    "task.problem",
    "task.text_columns",
    "task.label_column",
    "task.label_separator",
    "task.token_column",
    "task.tag_column",
)


@command(app, ("classification", "ner"), _KEYS)
def choose(
    *,
    models: Annotated[list[str], options.option(help="Checkpoint, a folder or a Hub id; repeatable.", metavar="MODEL")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="More checkpoints: --models A B C.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        options.option(help="Task of the labelled data: classification (default), ner, or a GLUE task such as sst2."),
    ] = None,
    texts: Annotated[
        Path | None,
        options.option(metavar="PATH", help="In place of labelled data: a text file or a folder of them, as a corpus."),
    ] = None,
    examples: Annotated[int, typer.Option(help="Examples, or texts, that are drawn.", min=2)] = 1000,
    folds: Annotated[int | None, typer.Option(help="Folds of the cross-validation; by default 5.", min=2)] = None,
    output: Annotated[Path | None, options.option(metavar="FILE", help="A new HTML file with all of it.")] = None,
    settings: Settings,
    device: options.Device = "auto",
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Compare checkpoints to start from, on your data. None of them is trained."""
    choice = bertkit.choose(
        [*models, *(more or [])],
        task=task,
        texts=texts,
        examples=examples,
        folds=folds,
        overrides=settings,
        output=output,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    from bertkit.runtime.formats import align_columns

    page = {} if output is None else {"output": str(output)}
    tables = [line for table in choice.tables() for line in (*align_columns(table), "")]
    print_result({**choice.record(), **page}, [*tables, *choice.lines(), *page.values()], json)
