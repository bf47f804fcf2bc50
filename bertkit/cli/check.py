"""``bertkit check COMMAND …``: the same as ``bertkit COMMAND … --check``."""

from __future__ import annotations

import typer

from bertkit.cli.printing import print_text
from bertkit.errors import RecipeError

_COMMANDS = ("pretrain", "finetune", "distill")
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Context settings of the command: all of its arguments, ``--help`` included, are those of the other command."""

USAGE = f"{{{'|'.join(_COMMANDS)}}} ARGUMENTS..."


def check(context: typer.Context) -> None:
    """Check a run before it starts, without training or writing: give the words of a pretrain, finetune or distill
    command, such as: bertkit check finetune glue --task sst2 --model MODEL --output-dir OUT. The options are those of
    that command.
    """
    words = list(context.args)
    if words == ["--help"]:
        print_text(context.get_help())
        return
    if not words or words[0] not in _COMMANDS:
        raise RecipeError(
            f"check: expected the words of a run, such as bertkit check finetune glue --task sst2 …, got "
            f"{words[0] if words else 'none'}; the runs are {', '.join(_COMMANDS)}"
        )
    end = words.index("--") if "--" in words else len(words)
    is_group = words[0] == "finetune" and (len(words) == 1 or words[1].startswith("-"))  # only its help is wanted
    flag = [] if is_group else ["--check"]
    root = context.find_root()
    code = root.command.main([*words[:end], *flag, *words[end:]], root.info_name, standalone_mode=False)
    raise typer.Exit(code or 0)
