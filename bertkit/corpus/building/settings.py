"""Settings of a build of a token store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from bertkit.errors import RecipeError

Engine = Literal["local", "ray"]
"""Processes that split and tokenize: those of this machine, or those of Ray."""

Deduplication = Literal["exact", "minhash"]
"""Rule by which a document is left out because of an earlier one: see `bertkit.corpus.building.filters`."""


@dataclass(frozen=True, kw_only=True)
class DocumentFilter:
    """Selection of the documents of a store.

    Attributes:
        min_tokens: minimum number of tokens of a document, at least 1.
        deduplicate: rule of duplicates; ``None`` keeps them.

    Raises:
        RecipeError: a value is out of range.
    """

    min_tokens: int = 1
    deduplicate: Deduplication | None = None

    def __post_init__(self) -> None:
        if self.min_tokens < 1:
            raise RecipeError(f"min_tokens: {self.min_tokens} is not at least 1")
        if self.deduplicate not in (None, *get_args(Deduplication)):
            raise RecipeError(f"deduplicate: {self.deduplicate!r} is not one of {', '.join(get_args(Deduplication))}")

    def facts(self) -> dict[str, int | str]:
        """Returns the entries of the metadata: only settings that leave documents out.

        >>> DocumentFilter().facts(), DocumentFilter(min_tokens=5).facts()
        ({}, {'min_tokens': 5})
        """
        found: dict[str, int | str] = {}
        if self.min_tokens > 1:
            found["min_tokens"] = self.min_tokens
        if self.deduplicate is not None:
            found["deduplicate"] = self.deduplicate
        return found


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Processes of a build; they do not change its result.

    Attributes:
        engine: ``local`` or ``ray``.
        number: number of processes that split and tokenize, at least 1.
        ray_address: address of a running Ray cluster; ``None`` starts Ray on this machine.

    Raises:
        RecipeError: a value is out of range, or ``ray_address`` is given without Ray.
    """

    engine: Engine = "local"
    number: int = 1
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise RecipeError(f"engine: {self.engine!r} is not one of {', '.join(get_args(Engine))}")
        if self.number < 1:
            raise RecipeError(f"workers: {self.number} is not at least 1")
        if self.ray_address is not None and self.engine != "ray":
            raise RecipeError("ray_address: it needs the engine ray; add --engine ray or remove it")
