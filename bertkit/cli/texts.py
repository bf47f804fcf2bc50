"""Shared parts of `bertkit predict` and `bertkit embed`, the commands that compute something of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from bertkit.cli import options
from bertkit.runtime.errors import RecipeError

OnError = Annotated[
    Literal["stop", "skip"] | None,
    options.option(
        help="For a row that cannot be read: stop (the default), or skip it with its reason in rejected/ or shown.",
        panel=options.FOLDERS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Texts:
    """A command before it computes anything, as the options of features see it.

    Attributes:
        name: ``predict`` or ``embed``.
        checkpoint: the checkpoint.
        input: ``--input``, which may be a folder or a URL; None without it.
        how: arguments of the computation that do not depend on the input.
        others: options that say what to read and to write, by their flags.
        on_error: ``stop``, ``skip`` or None.
        json: print the result as JSON.
    """

    name: str
    checkpoint: str
    input: str | None
    how: Mapping[str, Any]
    others: Mapping[str, Any]
    on_error: str | None
    json: bool


def refuse(given: Mapping[str, Any], why: str) -> None:
    """Checks that none of some options was given: each is None, False or empty; RecipeError if one was given.

    Args:
        given: name of the option → its value.
        why: end of the message.
    """
    for name, value in given.items():
        if value not in (None, False, []):
            raise RecipeError(f"{name}: {why}")
