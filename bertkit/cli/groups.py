"""Groups of commands: their order in the help, and what an unknown command was meant for."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

from bertkit.recipe.files import GLUE, recipes_in

_NAMES = 20  # columns of names of commands, with the spaces around them

PANELS = {
    "Prepare": ("quickstart", "check", "choose", "recipes", "tokenizer", "corpus"),
    "Train": ("finetune", "pretrain", "distill", "negatives"),
    "Look at the results": ("runs", "report", "compare", "evaluate", "explain"),
    "Use": ("predict", "embed", "fill-mask", "demo", "serve"),
    "Share": ("push", "export"),
    "Experiments": ("ensemble", "ablations", "reproduce"),
    "Help": ("env",),
}
"""Commands in the order of use, by the panel of the help; others stand at the end."""


class Group(TyperGroup):
    """Group that names the nearest commands, also of other groups, for one that it has not."""

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
    """Group whose help has the commands in the panels and in the order of `PANELS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        known = [name for names in PANELS.values() for name in names if name in self.commands]
        names = [*known, *(name for name in self.commands if name not in known)]
        for panel, of_panel in PANELS.items():
            for name in of_panel:
                if name in self.commands:
                    self.commands[name].rich_help_panel = panel  # type: ignore[attr-defined]
        return names

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands in the sections of `PANELS`."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            of_command = getattr(self.commands[name], "rich_help_panel", None)
            panel = of_command if of_command in PANELS else "Others"
            width = formatter.width - _NAMES
            panels.setdefault(panel, []).append((name, self.commands[name].get_short_help_str(width)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(f"{name:<{_NAMES - 6}}", text) for name, text in rows])
