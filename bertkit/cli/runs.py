"""``bertkit runs`` and ``bertkit env``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import console, drawn, print_lines, print_result, print_text
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import printable

if TYPE_CHECKING:
    from rich.table import Table

    from bertkit.training.runs.listing import ListedRun

_WIDEST = 10_000  # characters of a line in files and pipes
_COLUMNS = ("run", "state", "score", "task", "from", "date (UTC)")
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
    elif format != "text":
        from bertkit.runtime.formats import ResultTable

        rows = [_row(run, folder) for run in listed]
        columns = {name: [row[name] for row in rows] for name in _COLUMNS}
        print_text(ResultTable(columns, [asdict(run) for run in listed]).formatted(format))
    elif listed:
        print_lines(_table(listed, folder))
    else:
        print_text(f"no runs in {folder}")


def _table(found: Sequence[ListedRun], folder: Path) -> Iterator[str]:
    """Yields the lines of the table, as wide as the terminal; in files and pipes as wide as its content.

    A terminal that is too narrow gets fewer columns, and a last line with their names.
    """
    screen = console(None if sys.stdout.isatty() else _WIDEST)
    columns = list(_COLUMNS)
    rows = [_row(run, folder) for run in found]
    table, unlimited = _with_columns(columns, rows), screen.options.update(max_width=_WIDEST)
    dropped = []
    for name in ("from", "date (UTC)", "task"):
        if screen.measure(table, options=unlimited).maximum <= screen.width:
            break
        columns.remove(name)
        dropped.append(name)
        table = _with_columns(columns, rows)
    yield from drawn(screen, table)
    if dropped:
        yield f"no room for: {', '.join(dropped)}; see --json"


def _row(run: ListedRun, folder: Path) -> dict[str, str]:
    collapsed = f", {'' if run.cells is None else f'{run.collapsed} '}collapsed" if run.collapsed else ""
    return {
        "run": printable(str(run.folder.relative_to(folder))) + ("" if run.cells is None else f" ({run.cells} runs)"),
        "state": run.state,
        "score": "" if run.score is None else f"{run.score:.4f} {run.metric}{collapsed}",
        "task": printable(run.task or ""),
        "from": printable(run.checkpoint or ""),
        "date (UTC)": run.date.replace("T", " ").removesuffix("+00:00")[:16],
    }


def _with_columns(columns: Sequence[str], rows: Sequence[dict[str, str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold" if name == "run" else "ellipsis", no_wrap=name != "run")
    for row in rows:
        colours = {"state": _COLOURS[row["state"]]}
        table.add_row(*(Text(row[name], style=colours.get(name, "")) for name in columns))
    return table


def env(json: options.AsJson = False) -> None:
    """Print versions, processor, devices and extras. A bug report needs them; paths and secrets are left out."""
    facts = bertkit.environment()
    width = max(map(len, facts))
    texts = {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in facts.items()}
    lines = [f"{name:<{width}}  {'-' if text in (None, '') else text}" for name, text in texts.items()]
    print_result(facts, lines, json)
