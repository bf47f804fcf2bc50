"""Vectors of texts on disk: ``.jsonl`` and ``.parquet`` are written block by block, ``.npz`` at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertkit.errors import DataError, OutputError
from bertkit.inference.embedding import TEXTS_AT_ONCE, Pooling, TokenEmbeddings
from bertkit.inference.inputs import BLOCK, Block, blocks_of, list_of_texts, process_blocks, read_inputs
from bertkit.inference.loaded import load
from bertkit.inference.writing import GrowingFile, check_growing_file
from bertkit.json_text import dumps
from bertkit.placement.inference import Precision
from bertkit.progress import Reached, unreported
from bertkit.tables import Table, is_table
from bertkit.tables.labels import texts as texts_of_column

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Vectors = np.ndarray | list[TokenEmbeddings]


def embed_texts(
    checkpoint: str | Path,
    output_file: Path,
    texts: Sequence[str] | None = None,
    input_file: Path | None = None,
    text_column: str | None = None,
    pooling: Pooling | Literal["none"] = "mean",
    layers: Sequence[int] = (-1,),
    max_seq_length: int | None = None,
    stride: int | None = None,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
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
        texts: the texts themselves, or ``None``.
        input_file: a table, any other UTF-8 file of one text a line, ``-`` for stdin, or ``None``.
        text_column: of a table; ``text`` unless given.
        pooling, layers, max_seq_length, stride: as for `bertkit.inference.loaded.LoadedCheckpoint.embed`.
        precision, revision, trust_remote_code: as for `bertkit.load`.

    Returns:
        The number of texts and the length of their vectors.

    Raises:
        BertkitError: no input, two inputs, an output that exists or has an unknown ending, or an unusable checkpoint;
            or, after the blocks before it were written, an invalid input.
    """
    if (texts is None) == (input_file is None):
        raise DataError("give texts as arguments, or a file of texts with --input (- for stdin)")
    form = _FORMS.get(output_file.suffix.lower())
    if form is None:
        raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(_FORMS)}")
    check_growing_file(output_file, f"--output {output_file}")
    if text_column is not None and input_file is not None and not is_table(input_file):
        raise DataError(f"--text-column {text_column}: {input_file} is not a table; remove it")
    at_once = TEXTS_AT_ONCE if pooling == "none" else BLOCK
    blocks = read_inputs(input_file, at_once) if input_file is not None else blocks_of(list_of_texts(texts), at_once)
    embedder = load(checkpoint, precision=precision, revision=revision, trust_remote_code=trust_remote_code).embedder

    def embed(block: Block, reached: Reached) -> tuple[list[str], Vectors]:
        inputs = block.inputs
        of_block = texts_of_column(inputs, text_column or "text") if isinstance(inputs, Table) else inputs
        if pooling == "none":
            return of_block, embedder.tokens(of_block, layers, max_seq_length, stride, reached)
        return of_block, embedder.pooled(of_block, pooling, layers, max_seq_length, stride, reached)

    count, size = 0, embedder.size(layers)
    with GrowingFile(output_file) as file, closing(form(file, size)) as writer:
        for of_block, vectors in process_blocks(blocks, "embedding", embed):
            writer.add(of_block, vectors)
            count += len(of_block)
        if not count:  # a file of no texts, with the columns or arrays of others
            writer.add(*embed(Block([], 0, 0), unreported))
    return count, size


# One writer per format, for vectors of ``size`` numbers: ``add`` writes those of the next texts; ``close`` ends the
# file so that it can be read, even after an interruption.


class _JsonLines:
    """Writes one line per text."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file

    def add(self, texts: Sequence[str], vectors: Vectors) -> None:
        lines = [
            dumps({"text": text, **_plain(each)}, ensure_ascii=False) for text, each in zip(texts, vectors, strict=True)
        ]
        with self._file.adding(len(texts)) as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        pass


def _plain(vectors: np.ndarray | TokenEmbeddings) -> dict[str, Any]:
    if isinstance(vectors, np.ndarray):
        # Nine digits distinguish every float32 from its neighbours.
        return {"embedding": [float(f"{number:.9g}") for number in vectors]}
    tokens = zip(vectors.tokens, vectors.offsets.tolist(), vectors.vectors, strict=True)
    return {
        "tokens": [{"token": token, "start": start, "end": end, **_plain(row)} for token, (start, end), row in tokens]
    }


class _Parquet:
    """Writes one row per text or per token; a block is a row group."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file
        self._size = size
        self._texts = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, texts: Sequence[str], vectors: Vectors) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if isinstance(vectors, np.ndarray):
            rows: dict[str, Any] = {"text": pa.array(texts, pa.string())}
            embeddings = vectors
        else:
            columns = _token_columns(vectors, self._texts, self._size)
            start, end = columns["offsets"].T
            rows = {"text": columns["text"], "token": columns["tokens"], "start": start, "end": end}
            embeddings = columns["embeddings"]
        ends = pa.array(np.arange(len(embeddings) + 1, dtype=np.int32) * embeddings.shape[1])
        table = pa.table({**rows, "embedding": pa.ListArray.from_arrays(ends, embeddings.ravel())})
        with self._file.adding(len(table)) as stream:
            self._writer = self._writer or pq.ParquetWriter(stream, table.schema)
            self._writer.write_table(table)
        self._texts += len(texts)

    def close(self) -> None:
        if self._writer is not None:
            with self._file.adding(0):
                self._writer.close()


class _Npz:
    """Collects all arrays and writes them at the end."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file
        self._size = size
        self._texts: list[str] = []
        self._vectors: list[Any] = []

    def add(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._texts += texts
        self._vectors.append(vectors)

    def close(self) -> None:
        if not self._vectors:
            return
        columns = {"texts": np.asarray(self._texts, dtype=str)}
        if isinstance(self._vectors[0], np.ndarray):
            columns["embeddings"] = np.concatenate(self._vectors)
        else:
            columns |= _token_columns(list(chain.from_iterable(self._vectors)), 0, self._size)
        with self._file.adding(len(self._texts)) as stream:
            np.savez(stream, **columns)  # type: ignore[arg-type]


_FORMS: dict[str, type[_JsonLines] | type[_Parquet] | type[_Npz]] = {
    ".npz": _Npz,
    ".parquet": _Parquet,
    ".jsonl": _JsonLines,
}


def _token_columns(texts: Sequence[TokenEmbeddings], first: int, size: int) -> dict[str, np.ndarray]:
    """Concatenates the tokens of texts, with the number of the text of each; ``first`` is that of the first text."""
    counts = np.asarray([len(each.tokens) for each in texts], np.int64)
    return {
        "text": np.repeat(np.arange(first, first + len(texts)), counts),
        "tokens": np.asarray([token for each in texts for token in each.tokens], dtype=str),
        "offsets": np.concatenate([np.zeros((0, 2), np.int64), *(each.offsets for each in texts)]),
        "embeddings": np.concatenate([np.zeros((0, size), np.float32), *(each.vectors for each in texts)]),
    }
