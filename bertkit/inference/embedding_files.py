"""Vectors of texts on disk: ``.npz``, ``.parquet`` or ``.jsonl``."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertkit.corpus.documents import decode_text, read_text
from bertkit.errors import DataError, OutputError
from bertkit.files import check_new_file, write_json_lines, write_whole
from bertkit.inference.embedding import Pooling, TokenEmbeddings
from bertkit.inference.loaded import load
from bertkit.tables import is_table, read_table
from bertkit.tables.labels import texts as texts_of_column

_FORMS = (".npz", ".parquet", ".jsonl")


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
) -> tuple[int, int]:
    """Writes the vectors of texts to a file, which appears when it is whole.

    With pooling a text is a row: ``text`` and ``embedding``; in ``.npz`` the arrays ``texts`` (N) and ``embeddings``
    (N, D). Without pooling a token is: in ``.jsonl`` a line is a text with its ``tokens``, each ``token``, ``start``,
    ``end`` and ``embedding``; in ``.parquet`` a row is a token, with the number of its ``text`` from 0; in ``.npz``
    there are ``texts`` (N), ``text`` (T), ``tokens`` (T), ``offsets`` (T, 2) and ``embeddings`` (T, D) of all T tokens.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        output_file: a new file; its ending says in which form.
        texts: the texts themselves, or ``None``.
        input_file: a table, any other UTF-8 file of one text a line, ``-`` for stdin, or ``None``.
        text_column: of a table; ``text`` unless given.
        pooling, layers, max_seq_length, stride: as for `bertkit.inference.loaded.LoadedCheckpoint.embed`.

    Returns:
        How many texts, and how long their vectors are.

    Raises:
        BertkitError: no input, two inputs, an output that exists or has an unknown ending, or an unusable checkpoint.
    """
    if bool(texts) == (input_file is not None):
        raise DataError("give texts as arguments, or a file of them with --input (- for a pipe)")
    if output_file.suffix.lower() not in _FORMS:
        raise OutputError(f"--output {output_file}: expected a name that ends in {', '.join(_FORMS)}")
    check_new_file(output_file, f"--output {output_file}")
    given = list(texts) if texts else read_texts(Path(str(input_file)), text_column)
    loaded = load(checkpoint)
    sizes: dict[str, Any] = {"layers": layers, "max_seq_length": max_seq_length, "stride": stride}
    if pooling == "none":
        of_tokens = loaded.embed(given, pooling="none", **sizes)
        _write(output_file, *_token_rows(of_tokens, output_file))
        return len(given), of_tokens[0].vectors.shape[1]
    vectors = loaded.embed(given, pooling=pooling, **sizes)
    columns = {"texts": np.asarray(given), "embeddings": vectors}
    _write(output_file, columns, [{"text": text, "embedding": row} for text, row in zip(given, vectors, strict=True)])
    return len(given), vectors.shape[1]


def read_texts(input_file: Path, text_column: str | None) -> list[str]:
    """The texts of a table's column, or of a file of one text a line; ``-`` is stdin.

    Raises:
        DataError: there are none, the file is not UTF-8, or the table has no such column.
    """
    if is_table(input_file):
        return texts_of_column(read_table(input_file), text_column or "text")
    if text_column is not None:
        raise DataError(f"--text-column {text_column}: {input_file} is no table; leave it out")
    pipe = str(input_file) == "-"
    text = decode_text(sys.stdin.buffer.read(), "standard input") if pipe else read_text(input_file)
    if not text:
        raise DataError(f"--input {input_file}: no texts in it")
    return text.removesuffix("\n").split("\n")


def _token_rows(
    found: Sequence[TokenEmbeddings], output_file: Path
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """The columns of ``.npz``, and the rows of the other forms."""
    counts = [len(each.tokens) for each in found]
    columns = {
        "texts": np.asarray([each.text for each in found]),
        "text": np.repeat(np.arange(len(found)), counts),
        "tokens": np.asarray([token for each in found for token in each.tokens]),
        "offsets": np.concatenate([each.offsets for each in found]),
        "embeddings": np.concatenate([each.vectors for each in found]),
    }
    tokens = [
        [
            {"token": token, "start": int(start), "end": int(end), "embedding": vector}
            for token, (start, end), vector in zip(each.tokens, each.offsets, each.vectors, strict=True)
        ]
        for each in found
    ]
    if output_file.suffix.lower() == ".jsonl":
        return columns, [{"text": each.text, "tokens": of_text} for each, of_text in zip(found, tokens, strict=True)]
    return columns, [{"text": number, **token} for number, of_text in enumerate(tokens) for token in of_text]


def _write(path: Path, columns: dict[str, np.ndarray], rows: list[dict[str, Any]]) -> None:
    form = path.suffix.lower()
    if form == ".jsonl":
        write_json_lines(path, [_plain(row) for row in rows])
        return
    written = io.BytesIO()
    if form == ".npz":
        np.savez(written, **columns)  # type: ignore[arg-type]
    else:
        import pyarrow
        import pyarrow.parquet

        names = list(rows[0])
        arrays = {name: pyarrow.array([row[name] for row in rows]) for name in names}
        pyarrow.parquet.write_table(pyarrow.table(arrays), written)
    write_whole(path, written.getvalue())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    # Nine digits tell every float32 from its neighbours.
    return [float(f"{number:.9g}") for number in value] if isinstance(value, np.ndarray) else value
