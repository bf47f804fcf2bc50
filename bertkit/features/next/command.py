"""``bertkit next`` and ``bertkit label``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_address, print_result

app = new_app()


@app.command(name="next")
def propose_rows(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of finetune classification.")],
    *,
    input_file: Annotated[
        Path, options.option("--input", metavar="FILE", help="Unlabelled texts: a table, or one per line.")
    ],
    output: Annotated[
        Path,
        options.option(
            metavar="FILE",
            help="A new file to fill in: .xlsx with a list of the classes, .csv, .jsonl or .parquet.",
        ),
    ],
    rows: Annotated[int, typer.Option(help="Rows to propose.", min=1)] = 50,
    text_columns: Annotated[
        list[str] | None,
        options.option("--text-column", help="Column of the input to read, if it is not named as in training."),
    ] = None,
    precision: options.Precision = "auto",
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Propose the rows to label next. It also says what more rows will bring."""
    proposal = bertkit.propose_rows(
        run,
        input_file,
        rows=rows,
        output=output,
        text_columns=text_columns,
        precision=precision,
        trust_remote_code=trust_remote_code,
    )
    print_result(proposal.record(), proposal.lines(), json)


@app.command(name="label")
def label_rows(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of rows to label, as next writes it.")],
    *,
    label_column: Annotated[
        str | None, options.option(help="Column of the labels, if it is not the one before the guesses.")
    ] = None,
    text_columns: Annotated[
        list[str] | None,
        options.option("--text-column", help="Column of the texts, if its name is unusual; twice for a pair."),
    ] = None,
    port: options.Port = 7861,
    allowed_host: options.AllowedHost = None,
    json: options.AddressAsJson = False,
) -> None:
    """Label the rows of next in the browser. A key is an answer, and the file is complete after each one."""
    bertkit.label_rows(
        file,
        label_column=label_column,
        text_columns=text_columns,
        port=port,
        allowed_hosts=allowed_host or (),
        ready=print_address if json else None,
    )
