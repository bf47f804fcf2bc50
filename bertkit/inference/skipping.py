"""Inputs that cannot be read, left out and listed: ``--on-error skip`` of ``predict`` and ``embed``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from bertkit.errors import DataError
from bertkit.inference.inputs import Block
from bertkit.progress import counted, say
from bertkit.tables import Table

_MOST_LISTED = 20  # inputs that are skipped


Inputs = TypeVar("Inputs")
Done = TypeVar("Done")


def skipping(read: Callable[[Block], Inputs], reasons: list[str]) -> Callable[[Block], Inputs]:
    """Returns a function that reads the inputs of a block that can be read, and adds why the others cannot."""

    def readable(inputs: Table | list[str], first: int) -> list[int]:
        try:
            read(Block(inputs, first, None))
        except DataError as error:
            if len(inputs) == 1:
                reasons.append(str(error))
                return []
            half = len(inputs) // 2
            begun = readable(_part(inputs, range(half)), first)
            return begun + [half + row for row in readable(_part(inputs, range(half, len(inputs))), first + half)]
        return list(range(len(inputs)))

    def read_the_rest(block: Block) -> Inputs:
        rows = readable(block.inputs, block.first)
        return read(block._replace(inputs=_part(block.inputs, rows)))

    return read_the_rest


def advising(read: Callable[[Block], Inputs]) -> Callable[[Block], Inputs]:
    """Returns a function that reads the inputs of a block; its errors name ``--on-error skip`` where that leaves some
    of them out."""

    def read_or_advise(block: Block) -> Inputs:
        try:
            return read(block)
        except DataError as error:
            reasons: list[str] = []
            with suppress(DataError):
                skipping(read, reasons)(block)
            if 0 < len(reasons) < len(block.inputs):
                advice = f"--on-error skip leaves out {counted(len(reasons), 'such input')} of {len(block.inputs)}"
                raise DataError(f"{error}\n{advice}") from error
            raise

    return read_or_advise


def _part(inputs: Table | list[str], rows: Sequence[int]) -> Table | list[str]:
    """Returns some inputs; the rows of a table keep their places."""
    return inputs.part(rows) if isinstance(inputs, Table) else [inputs[row] for row in rows]


def reported(blocks: Iterator[Done], reasons: Sequence[str], number: Callable[[Done], int]) -> Iterator[Done]:
    """Yields what was computed for blocks, then says what was skipped; DataError if all inputs were skipped.

    Args:
        blocks: what was computed for each block.
        reasons: what was skipped, of the blocks so far.
        number: returns the number of inputs of a block that were not skipped.
    """
    count = 0
    for block in blocks:
        count += number(block)
        yield block
    for reason in reasons[:_MOST_LISTED]:
        say(f"skipped: {reason}")
    if reasons:
        say(f"{counted(len(reasons), 'input')} skipped, {count:,} done")
    if reasons and not count:
        were = "input was" if len(reasons) == 1 else "inputs were"
        raise DataError(f"all {len(reasons)} {were} skipped; the first: {reasons[0]}")
