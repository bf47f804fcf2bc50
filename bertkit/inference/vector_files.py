"""Vectors of texts from arguments, a file, a table or a pipe, written to a file block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from bertkit.errors import DataError, OutputError
from bertkit.inference.embedding import TEXTS_AT_ONCE, Vectors
from bertkit.inference.inputs import BLOCK, Block, blocks_of, list_of_texts, one_block, process_blocks, read_inputs
from bertkit.inference.loaded import load
from bertkit.inference.pooling import Pooling
from bertkit.inference.skipping import listing_skipped, readable
from bertkit.inference.writing import VECTOR_FILES, GrowingFile, check_growing_file
from bertkit.placement.inference import Precision
from bertkit.progress import Reached, say, unreported
from bertkit.tables import Table, is_table
from bertkit.tables.columns import the_text_column
from bertkit.tables.documents import is_document
from bertkit.tables.labels import texts as texts_of_column
from bertkit.tables.objects import kind_of_table, table_of


def embed_texts(
    checkpoint: str | Path,
    output_file: str | Path,
    texts: Sequence[str] | None = None,
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
    ``start``, ``end`` and ``embedding``; in ``.parquet`` a row is a token with the number of its ``text`` from 0; in
    ``.npz`` the arrays are ``texts`` (N), and ``text`` (T), ``tokens`` (T), ``offsets`` (T, 2) and ``embeddings``
    (T, D) of all T tokens.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        output_file: a new file; its ending selects the format.
        texts: the texts themselves, or a table of pandas, polars, Arrow or ``datasets``, or rows as dictionaries; or
            ``None``. `bertkit.load` gives predictions for a table as a table of its kind.
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
    output_file, input_file = Path(output_file), None if input_file is None else Path(input_file)
    form = VECTOR_FILES.get(output_file.suffix.lower())
    if form is None:
        raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(VECTOR_FILES)}")
    check_growing_file(output_file, f"--output {output_file}")
    if text_column is not None and input_file is not None and not is_table(input_file):
        raise DataError(f"--text-column {text_column}: {input_file} is not a table; remove it")
    at_once = TEXTS_AT_ONCE if pooling == "none" else BLOCK
    skipped: list[str] | None = None if on_error == "stop" else []
    per_file = per_file or (input_file is not None and is_document(input_file))
    if per_file and (input_file is None or pooling == "none"):
        raise DataError("--per-file: is for a folder of files, given with --input, and for one vector of each file")
    if input_file is not None:
        blocks = read_inputs(input_file, at_once, per_file, skipped)
    elif kind_of_table(texts) is not None:
        blocks = one_block(table_of(texts))
    else:
        blocks = blocks_of(list_of_texts(texts), at_once)
    embedder = load(checkpoint, precision=precision, revision=revision, trust_remote_code=trust_remote_code).embedder
    read = readable(_reader(text_column, per_file), skipped)

    def embed(block: Block, on_progress: Reached) -> tuple[list[str], Vectors, list[str] | None]:
        of_block, files = read(block)
        return of_block, embedder.embed(of_block, pooling, layers, max_seq_length, stride, on_progress), files

    count, size = 0, embedder.size(layers)
    with GrowingFile(output_file) as file, closing(form(file, size)) as writer:
        blocks_of_vectors = process_blocks(blocks, "embedding", embed)
        for of_block, vectors, files in listing_skipped(blocks_of_vectors, skipped, lambda block: len(block[0])):
            if of_block:  # else all inputs of the block were skipped
                writer.add(of_block, vectors, files)
                count += len(of_block)
        if not count:  # a file of no texts, with the columns or arrays of others
            writer.add(*embed(Block([], 0, 0), unreported))
    return count, size


def _reader(text_column: str | None, per_file: bool) -> Callable[[Block], tuple[list[str], list[str] | None]]:
    """Returns a function that gives the texts of a block, and the paths of their files if each is a file.

    The column of a table is printed once unless it is ``text`` or the given one.
    """
    said = {text_column or "text"}

    def read(block: Block) -> tuple[list[str], list[str] | None]:
        inputs = block.inputs
        if not isinstance(inputs, Table):
            return inputs, None
        column = the_text_column(inputs, text_column)
        if column not in said:
            said.add(column)
            say(f"{inputs.source}: texts in {column!r}")
        return list(texts_of_column(inputs, column)), list(inputs.columns["file"]) if per_file else None

    return read
