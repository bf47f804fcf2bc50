"""Commands that features add to the command line, and options that they add to the commands of the core.

A feature names both in its ``__init__.py``, so that ``bertkit --help`` imports no more than the files of commands, and
another command only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import typer

from bertkit.runtime.features import declared, load


def new_app() -> typer.Typer:
    """Returns an app to register the commands of a feature with: ``app`` in its ``command.py``.

    A command of a group has the name of the group before its own, such as ``tokenizer extend``.
    """
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@cache
def commands_of_features() -> Mapping[str, str]:
    """Returns command, with its group → feature."""
    return {name: feature for feature, commands in declared("COMMANDS") for name in commands}


@cache
def load_command(name: str) -> Any:
    """Returns the command of a feature, with its group in ``name``, for the group that contains it."""
    command = typer.main.get_group(load(commands_of_features()[name], "command:app")).commands[name]
    command.name = name.rpartition(" ")[2]
    return command


def in_panels(panels: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the commands of each panel of the help, with those of features.

    Args:
        panels: panel → commands of the core, in the order of use.
    """
    placed = {panel: list(names) for panel, names in panels.items()}
    waiting = {name: place for _, commands in declared("COMMANDS") for name, place in commands.items() if place[0]}
    while waiting:
        ready = {name: place for name, place in waiting.items() if place[1] not in waiting} or dict(waiting)
        for name, (panel, after) in ready.items():
            names = placed.setdefault(panel, [])
            place = 0 if not after else names.index(after) + 1 if after in names else len(names)
            names.insert(place, name)
            del waiting[name]
    return placed


class OptionsOfFeature:
    """Base class of the options that a feature adds to commands of the core; a dataclass of options.

    The feature names it in ``OPTIONS`` by the commands: ``run`` for all that train, ``finetune`` for those that
    fine-tune, ``texts`` for those that compute something of texts.
    """

    def arguments(self) -> dict[str, Any]:
        """Returns further arguments of the function that the command calls."""
        return {}

    def many(self, command: Any) -> dict[str, Any] | None:
        """Returns what makes one run many, as arguments of a function of the feature; None for one run."""
        return None

    def start(self, command: Any) -> bool:
        """Does something in place of the command, if the options say so; returns whether it did.

        Args:
            command: `bertkit.cli.training.Training` or `bertkit.cli.texts.Texts`.
        """
        return False


class Options(tuple[OptionsOfFeature, ...]):
    """Options of features, the type of a parameter: ``Annotated[Options, "run"]`` for those of all that train.

    `bertkit.cli.commands.command` replaces the parameter by the options.
    """

    @classmethod
    def given(cls, groups: Sequence[Callable[[Mapping[str, Any]], Any]], values: Mapping[str, Any]) -> Options:
        """Returns what each of some functions makes of the values of all options."""
        return cls(make(values) for make in groups)

    def start(self, command: Any) -> bool:
        """Returns whether a feature has done something in place of the command."""
        return any(each.start(command) for each in self)


def options_for(commands: Sequence[str]) -> list[type[OptionsOfFeature]]:
    """Returns the classes of options that features add to some commands, in the order of ``commands``."""
    return [
        load(feature, places[name]) for name in commands for feature, places in declared("OPTIONS") if name in places
    ]
