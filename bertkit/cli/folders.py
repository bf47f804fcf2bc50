"""Options of commands over folders of files, and the output of these commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bertkit.cli.printing import print_text
from bertkit.errors import RecipeError
from bertkit.json_text import dumps

if TYPE_CHECKING:
    from bertkit.scaling.folders import FolderResult


def refuse(given: Mapping[str, Any], why: str) -> None:
    """Checks that none of some options was given: each is None, False or empty.

    Args:
        given: name of the option → its value.
        why: end of the message.

    Raises:
        RecipeError: one was given.
    """
    for name, value in given.items():
        if value not in (None, False, []):
            raise RecipeError(f"{name}: {why}")


def flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by the names of their options.

    >>> flags({"on_error": "skip"})
    {'--on-error': 'skip'}
    """
    return {"--" + name.replace("_", "-"): value for name, value in given.items()}


def folder_options(input: str | None, **given: Any) -> dict[str, Any]:
    """Returns the arguments that `predict_folder` and `embed_folder` share, from the values of the options.

    Raises:
        RecipeError: ``--input`` is missing or stdin, or two options exclude each other.
    """
    from bertkit.scaling.folders import Workers

    if input is None or input == "-":
        raise RecipeError("--output-dir: give a folder, a pattern or a URL of files with --input")
    chosen = {name: value for name, value in given.items() if value is not None}
    who = {name: chosen.pop(name) for name in list(chosen) if name in Workers.__dataclass_fields__}
    return {"input": input, "workers": Workers(**who), **chosen}


def print_folder(result: FolderResult, as_json: bool) -> None:
    """Prints what was written."""
    if as_json:
        print_text(dumps(asdict(result)))
        return
    rejected = f", {result.rejected} rejected" if result.rejected else ""
    again = result.shards - result.computed
    kept = f", {again} of them finished before" if again else ""
    print_text(f"{result.rows} rows{rejected} in {result.shards} shards{kept}: {result.output_dir}")
