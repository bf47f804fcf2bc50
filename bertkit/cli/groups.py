"""Commands by group, those of features among them: their order in the help, and what an unknown one was meant for.

A feature names its commands, and the options that it adds to commands of the core, in its ``__init__.py``, so that
``bertkit --help`` imports no more than the files of commands, and another command only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup

from bertkit.recipe.files import GLUE, recipes_in
from bertkit.runtime.features import declared, load

_NAMES = 20  # columns of names of commands, with the spaces around them

PANELS: dict[str, tuple[str, ...]] = {
    "Prepare": ("recipes", "tokenizer", "corpus"),
    "Train": ("finetune", "pretrain", "distill", "negatives"),
    "Look at the results": ("runs", "evaluate"),
    "Use": ("predict", "embed", "fill-mask"),
    "Share": (),
    "Experiments": (),
    "Help": ("env",),
}
"""Commands of the core in the order of use, by the panel of the help; features say where theirs stand."""


def has_command(words: str) -> bool:
    """Returns whether the first word of a command line, without ``bertkit``, is a command or a group that is there."""
    name = words.split()[0]
    return any(name in names for names in in_panels().values())


class Group(TyperGroup):
    """Group with the commands of features, which names the nearest commands, also of other groups, for an unknown one.

    The file of a command of a feature is imported when the command, or the help of the group, is asked for.
    """

    _is_root = False

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All commands by name; those of features are imported."""
        return {**self._core, **{name: load_command(whole) for name, whole in self._of_features().items()}}

    @commands.setter
    def commands(self, commands: MutableMapping[str, Any]) -> None:
        self._core = commands

    def _of_features(self) -> dict[str, str]:
        """Returns the name of each command of a feature in this group → the name with the group."""
        group = "" if self._is_root else f"{self.name} "
        names = [name for name in commands_of_features() if name.startswith(group)]
        return {name.removeprefix(group): name for name in names if " " not in name.removeprefix(group)}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self._core, *self._of_features()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        whole = self._of_features().get(cmd_name)
        return self._core.get(cmd_name) if whole is None else load_command(whole)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if near := nearest_commands(args[0], ctx.find_root().command):
                message = str(getattr(error, "message", error)).partition(". ")[0].rstrip(".")
                error.message = f"{message}. Did you mean {' or '.join(map(repr, near))}?"  # type: ignore[attr-defined]
            raise


def nearest_commands(name: str, root: Any) -> list[str]:
    """Returns the commands, with their groups, that an unknown one was probably meant for; at most two.

    Args:
        name: the unknown name: of a command, or of a GLUE task.
        root: the group of all commands.
    """
    if name == "train":
        return ["bertkit finetune", "bertkit pretrain"]
    groups = {group: command.commands for group, command in root.commands.items() if hasattr(command, "commands")}
    places = [("bertkit", each) for each in root.commands]
    places += [(f"bertkit {group}", each) for group, commands in groups.items() for each in commands]
    places += [("bertkit finetune", f"glue --task {task}") for task in recipes_in(GLUE)]
    words = {place: place[1].rpartition(" ")[2] for place in places}
    same = [place for place, word in words.items() if word == name.lower()]
    near = get_close_matches(name.lower(), list(words.values()), n=1)
    return [" ".join(place) for place in same or [place for place, word in words.items() if word in near]][:2]


class InOrderOfUse(Group):
    """The group of all commands, whose help has them in panels, in the order of use."""

    _is_root = True

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        known = [name for of_panel in in_panels().values() for name in of_panel if name in names]
        return [*known, *(name for name in names if name not in known)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands in the sections of their panels."""
        width, commands = formatter.width - _NAMES, self.commands
        panels = in_panels()
        known = {name for names in panels.values() for name in names}
        panels["Others"] = [name for name in commands if name not in known]
        for panel, names in panels.items():
            rows = [(f"{name:<{_NAMES - 6}}", commands[name].get_short_help_str(width)) for name in names]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


# ---- what features add -----------------------------------------------------------------------------------------------


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


def in_panels() -> dict[str, list[str]]:
    """Returns the commands of each panel of the help: those of `PANELS`, and those of features at their places."""
    placed = {panel: list(names) for panel, names in PANELS.items()}
    waiting = {name: place for _, commands in declared("COMMANDS") for name, place in commands.items() if place[0]}
    while waiting:
        # Those that stand after a command of a feature wait until that is placed, unless they wait for each other.
        ready = {name: place for name, place in waiting.items() if place[1] not in waiting} or dict(waiting)
        for name, (panel, after) in ready.items():
            names = placed.setdefault(panel, [])
            position = names.index(after) + 1 if after in names else len(names)
            names.insert(position if after else 0, name)
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
