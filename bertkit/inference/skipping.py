"""Inputs that a task does not take, left out and listed: ``predict --on-error skip``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from bertkit.errors import DataError
from bertkit.inference.inputs import Block
from bertkit.progress import counted, say
from bertkit.tables import Table
from bertkit.tasks.splits import Columns

_MOST_LISTED = 20  # inputs that are skipped


class HasRows(Protocol):
    """Predictions of a block."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its rows."""


WithRows = TypeVar("WithRows", bound=HasRows)
Read = Callable[[Block], tuple[Columns, Columns, Columns]]


def skipping(read: Read, reasons: list[str]) -> Read:
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

    def read_the_rest(block: Block) -> tuple[Columns, Columns, Columns]:
        rows = readable(block.inputs, block.first)
        return read(block._replace(inputs=_part(block.inputs, rows)))

    return read_the_rest


def _part(inputs: Table | list[str], rows: Sequence[int]) -> Table | list[str]:
    """Returns some inputs; the rows of a table keep their places."""
    if not isinstance(inputs, Table):
        return [inputs[row] for row in rows]
    numbers = inputs.numbers_of_rows
    columns = {name: [values[row] for row in rows] for name, values in inputs.columns.items()}
    return replace(inputs, columns=columns, lines=[numbers[row] for row in rows])


def reported(blocks: Iterator[WithRows], reasons: Sequence[str]) -> Iterator[WithRows]:
    """Yields the blocks, then says what was skipped.

    Raises:
        DataError: all inputs were skipped.
    """
    count = 0
    for block in blocks:
        count += len(block.rows)
        yield block
    for reason in reasons[:_MOST_LISTED]:
        say(f"skipped: {reason}")
    if reasons:
        say(f"{counted(len(reasons), 'input')} skipped, {count:,} predicted")
    if reasons and not count:
        raise DataError(f"all {len(reasons)} inputs were skipped; the first: {reasons[0]}")
