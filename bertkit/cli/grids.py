"""Options of grids, of all fine-tuning commands, and the output of a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from bertkit.cli import completion
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps

_PANEL = "Many runs"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Options that turn one run into many; `bertkit.cli.commands.command` turns the fields into options."""

    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            help="Values to try in all combinations: KEY=VALUE,VALUE, or paper for the grid of the BERT paper. "
            "Repeatable.",
            metavar="KEY=VALUES",
            autocompletion=completion.keys,
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            help="Range to sample from instead: KEY=LO..HI, KEY=LO..HI:log or KEY=VALUE,VALUE. Repeatable.",
            metavar="KEY=RANGE",
            autocompletion=completion.keys,
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    trials: Annotated[
        int | None, typer.Option(help="Settings that --search tries.", rich_help_panel=_PANEL, show_default=False)
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of each setting with different seeds.", rich_help_panel=_PANEL, show_default=False),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(
            help="Folds of the training set, each of which validates one run.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    worker: Annotated[bool, typer.Option("--worker", help="Join the grid in --output-dir.", rich_help_panel=_PANEL)] = (
        False
    )

    @property
    def is_given(self) -> bool:
        """Returns whether any of the options is given."""
        return any(value is not None and value is not False for value in asdict(self).values())

    def arguments(self) -> dict[str, Any]:
        """Returns the options as arguments of `bertkit.finetune_grid`."""
        return {
            "grid": self.grid or (),
            "search": self.search or (),
            "trials": self.trials,
            "seeds": 1 if self.seeds is None else self.seeds,
            "folds": self.folds,
            "worker": self.worker,
        }


def print_grid(results: Any, as_json: bool, table: Callable[[Any], str]) -> None:
    """Prints the results of one or several grids as a table, or as one JSON object.

    Raises:
        typer.Exit: a run has failed; the exit code is 1.
    """
    print_text(dumps(asdict(results), default=str) if as_json else table(results))
    if results.failed:
        raise typer.Exit(1)
