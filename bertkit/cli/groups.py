"""Groups of commands: their order in the help, and what an unknown command was meant for."""

from __future__ import annotations

from collections.abc import MutableMapping
from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

from bertkit.cli.features import commands_of_features, in_panels, load_command
from bertkit.recipe.files import GLUE, recipes_in

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
    """Returns whether the command that a command line begins with, without ``bertkit``, is there."""
    name = words.split()[0]
    return any(name in names for names in in_panels(PANELS).values())


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
    usual = {"train": ["finetune", "pretrain"]}.get(name)
    if usual is not None:
        return [f"bertkit {each}" for each in usual]
    known = {f"glue --task {task}": "finetune" for task in recipes_in(GLUE)}
    groups = {group: command.commands for group, command in root.commands.items() if hasattr(command, "commands")}
    places = [("bertkit", each) for each in root.commands]
    places += [(f"bertkit {group}", each) for group, commands in groups.items() for each in commands]
    places += [(f"bertkit {group}", each) for each, group in known.items()]
    words = {place: place[1].rpartition(" ")[2] for place in places}
    same = [place for place, word in words.items() if word == name.lower()]
    near = get_close_matches(name.lower(), list(words.values()), n=1)
    return [" ".join(place) for place in same or [place for place, word in words.items() if word in near]][:2]


class InOrderOfUse(Group):
    """The group of all commands, whose help has them in panels, in the order of use."""

    _is_root = True

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        known = [name for of_panel in in_panels(PANELS).values() for name in of_panel if name in names]
        return [*known, *(name for name in names if name not in known)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands in the sections of their panels."""
        width, commands = formatter.width - _NAMES, self.commands
        panels = in_panels(PANELS)
        known = {name for names in panels.values() for name in names}
        panels["Others"] = [name for name in commands if name not in known]
        for panel, names in panels.items():
            rows = [(f"{name:<{_NAMES - 6}}", commands[name].get_short_help_str(width)) for name in names]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)
