"""Inputs that cannot be read, left out and listed: ``--on-error skip`` of ``predict`` and ``embed``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from bertkit.data.tables import Table
from bertkit.inference.inputs import Block
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import counted, say

_MOST_LISTED = 20  # inputs that are skipped


Inputs = TypeVar("Inputs")
Done = TypeVar("Done")


def readable(read: Callable[[Block], Inputs], skipped: list[str] | None) -> Callable[[Block], Inputs]:
    """Returns a function that reads the inputs of a block.

    Args:
        read: reads a block, or raises DataError.
        skipped: the inputs that cannot be read are left out, and the reasons are added to it; None for an error, which
            names ``--on-error skip`` where that leaves some of them out.
    """

    def read_block(block: Block) -> Inputs:
        try:
            return read(block)
        except DataError as error:
            faults: list[str] = []
            rows = _readable_rows(read, block.inputs, block.first, faults)
            if skipped is None:
                if not 0 < len(rows) < len(block.inputs):
                    raise
                advice = f"--on-error skip leaves out {counted(len(faults), 'such input')} of {len(block.inputs)}"
                raise DataError(f"{error}\n{advice}") from error
        skipped.extend(faults)
        return read(block._replace(inputs=_part(block.inputs, rows)))

    return read_block


def _readable_rows(
    read: Callable[[Block], Any], inputs: Table | list[str], first: int, skipped: list[str]
) -> list[int]:
    """Returns the numbers of the inputs that can be read, from 0, and adds why the others cannot to ``skipped``."""
    try:
        read(Block(inputs, first, None))
    except DataError as error:
        if len(inputs) == 1:
            skipped.append(str(error))
            return []
        half = len(inputs) // 2
        begun = _readable_rows(read, _part(inputs, range(half)), first, skipped)
        rest = _readable_rows(read, _part(inputs, range(half, len(inputs))), first + half, skipped)
        return begun + [half + row for row in rest]
    return list(range(len(inputs)))


def _part(inputs: Table | list[str], rows: Sequence[int]) -> Table | list[str]:
    """Returns some inputs; the rows of a table keep their places."""
    return inputs.part(rows) if isinstance(inputs, Table) else [inputs[row] for row in rows]


def listing_skipped(
    blocks: Iterator[Done], skipped: Sequence[str] | None, number: Callable[[Done], int]
) -> Iterator[Done]:
    """Yields what was computed for blocks, then says what was skipped; DataError if all inputs were skipped.

    Args:
        blocks: what was computed for each block.
        skipped: what was skipped, of the blocks so far, as of `readable`.
        number: returns the number of inputs of a block that were not skipped.
    """
    count = 0
    for block in blocks:
        count += number(block)
        yield block
    if not skipped:
        return
    for reason in skipped[:_MOST_LISTED]:
        say(f"skipped: {reason}")
    say(f"{counted(len(skipped), 'input')} skipped, {count:,} done")
    if not count:
        were = "input was" if len(skipped) == 1 else "inputs were"
        raise DataError(f"all {len(skipped)} {were} skipped; the first: {skipped[0]}")
