"""``bertkit export`` and ``bertkit push``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings, command
from bertkit.cli.groups import OptionsOfFeature, new_app
from bertkit.cli.printing import print_result
from bertkit.runtime.progress import counted

app = new_app()

_OF_EXPORT = (  # of the data on which --int8 is scored
    "data.data_dir",
    "data.validation_file",
    "data.train_file",
    "data.dataset_name",
    "data.dataset_config",
    "data.max_eval_samples",
)


@command(app, "classification", _OF_EXPORT)
def export(
    checkpoint: options.Checkpoint,
    out: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    settings: Settings,
    to: Annotated[
        Literal["bert", "onnx", "sentence-transformers"],
        typer.Option(
            help="bert: for plain transformers; onnx: for onnxruntime and others; sentence-transformers: for vectors "
            "of texts."
        ),
    ] = "bert",
    int8: Annotated[
        bool, typer.Option("--int8", help="With --to onnx: quantize matrices to int8, and score before and after.")
    ] = False,
    pooling: Annotated[
        Literal["cls", "mean", "max"] | None,
        options.option(
            help="With --to sentence-transformers: pooling of the tokens; that of the checkpoint, or mean, by default."
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        options.option(
            help="With --to sentence-transformers: divide each vector by its length; as in the checkpoint by default."
        ),
    ] = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Write a checkpoint in a format that needs no bertkit. It is checked that it computes the same."""
    data = settings.block("data")
    most = data.pop("max_eval_samples", None)
    result = bertkit.export(
        checkpoint,
        out,
        to=to,
        int8=int8,
        pooling=pooling,
        normalize=normalize,
        max_samples=most,
        revision=revision,
        trust_remote_code=trust_remote_code,
        **data,
    )
    lines = [f"{result.folder}: {result.model_class}; {result.comparison}"]
    for name, (before, after) in result.scores.items():
        lines.append(f"{name} {before:.4f}, as int8 {after:.4f}, on {counted(result.examples, 'example')}")
    print_result(result, [*lines, *(f"note: {note}" for note in result.notes)], json)


@app.command()
def push(
    checkpoint: Annotated[
        str,
        typer.Argument(help="A run directory or a folder with a checkpoint.", show_default=False),
    ],
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO_ID", help="owner/name; created if it does not exist.", show_default=False)
    ],
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Create a private repository; by default it is public, or as your organisation says."
        ),
    ] = False,
    revision: Annotated[
        str | None, options.option(help="Branch; created if it does not exist. Without it: main.")
    ] = None,
    as_: Annotated[
        Literal["bert", "bertkit"],
        typer.Option("--as", help="bert: for plain transformers; bertkit: with the code of its classes."),
    ] = "bert",
    license: Annotated[
        str | None, options.option(help="Licence for the model card, such as mit or apache-2.0.")
    ] = None,
    language: Annotated[list[str] | None, options.option(help="Language of the texts, such as en. Repeatable.")] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Leave out report.html, which shows texts of the scored rows.")
    ] = False,
    space: Annotated[
        str | None, options.option(metavar="OWNER/NAME", help="Push a Space too, with the page of bertkit demo.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Push nothing: list files, sizes, the model card, and what is missing.")
    ] = False,
    json: options.AsJson = False,
) -> None:
    """Push a checkpoint to the Hub. The token is that of `hf auth login` or HF_TOKEN."""
    result = bertkit.push(
        checkpoint,
        repo_id,
        private=private,
        revision=revision,
        as_=as_,
        license=license,
        language=language or [],
        report=False if no_report else None,
        space=space,
        dry_run=dry_run,
    )
    print_result(result, [result], json)


@dataclass(frozen=True, kw_only=True)
class Push(OptionsOfFeature):
    """Options of all commands that train."""

    push_to_hub: Annotated[
        str | None,
        options.option(
            help="Push the finished run to this repository of the Hub.",
            metavar="REPO_ID",
            panel=options.OUTPUT,
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        return {"push_to_hub": self.push_to_hub}
