"""Inputs: texts from Python, and in blocks the lines of a file or a pipe, or the rows of a table.

Within a block, inputs of similar length share a batch. The results of a block are returned before the next block is
read, or where a thread reads ahead before the one after it, so memory does not grow with the number of inputs, and
their order is kept. Inputs that cannot be read are left out and listed, if that is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from bertkit.data.tables import Table, is_table
from bertkit.data.tables.documents import FORMS, document_parts
from bertkit.data.tables.encodings import as_utf8
from bertkit.data.tables.objects import refuse_unfinished
from bertkit.data.tables.table_files import read_table_parts
from bertkit.inference.forward import one_ahead
from bertkit.runtime.errors import DataError, raise_all, raise_listed
from bertkit.runtime.progress import Bar, Reached, counted, say
from bertkit.runtime.reading.text import decode_pieces, iterating, read_shares, whole_lines

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

BLOCK = 1024
"""Inputs per block: enough for batches of similar lengths, few enough to take little memory."""

_OUTPUTS_AT_ONCE = 1 << 22  # inputs of a block, times labels: with very many labels their outputs fill the memory
_STDIN = "-"
_FILES_AT_ONCE = 64  # whose texts are in memory
_PIPE_BYTES = 1 << 20
_SHOWN = 60  # characters of a value in a message
_MOST_LISTED = 20  # inputs that are skipped

# Library of a table -> how to give the texts of one column.
_COLUMN_OF = {
    "datasets": "list(dataset[{column!r}])",
    "pandas": "frame[{column!r}].tolist()",
    "polars": "frame[{column!r}].to_list()",
    "pyarrow": "table[{column!r}].to_pylist()",
}

Result = TypeVar("Result")
Columns = TypeVar("Columns")


def list_of_texts(texts: Any, name: str = "texts") -> list[str]:
    """Returns texts that are given from Python as a list: ``[text]`` for one text.

    Args:
        texts: a string, or an iterable of strings: a list, an array, a column of a table.
        name: name of the argument in messages.

    Raises:
        DataError: a table is given, whose iteration gives the names of its columns or its rows; or a value is no
            string, such as None or the NaN of an empty cell.

    >>> list_of_texts("a film"), list_of_texts(("a film", "a plot"))
    (['a film'], ['a film', 'a plot'])
    """
    if isinstance(texts, str):
        texts = [texts]
    refuse_unfinished(texts, name)
    names = texts if isinstance(texts, Mapping) else getattr(texts, "column_names", getattr(texts, "columns", None))
    if isinstance(names, Iterable) and hasattr(texts, "__getitem__"):
        columns = list(map(str, names))
        kind, library = type(texts).__name__, type(texts).__module__.partition(".")[0]
        column = "text" if "text" in columns or not columns else columns[0]
        way = _COLUMN_OF.get(library, "table[{column!r}]").format(column=column)
        raise DataError(f"{name}: is a {kind}, with columns; expected texts: give those of one column, such as {way}")
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, bytearray)):
        raise DataError(f"{name}: is {_describe(texts)}; expected a text or a list of texts")
    values = list(texts)
    wrong = [number for number, value in enumerate(values, 1) if not isinstance(value, str)]
    if wrong:
        first = values[wrong[0] - 1]
        more = f" (and {len(wrong) - 1} more are no texts)" if len(wrong) > 1 else ""
        raise DataError(f"{name}: number {wrong[0]} of {len(values)} is {_describe(first)}{more}; {_suggest(first)}")
    if len(values) == 1 and os.path.splitext(values[0])[1] and os.path.isfile(values[0]):
        remedy = f"to read the file, give --input {values[0]}"
        say(f"note: {values[0]} is a file, and its name is read as the text; {remedy}")
    return values


def with_words(texts: Sequence[str], what: str = "text", left_out: list[str] | None = None) -> list[str]:
    """Returns texts without the empty ones, whose faults are added to ``left_out``, or raised if that is ``None``.

    A model would give an empty text, or one of white space, a label or a vector as any other. This is the rule for all
    texts that are given one by one; the lines of a file may be empty, so that results keep their lines.

    Args:
        texts: the texts.
        what: name of one of them in messages.
        left_out: receives the faults.

    >>> with_words(["a film"])
    ['a film']
    >>> with_words(["a film", " "])
    Traceback (most recent call last):
    bertkit.runtime.errors.DataError: text 2: empty; give at least one word
    """
    faults = [
        f"{what} {number}: empty; give at least one word" for number, text in enumerate(texts, 1) if not text.strip()
    ]
    if left_out is None:
        raise_listed(faults)
    else:
        left_out += faults
    return [text for text in texts if text.strip()]


def _describe(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "None" if value is None else f"{text} ({type(value).__name__})"


def _suggest(value: Any) -> str:
    if isinstance(value, Mapping):
        column = "text" if "text" in value else next(iter(value), "text")
        return f"expected texts: [row[{column!r}] for row in rows]"
    if hasattr(value, "as_py"):  # a value of Arrow
        return "expected texts: column.to_pylist()"
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType":  # pandas.NA
        return "an empty cell is no text: give texts only, such as frame['text'].dropna().tolist()"
    return "expected texts, such as [str(value) for value in values]"


def inputs_at_once(config: PreTrainedConfig) -> int:
    """Returns the number of inputs of a block for a model of this configuration."""
    return max(1, min(BLOCK, _OUTPUTS_AT_ONCE // config.num_labels))


class Block(NamedTuple):
    """Consecutive inputs.

    Attributes:
        inputs: lines, or rows of a table.
        first: number of inputs before them.
        total: estimate of the number of all inputs, by the share of the file that was read; ``None`` for a pipe.
    """

    inputs: list[str] | Table
    first: int
    total: int | None

    def part(self, rows: Sequence[int]) -> Block:
        """Returns some of the inputs, by their numbers in the block; the rows of a table keep their places."""
        inputs = self.inputs
        return self._replace(inputs=inputs.part(rows) if isinstance(inputs, Table) else [inputs[row] for row in rows])


def one_block(inputs: list[str] | Table) -> Iterator[Block]:
    """Returns inputs that are in memory as one block."""
    return iter([Block(inputs, 0, len(inputs))])


def read_given(texts: Any, size: int = BLOCK, what: str = "text", left_out: list[str] | None = None) -> Iterator[Block]:
    """Returns texts that are given from Python in blocks of ``size``.

    Raises:
        DataError: as `list_of_texts` and `with_words`, whose arguments these are.
    """
    kept = with_words(list_of_texts(texts), what, left_out)
    return (Block(kept[at : at + size], at, len(kept)) for at in range(0, len(kept), size))


def read_inputs(
    input_file: Path,
    size: int = BLOCK,
    per_file: bool = False,
    left_out: list[str] | None = None,
    may_be_empty: bool = True,
) -> Iterator[Block]:
    """Reads the inputs of a file: the rows of a table (see `bertkit.data.tables.is_table`), or the lines of any other
    file.

    A line may be empty. The first block of a file is read at once, so that its faults are reported before a model is
    loaded. ``-`` is stdin: each block has the lines that have arrived, few from a person and many from a fast program.
    An empty file, or a table without rows, gives no blocks; a note is printed on stderr.

    Args:
        input_file: a file or ``-``.
        size: inputs per block, at most.
        per_file: the input is a folder, and each of its files a text, or one such file, see
            `bertkit.data.tables.documents`. The blocks are tables of ``file`` and ``text``.
        left_out: as of `bertkit.data.tables.table_files.read_table_parts`, and of `document_parts`.
        may_be_empty: an input without texts is no error.

    Raises:
        DataError: the file cannot be read, is invalid or must not be empty; raised after the blocks before the fault.
    """
    if per_file and not input_file.is_dir() and not (input_file.is_file() and input_file.suffix.lower() in FORMS):
        raise DataError(
            f"--per-file: is for files that end in {', '.join(FORMS)}, and folders of them; remove it for --input "
            f"{input_file}"
        )
    if input_file.is_dir() and not per_file:
        raise DataError(
            f"--input {input_file}: is a folder; give --per-file if each of its files is one text, or --output-dir DIR "
            "for a folder of results if its files are tables or have a text a line"
        )
    blocks = (
        _read_documents(input_file, size, left_out)
        if per_file
        else _read_rows_or_lines(input_file, size, left_out, may_be_empty)
    )
    if str(input_file) == _STDIN:
        return blocks
    first = list(islice(blocks, 1))

    def from_first() -> Iterator[Block]:
        with iterating(blocks) as others:
            yield from first
            yield from others

    return from_first()


def _read_documents(folder: Path, size: int, left_out: list[str] | None) -> Iterator[Block]:
    """Yields the texts of files, which are read by `document_parts`."""
    first = 0
    faults: list[str] = []
    for table, share in document_parts(folder, min(size, _FILES_AT_ONCE), faults if left_out is None else left_out):
        raise_all([f"{fault}, or give --on-error skip" for fault in faults])
        if len(table):
            yield Block(table, first, round((first + len(table)) / share))
            first += len(table)


def _read_rows_or_lines(
    input_file: Path, size: int, left_out: list[str] | None, may_be_empty: bool = True
) -> Iterator[Block]:
    """Yields the rows of a table, or the lines of a file or of stdin."""
    share = 0.0

    def on_progress(now: float) -> None:
        nonlocal share
        share = now

    def parts() -> Iterator[list[str] | Table]:
        if is_table(input_file):
            return read_table_parts(input_file, size, on_progress, left_out)
        if str(input_file) == _STDIN:
            return _cut_lines(decode_pieces(_read_stdin(), "standard input"), size, as_they_arrive=True)
        contents = as_utf8(read_shares(input_file, "", on_progress), str(input_file))
        return _cut_lines(decode_pieces(contents, str(input_file)), size)

    first = 0
    with iterating(parts()) as remaining:
        for inputs in remaining:
            done = first + len(inputs)
            yield Block(inputs, first, round(done / share) if share else None)
            first = done
    if not first:
        empty = f"--input {input_file}: contains no texts"
        if not may_be_empty:
            raise DataError(empty)
        say(empty)


def _read_stdin() -> Iterator[bytes]:
    if sys.stdin is None:  # so Python represents a closed one
        raise DataError(f"--input {_STDIN}: standard input is closed")
    pipe = cast(BufferedIOBase, sys.stdin.buffer)
    try:
        yield from iter(lambda: pipe.read1(_PIPE_BYTES), b"")
    except OSError as error:
        raise DataError(f"--input {_STDIN}: standard input cannot be read: {error.strerror or error}") from error


def _cut_lines(pieces: Iterable[str], size: int, as_they_arrive: bool = False) -> Iterator[list[str]]:
    """Yields the lines of a text that comes in pieces, ``size`` at once, or at most as many as have arrived."""
    waiting: list[str] = []
    with iterating(pieces) as remaining:
        for piece in remaining:
            waiting += whole_lines(piece)
            while len(waiting) >= size or (waiting and as_they_arrive):
                yield waiting[:size]
                del waiting[:size]
    if waiting:
        yield waiting


def process_blocks(
    blocks: Iterable[Block],
    what: str,
    work: Callable[[Any, Reached], Result],
    prepare: Callable[[Block], Any] = lambda block: block,
    *,
    is_ahead: bool = False,
) -> Iterator[Result]:
    """Yields the result of ``work`` for each block in turn, with a progress bar on stderr.

    Args:
        blocks: from `read_inputs`.
        what: name of the work for the bar, one word.
        work: called with what ``prepare`` makes of a block, and a callback for progress within it.
        prepare: called with a block.
        is_ahead: the next block is read and prepared in a thread during the work, as for a GPU.

    Raises:
        DataError: a block is invalid; the message has the number of inputs before it.
    """
    done = 0
    with Bar(what, "inputs") as bar:
        try:
            with ExitStack() as contexts:
                prepared = ((block, prepare(block)) for block in contexts.enter_context(iterating(blocks)))
                if is_ahead:
                    prepared = contexts.enter_context(closing(one_ahead(prepared)))
                for block, ready in prepared:

                    def reached(done: int, of: int, block: Block = block) -> None:
                        bar(block.first + len(block.inputs) * done // of, block.total)

                    result = work(ready, reached)
                    bar.clear()
                    yield result
                    done = block.first + len(block.inputs)
        except DataError as error:
            if not done:
                raise
            raise DataError(f"{error}\nThe {done} inputs before it were processed.") from error


def readable(read: Callable[[Block], Columns], skipped: list[str] | None) -> Callable[[Block], Columns]:
    """Returns a function that reads the inputs of a block.

    Args:
        read: reads a block, or raises DataError.
        skipped: the inputs that cannot be read are left out, and the reasons are added to it; None for an error, which
            names ``--on-error skip`` where that leaves some of them out.
    """

    def read_block(block: Block) -> Columns:
        try:
            return read(block)
        except DataError as error:
            faults: list[str] = []
            rows = _find_readable(read, block, faults)
            if skipped is None:
                if not 0 < len(rows) < len(block.inputs):
                    raise
                advice = f"--on-error skip leaves out {counted(len(faults), 'such input')} of {len(block.inputs)}"
                raise DataError(f"{error}\n{advice}") from error
        skipped.extend(faults)
        return read(block.part(rows))

    return read_block


def _find_readable(read: Callable[[Block], Any], block: Block, skipped: list[str]) -> list[int]:
    """Returns the numbers of the inputs that can be read, from 0, and adds why the others cannot to ``skipped``."""
    number = len(block.inputs)
    try:
        read(block)
    except DataError as error:
        if number == 1:
            skipped.append(str(error))
            return []
        half = number // 2
        begun = _find_readable(read, block.part(range(half)), skipped)
        rest = block.part(range(half, number))._replace(first=block.first + half)
        return begun + [half + row for row in _find_readable(read, rest, skipped)]
    return list(range(number))


def listing_skipped(
    blocks: Iterator[Result], skipped: Sequence[str] | None, number: Callable[[Result], int]
) -> Iterator[Result]:
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
