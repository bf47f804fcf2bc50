"""Inputs: texts from Python, and in blocks the lines of a file or a pipe, or the rows of a table.

Within a block, inputs of similar length share a batch. The results of a block are returned before the next block is
read, or where a thread reads ahead before the one after it, so memory does not grow with the number of inputs, and
their order is kept. Inputs that cannot be read are left out and listed, if that is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from bertkit.data.tables import Table, is_table
from bertkit.data.tables.documents import FORMS, document_parts, is_document
from bertkit.data.tables.encodings import as_utf8
from bertkit.data.tables.objects import kind_of_table, list_of_texts, table_of, with_words
from bertkit.data.tables.table_files import read_table_parts
from bertkit.inference.forward import one_ahead
from bertkit.runtime.errors import DataError, RecipeError, raise_all
from bertkit.runtime.progress import Bar, Reached, counted, say
from bertkit.runtime.reading.paths import compression_of, was_url
from bertkit.runtime.reading.text import decode_pieces, iterating, read_shares, whole_lines

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

BLOCK = 1024
"""Inputs per block: enough for batches of similar lengths, few enough to take little memory."""

_OUTPUTS_AT_ONCE = 1 << 22  # inputs of a block, times labels: with very many labels their outputs fill the memory
_STDIN = "-"
_FILES_AT_ONCE = 64  # whose texts are in memory
_PIPE_BYTES = 1 << 20
_MOST_LISTED = 20  # inputs that are skipped

Result = TypeVar("Result")
Columns = TypeVar("Columns")


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


def read_given(texts: Any, size: int, what: str, may_be_empty: bool) -> Iterator[Block]:
    """Returns texts that are given from Python in blocks of ``size``.

    Args:
        what: name of one of them in messages.
        may_be_empty: texts without words are left to `InputSource.words_of`, whose faults can be skipped.

    Raises:
        DataError: as `list_of_texts`, and `with_words` unless they may be empty.
    """
    given = list_of_texts(texts)
    if not may_be_empty:
        with_words(given, what)
    return (Block(given[at : at + size], at, len(given)) for at in range(0, len(given), size))


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
    An empty file, or a table without rows, gives no blocks; a note is printed on stderr. With ``per_file`` a file
    without text, and a folder without files to read, are errors.

    Args:
        input_file: a file or ``-``.
        size: inputs per block, at most.
        per_file: the input is a folder, and each of its files a text, or one such file, see
            `bertkit.data.tables.documents`. The blocks are tables of ``file`` and ``text``.
        left_out: as of `bertkit.data.tables.table_files.read_table_parts`, and of `document_parts`, which leaves out
            files without text.
        may_be_empty: an input without texts is no error; not used with ``per_file``.

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
            f"--input {input_file}: is a folder; give --per-file if each of its files is one text, or one file"
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


def _read_rows_or_lines(input_file: Path, size: int, left_out: list[str] | None, may_be_empty: bool) -> Iterator[Block]:
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
        contents = as_utf8(read_shares(input_file, compression_of(input_file), on_progress), str(input_file))
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


def refuse_columns(columns: Sequence[str], what: str = "a text") -> None:
    """Raises a DataError if columns are named of ``what``, which is no table."""
    if columns:
        raise DataError(f"--text-column {', '.join(map(str, columns))}: {what} is not a table; remove it")


class InputSource:
    """Input of a prediction or an embedding: texts, a table object or a file; the others are None.

    Args:
        texts: texts, or a table object.
        file: a file, or ``-``.
        per_file: the file is a folder whose files are one text each; see `read_inputs`.
        on_error: ``stop`` at an input that cannot be read, or ``skip`` it.
        columns: names of the columns of a table to read; none for those of usual names, or of the training.

    Attributes:
        file: the file.
        table: the rows of a table object.
        per_file: also true for a file that is one text, such as a mail.
        skipped: why inputs were left out; None to stop at the first.

    Raises:
        DataError: the file is a URL, or columns or ``per_file`` are given without a table or a file.
        RecipeError: ``on_error`` is another word.
    """

    def __init__(
        self,
        texts: Any,
        file: str | Path | None,
        per_file: bool,
        on_error: Literal["stop", "skip"],
        columns: Sequence[str] = (),
    ):
        if on_error not in ("stop", "skip"):
            raise RecipeError(f"on_error {on_error!r}: expected stop or skip")
        if file is None and per_file:
            raise DataError("--per-file: is for files; give them with --input")
        if file is not None and was_url(file):
            raise DataError(f"--input {file}: is a URL; download the file, and give its path")
        self.file = None if file is None else Path(file)
        self.table = None if kind_of_table(texts) is None else table_of(texts)
        if self.table is None and (self.file is None or not is_table(self.file)):
            refuse_columns(columns, "a text" if file is None else str(file))
        self.per_file = per_file or (self.file is not None and is_document(self.file))
        self.skipped: list[str] | None = None if on_error == "stop" else []
        self._texts = texts

    def blocks(self, size: int) -> Iterator[Block]:
        """Returns the inputs in blocks of ``size``; DataError as `read_given` and `read_inputs`."""
        if self.table is not None:
            (whole,) = one_block(self.table)
            rows = range(len(self.table))
            return (whole.part(rows[at : at + size])._replace(first=at) for at in rows[::size])
        if self.file is None:
            return read_given(self._texts, size, "text", may_be_empty=self.skipped is not None)
        return read_inputs(self.file, size, self.per_file, self.skipped)

    def words_of(self, block: Block, what: str = "text") -> Any:
        """Returns the texts of a block that is no table; DataError if one is empty, unless it is a line of a file."""
        return block.inputs if self.file is not None else with_words(cast(list[str], block.inputs), what, block.first)


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
    try:
        with Bar(what, "inputs") as bar, ExitStack() as contexts:
            prepared = ((block, prepare(block)) for block in contexts.enter_context(iterating(blocks)))
            if is_ahead:
                prepared = contexts.enter_context(closing(one_ahead(prepared)))
            for block, ready in prepared:

                def reached(part: int, of: int, block: Block = block) -> None:
                    bar(block.first + len(block.inputs) * part // of, block.total)

                result = work(ready, reached)
                bar.clear()
                yield result
                done = block.first + len(block.inputs)
    except DataError as error:
        if not done:
            raise
        before = "input before it was" if done == 1 else "inputs before it were"
        raise DataError(f"{error}\nThe {done} {before} processed.") from error


def readable(read: Callable[[Block], Columns], skipped: list[str] | None) -> Callable[[Block], Columns]:
    """Returns a function that reads the inputs of a block.

    Args:
        read: reads a block, or raises DataError; of no inputs only if all of them have its fault.
        skipped: the inputs that cannot be read are left out, and the reasons are added to it; None for an error, which
            names ``--on-error skip`` where that leaves some of them out.
    """

    def read_block(block: Block) -> Columns:
        try:
            return read(block)
        except DataError as error:
            try:
                read(block.part([]))
            except DataError:  # the fault of no single input, such as a column that is missing
                raise error from None
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
        if len(skipped) == 1:
            raise DataError(f"the only input was skipped: {skipped[0]}")
        raise DataError(f"all {len(skipped)} inputs were skipped; the first: {skipped[0]}")
