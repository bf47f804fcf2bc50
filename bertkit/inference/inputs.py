"""Inputs in blocks: the lines of a file or a pipe, or the rows of a table.

Within a block, inputs of similar length share a batch. The results of a block are returned before the next block is
read, so memory does not grow with the number of inputs, and their order is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from bertkit.errors import DataError
from bertkit.progress import Bar, Reached, say
from bertkit.reading.text_files import iterating, read_shares
from bertkit.reading.utf8 import decode_pieces, whole_lines
from bertkit.tables import Table, is_table
from bertkit.tables.table_files import read_table_parts

BLOCK = 1024
"""Inputs per block: enough for batches of similar lengths, few enough to take little memory."""

_STDIN = "-"
_PIPE_BYTES = 1 << 20

Found = TypeVar("Found")


class Block(NamedTuple):
    """Consecutive inputs.

    Attributes:
        given: lines, or rows of a table.
        first: number of inputs before them.
        total: estimate of the number of all inputs, by the share of the file that was read; ``None`` for a pipe.
    """

    given: list[str] | Table
    first: int
    total: int | None


def one_block(given: list[str] | Table) -> Iterator[Block]:
    """Returns inputs that are in memory as one block."""
    return iter([Block(given, 0, len(given))])


def blocks_of(texts: Sequence[str], size: int = BLOCK) -> Iterator[Block]:
    """Returns texts that are in memory in blocks."""
    return (Block(list(texts[at : at + size]), at, len(texts)) for at in range(0, len(texts), size))


def read_inputs(input_file: Path, size: int = BLOCK) -> Iterator[Block]:
    """Reads the inputs of a file: the rows of a table (see `bertkit.tables.is_table`), or the lines of any other file.

    A line may be empty. The first block of a file is read at once, so that its faults are reported before a model is
    loaded. ``-`` is stdin: each block has the lines that have arrived, few from a person and many from a fast program.
    An empty file, or a table without rows, gives no blocks; a line on stderr says so.

    Args:
        input_file: a file or ``-``.
        size: inputs per block, at most.

    Raises:
        DataError: the file cannot be read or is invalid; raised after the blocks before the fault.
    """
    if input_file.is_dir():
        raise DataError(f"--input {input_file}: is a folder; give --output-dir DIR, for a folder of results")
    blocks = _read(input_file, size)
    return blocks if str(input_file) == _STDIN else _from(list(islice(blocks, 1)), blocks)


def _from(first: Sequence[Block], others: Iterator[Block]) -> Iterator[Block]:
    with iterating(others) as remaining:
        yield from first
        yield from remaining


def _read(input_file: Path, size: int) -> Iterator[Block]:
    share = 0.0

    def reached(now: float) -> None:
        nonlocal share
        share = now

    first = 0
    with iterating(_parts(input_file, size, reached)) as parts:
        for given in parts:
            done = first + len(given)
            yield Block(given, first, round(done / share) if share else None)
            first = done
    if not first:
        say(f"--input {input_file}: contains no texts")


def _parts(input_file: Path, size: int, reached: Callable[[float], None]) -> Iterator[list[str] | Table]:
    if is_table(input_file):
        return read_table_parts(input_file, size, reached)
    if str(input_file) == _STDIN:
        return _as_they_come(size)
    return _full(decode_pieces(read_shares(input_file, "", reached), str(input_file)), size)


def _as_they_come(size: int) -> Iterator[list[str]]:
    if sys.stdin is None:  # so Python represents a closed one
        raise DataError(f"--input {_STDIN}: standard input is closed")
    pipe = cast(BufferedIOBase, sys.stdin.buffer)

    def arrived() -> Iterator[bytes]:
        try:
            yield from iter(lambda: pipe.read1(_PIPE_BYTES), b"")
        except OSError as error:
            raise DataError(f"--input {_STDIN}: standard input cannot be read: {error.strerror or error}") from error

    for piece in decode_pieces(arrived(), "standard input"):
        lines = whole_lines(piece)
        yield from (lines[at : at + size] for at in range(0, len(lines), size))


def _full(pieces: Iterable[str], size: int) -> Iterator[list[str]]:
    waiting: list[str] = []
    with iterating(pieces) as remaining:
        for piece in remaining:
            waiting += whole_lines(piece)
            while len(waiting) >= size:
                yield waiting[:size]
                del waiting[:size]
    if waiting:
        yield waiting


def process_blocks(blocks: Iterable[Block], what: str, work: Callable[[Block, Reached], Found]) -> Iterator[Found]:
    """Yields the result of ``work`` for each block in turn, with a progress bar on stderr.

    Args:
        blocks: from `read_inputs`.
        what: name of the work for the bar, one word.
        work: called with a block and a callback for progress within it.

    Raises:
        DataError: a block is invalid; the message says how many inputs before it are done.
    """
    done = 0
    with Bar(what, "inputs") as bar:
        try:
            with iterating(blocks) as remaining:
                for block in remaining:
                    found = work(block, partial(_tell, bar, block))
                    bar.clear()
                    yield found
                    done = block.first + len(block.given)
        except DataError as error:
            if not done:
                raise
            raise DataError(f"{error}\nThe {done} inputs before it were processed.") from error


def _tell(bar: Bar, block: Block, done: int, of: int) -> None:
    bar(block.first + len(block.given) * done // of, block.total)
