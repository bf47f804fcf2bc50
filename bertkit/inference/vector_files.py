"""Vectors of texts from arguments, a file, a table or a pipe, written to a file block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.columns import the_text_column
from bertkit.data.tables.labels import texts as texts_of_column
from bertkit.inference.embedding import TEXTS_AT_ONCE, TokenEmbeddings, Vectors, rows_of_vectors
from bertkit.inference.inputs import (
    BLOCK,
    Block,
    InputSource,
    listing_skipped,
    process_blocks,
    readable,
)
from bertkit.inference.loaded import load_embedder
from bertkit.inference.options import EmbedOptions, Pooling
from bertkit.inference.row_files import RowGroups, json_lines, vector_column
from bertkit.inference.writing import GrowingFile, check_growing_file
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import DataError, OutputError
from bertkit.runtime.files import readable_size
from bertkit.runtime.options import several
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import Reached, say, unreported

_MOST_TEXT_BYTES = 1 << 32  # of the array of texts in .npz


# One writer per format of vectors with ``size`` numbers: ``add`` writes those of the next texts; ``close`` ends the
# file so that it can be read, even after an interruption.


class JsonLinesVectors:
    """Writes one line per text."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        rows = [{"text": text, **row} for text, row in zip(texts, rows_of_vectors(vectors), strict=True)]
        if files is not None:
            rows = [{"file": file, **row} for file, row in zip(files, rows, strict=True)]
        with self._file.adding(len(rows)) as stream:
            stream.write(json_lines(rows).encode())

    def close(self) -> None:
        pass


class ParquetVectors:
    """Writes one row per text or per token; a block is a row group."""

    def __init__(self, file: GrowingFile, size: int):
        self._groups = RowGroups(file)
        self._size = size
        self._texts = 0

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        import pyarrow as pa

        if isinstance(vectors, np.ndarray):
            rows: dict[str, Any] = {"text": pa.array(texts, pa.string()), "embedding": vector_column(vectors)}
        else:
            columns = _join_tokens(vectors, self._texts, self._size)
            start, end = columns["offsets"].T
            rows = {"text": columns["text"], "token": columns["tokens"], "start": start, "end": end}
            rows["embedding"] = vector_column(columns["embeddings"])
        if files is not None:
            rows = {"file": pa.array(files, pa.string()), **rows}
        self._groups.add(pa.table(rows))
        self._texts += len(texts)

    def close(self) -> None:
        self._groups.close()


class NpzVectors:
    """Collects all arrays and writes them at the end; NumPy stores each text with the length of the longest one."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file
        self._size = size
        self._texts: list[str] = []
        self._files: list[str] = []
        self._vectors: list[Any] = []
        self._longest = 0

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        self._longest = max([self._longest, *map(len, texts)])
        count = len(self._texts) + len(texts)
        if (size := np.dtype((str, self._longest)).itemsize * count) > _MOST_TEXT_BYTES:
            raise OutputError(
                f"{self._file.path}: {count:,} texts would take {readable_size(size)}, since NumPy stores each with "
                f"the {self._longest:,} characters of the longest one; give --output FILE.parquet or FILE.jsonl"
            )
        self._texts += texts
        self._files += files or ()
        self._vectors.append(vectors)

    def close(self) -> None:
        if not self._vectors:
            return
        columns = {"texts": np.asarray(self._texts, dtype=str)}
        if isinstance(self._vectors[0], np.ndarray):
            columns["embeddings"] = np.concatenate(self._vectors)
        else:
            columns |= _join_tokens(list(chain.from_iterable(self._vectors)), 0, self._size)
        if self._files:
            columns["files"] = np.asarray(self._files, dtype=str)
        with self._file.adding(len(self._texts)) as stream:
            np.savez(stream, **columns)  # type: ignore[arg-type]


VECTOR_FILES: Mapping[str, type[JsonLinesVectors | ParquetVectors | NpzVectors]] = {
    ".npz": NpzVectors,
    ".parquet": ParquetVectors,
    ".jsonl": JsonLinesVectors,
}
"""Ending of a file of vectors → what writes it."""


def _join_tokens(texts: Sequence[TokenEmbeddings], first: int, size: int) -> dict[str, np.ndarray]:
    """Concatenates the tokens of texts, with the number of the text of each; ``first`` is that of the first text."""
    counts = np.asarray([len(each.tokens) for each in texts], np.int64)
    return {
        "text": np.repeat(np.arange(first, first + len(texts)), counts),
        "tokens": np.asarray([token for each in texts for token in each.tokens], dtype=str),
        "offsets": np.concatenate([np.zeros((0, 2), np.int64), *(each.offsets for each in texts)]),
        "embeddings": np.concatenate([np.zeros((0, size), np.float32), *(each.vectors for each in texts)]),
    }


def embed_texts(
    checkpoint: str | Path,
    output_file: str | Path,
    texts: Any = None,
    input_file: str | Path | None = None,
    text_column: str | None = None,
    pooling: Pooling | Literal["none"] | None = None,
    layers: Sequence[int] = (-1,),
    max_seq_length: int | None = None,
    stride: int | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    per_file: bool = False,
    on_error: Literal["stop", "skip"] = "stop",
) -> tuple[int, int]:
    """Writes the vectors of texts to a file, block by block in the order of the texts.

    The file is called ``FILE.partial`` until it is complete. Memory does not grow with the number of texts, except for
    ``.npz``, whose arrays are held in memory.

    With pooling each text is a row of ``text`` and ``embedding``; in ``.npz`` the arrays are ``texts`` (N) and
    ``embeddings`` (N, D). Without pooling: in ``.jsonl`` a line is a text with its ``tokens``, each of ``token``,
    ``start``, ``end`` and ``embedding``; in ``.parquet`` a row is a token with the number of its ``text`` from 0,
    among those that are not skipped; in ``.npz`` the arrays are ``texts`` (N), and ``text`` (T), ``tokens`` (T),
    ``offsets`` (T, 2) and ``embeddings`` (T, D) of all T tokens.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        output_file: a new file; its ending selects the format.
        texts: the texts themselves, or a table of pandas, polars, Arrow or ``datasets``, or rows as dictionaries; or
            ``None``. `bertkit.load` gives the vectors of a table as a table of its kind.
        input_file: a table, any other UTF-8 file of one text a line, ``-`` for stdin, or ``None``.
        text_column: of a table; unless given, one of a usual name, which is printed unless it is ``text``.
        pooling, layers, max_seq_length, stride: as for `bertkit.inference.loaded.LoadedCheckpoint.embed`.
        precision, revision, trust_remote_code: as for `bertkit.load`.
        per_file: ``input_file`` is a folder whose files are one text each, as for
            `bertkit.inference.files.predict_stream`. The results have ``file``, or in ``.npz`` ``files``; not without
            pooling.
        on_error: as for `bertkit.inference.files.predict_stream`.

    Returns:
        The number of texts and the length of their vectors.

    Raises:
        BertkitError: no input, two inputs, an output that exists or has an unknown ending, or an unusable checkpoint;
            or, after the blocks before it were written, an invalid input.

    Examples:
        ```python
        bertkit.embed("my-bert", "vectors.npz", texts=["a good film", "an awful plot"])
        vectors = numpy.load("vectors.npz")["embeddings"]  # 2, hidden size
        ```
    """
    if (texts is None) == (input_file is None):
        raise DataError("give texts as arguments, or a file of texts with --input (- for stdin)")
    output_file = Path(output_file)
    given = InputSource(texts, input_file, per_file, on_error, several(text_column))
    form = VECTOR_FILES.get(output_file.suffix.lower())
    if form is None:
        raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(VECTOR_FILES)}")
    check_growing_file(output_file, f"--output {output_file}")
    if given.per_file and pooling == "none":
        raise DataError(
            "--pooling none: is not for files of one text each, as those of --per-file, HTML and mails are; remove it, "
            f"or give {input_file} as a text file or a table"
        )
    blocks = given.blocks(TEXTS_AT_ONCE if pooling == "none" else BLOCK)
    said = {text_column or "text"}  # columns that need not be named

    def read(block: Block) -> tuple[list[str], list[str] | None]:
        inputs = block.inputs
        if not isinstance(inputs, Table):
            return given.words_of(block), None
        column = the_text_column(inputs, text_column)
        if column not in said:
            said.add(column)
            say(f"{inputs.source}: texts in {column!r}")
        return list(texts_of_column(inputs, column)), list(inputs.columns["file"]) if given.per_file else None

    read_what_can_be = readable(read, given.skipped)
    if given.table is not None and given.skipped is None:
        read_what_can_be(Block(given.table, 0, len(given.table)))  # reports all of its faults now
    embedder = load_embedder(at_revision(checkpoint, revision, trust_remote_code), precision)
    options = EmbedOptions(text_column, pooling, layers, max_seq_length, stride, precision)

    def embed(block: Block, on_progress: Reached) -> tuple[list[str], Vectors, list[str] | None]:
        of_block, files = read_what_can_be(block)
        return of_block, embedder.embed(of_block, options, on_progress), files

    count, size = 0, embedder.size(layers)
    with GrowingFile(output_file) as file, closing(form(file, size)) as writer:
        blocks_of_vectors = process_blocks(blocks, "embedding", embed)
        for of_block, vectors, files in listing_skipped(blocks_of_vectors, given.skipped, lambda block: len(block[0])):
            if of_block:  # else all inputs of the block were skipped
                writer.add(of_block, vectors, files)
                count += len(of_block)
        if not count:  # a file of no texts, with the columns or arrays of others
            writer.add(*embed(Block([], 0, 0), unreported))
    return count, size
