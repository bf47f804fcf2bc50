"""Names that look alike: the same name for a reader, and different ones for a program."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from bertkit.tables.table import to_number


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    r"""Returns the groups of names that differ only in case, white space, Unicode form or characters that cannot be
    seen, and of numbers of the same value; names keep their order.

    >>> look_alikes(["pos", "neg", "Pos\u200b ", "caf\u00e9", "cafe\u0301"]) == [
    ...     ["pos", "Pos\u200b "], ["caf\u00e9", "cafe\u0301"]]
    True
    >>> look_alikes(["3.1", "3.10", "3.2"])
    [['3.1', '3.10']]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[appearance(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def appearance(name: str) -> str:
    """Returns the same text for names that look alike."""
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if not is_invisible(each))
    text = unicodedata.normalize("NFKC", " ".join(visible.casefold().split()))
    return repr(to_number(text)) if is_number(text) else text


def likeness(name: str) -> str:
    """Returns how a name and those that look like it differ, as the end of a sentence about them."""
    return "are the same number" if is_number(name) else "differ only in case, white space or Unicode form"


def is_number(text: str) -> bool:
    """Returns whether text is a finite number."""
    return math.isfinite(to_number(text))


def is_invisible(character: str) -> bool:
    """Returns whether a character other than white space is not seen: a format character, such as a zero-width space, a
    control character, or one that selects a variant of the character before it."""
    is_control = unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()
    return is_control or "\ufe00" <= character <= "\ufe0f"
