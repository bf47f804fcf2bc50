"""Labels of data under the names that a stock checkpoint has for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from bertkit.errors import DataError, quoted

_NUMBERED = re.compile(r"LABEL_(\d+)")


def matched_names(given: Collection[str], known: Sequence[str], source: str) -> tuple[dict[str, str], str]:
    """Maps the labels of data to those of a checkpoint by name.

    The names are compared exactly; failing that, without regard to case if that leaves them distinct. Labels that the
    checkpoint only numbers, ``LABEL_0`` to ``LABEL_N``, are matched by number if those of the data are the whole
    numbers from 0. The data may lack some of the labels.

    Args:
        given: the distinct labels of the data, as text.
        known: labels of the checkpoint in the order of their ids.
        source: name of the data in messages.

    Returns:
        Label of the data → label of the checkpoint, and a note on how they were matched; empty for the same names.

    Raises:
        DataError: a label of the data is none of the checkpoint's; the message has both lists.

    >>> matched_names(["pos", "NEG"], ["Neg", "Pos"], "x.csv")
    ({'pos': 'Pos', 'NEG': 'Neg'}, 'labels matched without regard to case')
    >>> matched_names(["0", "1"], ["LABEL_0", "LABEL_1"], "x.csv")[0]
    {'0': 'LABEL_0', '1': 'LABEL_1'}
    """
    if set(given) <= set(known):
        return {name: name for name in given}, ""
    folded = {name.casefold(): name for name in known}
    if len(folded) == len(known) and len({name.casefold() for name in given}) == len(given):
        found = {name: folded[name.casefold()] for name in given if name.casefold() in folded}
        if len(found) == len(given):
            return found, "labels matched without regard to case"
    if all(_NUMBERED.fullmatch(name) for name in known):
        numbers = {str(int(name.removeprefix("LABEL_"))): name for name in known}
        if set(given) <= set(numbers):
            return {name: numbers[name] for name in given}, "labels matched by number, 0 is LABEL_0"
    raise DataError(
        f"{source}: the labels of the data and of the checkpoint differ\n"
        f"  data:       {quoted(sorted(given))}\n"
        f"  checkpoint: {quoted(known)}\n"
        "write the labels of the data as the checkpoint has them, or change id2label in a copy of its config.json"
    )
