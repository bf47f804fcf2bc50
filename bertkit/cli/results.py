"""``bertkit runs``, ``bertkit evaluate`` and ``bertkit env``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import OF_DATA, Settings
from bertkit.cli.printing import print_lines, print_result, print_text
from bertkit.runtime.json_text import dumps

_COLUMNS = ("run", "state", "score", "rows", "task", "from", "date (UTC)")
_COLOURS = {"finished": "green", "running": "cyan", "interrupted": "yellow", "failed": "red"}


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with run directories and grids, at any depth.")
    ] = Path("."),
    format: options.AsTable = "text",
    json: options.AsJson = False,
) -> None:
    """List runs and grids with their scores. Of a grid given as DIR its runs are listed too."""
    options.check_one_form(json, format)
    listed = bertkit.runs(folder)
    if json:
        print_text(dumps([asdict(run) for run in listed], default=str))
        return
    from bertkit.runtime.formats import ResultTable

    columns: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for run in listed:
        is_grid = run.cells is not None
        collapsed = f", {f'{run.collapsed} ' if is_grid else ''}collapsed" if run.collapsed else ""
        cells = (
            str(run.folder.relative_to(folder)) + (f" ({run.cells} runs)" if is_grid else ""),
            run.state,
            "" if run.score is None else f"{run.score:.4f} {run.metric}{collapsed}",
            "" if run.rows is None else f"{run.rows:,}",
            run.task or "",
            run.checkpoint or "",
            run.date.replace("T", " ").removesuffix("+00:00")[:16],
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    if not any(run.rows for run in listed):
        del columns["rows"]
    table = ResultTable(
        columns,
        [asdict(run) for run in listed],
        optional=("from", "date (UTC)", "task", "rows"),
        styles={"state": [_COLOURS[run.state] for run in listed]},
        is_ruled=True,
    )
    if format != "text":
        print_text(table.formatted(format))
    elif listed:
        lines, left_out = table.drawn()
        print_lines(lines)
        if left_out:
            print_text(f"no room for: {', '.join(left_out)}; see --json")
    else:
        print_text(f"no runs in {folder}")


def env(json: options.AsJson = False) -> None:
    """Print versions, processor, devices and extras. A bug report needs them; paths and secrets are left out."""
    from bertkit.runtime.formats import name_value_lines

    facts = bertkit.environment()
    texts = {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in facts.items()}
    lines = name_value_lines((name, "-" if text in (None, "") else str(text)) for name, text in texts.items())
    print_result(facts, lines, json)


KEYS = (
    *OF_DATA,
    "data.comment_prefix",
    "data.snap",
    "data.offset_unit",
    "data.max_seq_length",
    "data.max_eval_samples",
    "task.metrics",
    "task.text_columns",
    "task.label_column",
    "task.label_separator",
    "task.token_column",
    "task.tag_column",
)


def evaluate(
    checkpoint: options.Checkpoint,
    settings: Settings,
    split: Annotated[
        str, typer.Option(help="validation, train, a test set with labels, or validation_mm of MNLI.")
    ] = "validation",
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Score a fine-tuned checkpoint on data of its task. By default these are the data of its run."""
    data = settings.block("data")
    most = data.pop("max_eval_samples", None)
    columns = settings.block("task")
    metrics = columns.pop("metrics", [])
    result = bertkit.evaluate(
        checkpoint,
        split=split,
        max_samples=most,
        columns=columns,
        metrics=metrics,
        precision=precision,
        revision=revision,
        trust_remote_code=trust_remote_code,
        **data,
    )
    lines = [f"{name.removeprefix('eval_')} {value:.4f}" for name, value in result.metrics.items()]
    lines += [] if result.collapse is None else [f"collapsed: {result.collapse}"]
    print_result(result, [*lines, result.counts], json)
