"""Texts as they come, block by block: the lines of a file or of a pipe, the rows of a table.

Of a block the inputs of like length are computed together, and what is found for it is given out before the next block
is read; so memory does not grow with the number of inputs, and their order is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from bertkit.errors import DataError
from bertkit.progress import Bar, Reached
from bertkit.reading.text_files import read_shares
from bertkit.reading.utf8 import decode_pieces, whole_lines
from bertkit.tables import Table, is_table
from bertkit.tables.table_files import read_table_parts

BLOCK = 1024
"""Inputs of a block: so many that batches of like lengths can be made of them, so few that memory does not notice."""

_STDIN = "-"
_PIPE_BYTES = 1 << 20

Found = TypeVar("Found")


class Block(NamedTuple):
    """Inputs that follow each other.

    Attributes:
        given: lines, or rows of a table.
        first: how many inputs come before them.
        total: how many there are in all, by the share of the file that is read; ``None`` of a pipe.
    """

    given: list[str] | Table
    first: int
    total: int | None


def one_block(given: list[str] | Table) -> Iterator[Block]:
    """Inputs that are held whole, as one block."""
    return iter([Block(given, 0, len(given))])


def blocks_of(texts: Sequence[str], size: int = BLOCK) -> Iterator[Block]:
    """Texts that are at hand, in blocks."""
    return (Block(list(texts[at : at + size]), at, len(texts)) for at in range(0, len(texts), size))


def read_inputs(input_file: Path, size: int = BLOCK) -> Iterator[Block]:
    """The inputs in a file: the rows of a table (see `bertkit.tables.is_table`), or the lines of any other file.

    A line may be empty. The first block of a file is read at once, so that what is wrong with it is said before a model
    is loaded. ``-`` is stdin: its lines are given as they come, so many at once as have come, which are few while one
    waits for them and many while they wait.

    Args:
        input_file: a file or ``-``.
        size: inputs of a block, at most.

    Raises:
        DataError: there is no input, or the file is not what it should be; when the blocks before have been given.
    """
    blocks = _read(input_file, size)
    return blocks if str(input_file) == _STDIN else chain([next(blocks)], blocks)


def _read(input_file: Path, size: int) -> Iterator[Block]:
    share = 0.0

    def reached(now: float) -> None:
        nonlocal share
        share = now

    parts: Iterator[list[str] | Table]
    if is_table(input_file):
        parts = read_table_parts(input_file, size, reached)
    elif str(input_file) == _STDIN:
        parts = _as_they_come(size)
    else:
        parts = _full(decode_pieces(read_shares(input_file, "", reached), str(input_file), input_file), size)
    first = 0
    for given in parts:
        done = first + len(given)
        yield Block(given, first, round(done / share) if share else None)
        first = done
    if not first:
        raise DataError(f"--input {input_file}: no texts in it")


def _as_they_come(size: int) -> Iterator[list[str]]:
    pipe = cast(BufferedIOBase, sys.stdin.buffer)
    arrived = iter(lambda: pipe.read1(_PIPE_BYTES), b"")
    for piece in decode_pieces(arrived, "standard input"):
        lines = whole_lines(piece)
        yield from (lines[at : at + size] for at in range(0, len(lines), size))


def _full(pieces: Iterable[str], size: int) -> Iterator[list[str]]:
    waiting: list[str] = []
    for piece in pieces:
        waiting += whole_lines(piece)
        while len(waiting) >= size:
            yield waiting[:size]
            del waiting[:size]
    if waiting:
        yield waiting


def work_through(blocks: Iterable[Block], what: str, work: Callable[[Block, Reached], Found]) -> Iterator[Found]:
    """What ``work`` finds for each block, in turn, with a bar on stderr.

    Args:
        blocks: from `read_inputs`.
        what: the work, in a word.
        work: is given a block, and whom to tell how much of it is done.

    Raises:
        DataError: something is wrong with a block; the message says how many inputs had been worked on before.
    """
    done = 0
    with Bar(what, "inputs") as bar:
        try:
            for block in blocks:
                found = work(block, partial(_tell, bar, block))
                bar.clear()
                yield found
                done = block.first + len(block.given)
        except DataError as error:
            if not done:
                raise
            raise DataError(f"{error}\nThe {done} inputs before are done.") from error


def _tell(bar: Bar, block: Block, done: int, of: int) -> None:
    bar(block.first + len(block.given) * done // of, block.total)
