"""Reading of table files: CSV, TSV, JSON lines, Parquet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bertkit.errors import DataError
from bertkit.reading.row_files import parquet_batches
from bertkit.reading.text_files import (
    JSON_LINES,
    PACKINGS,
    PARQUET,
    FileKind,
    file_kind,
    iterating,
    read_blocks,
    read_shares,
)
from bertkit.reading.utf8 import decode_lines, decode_pieces
from bertkit.tables.arrow import read_batches
from bertkit.tables.delimited import COMMA, TAB, delimited_blocks, read_delimited
from bertkit.tables.json_rows import json_line_blocks, read_json_lines
from bertkit.tables.table import Table

CSV, TSV = ".csv", ".tsv"
_FORMS = (CSV, TSV, JSON_LINES, PARQUET)
_DELIMITERS = {CSV: COMMA, TSV: TAB}


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    quoting: bool | None = None,
    skip_ragged: bool = False,
) -> Table:
    """Reads the table in a file; the suffix selects the format.

    ============  ==========================================================================================
    ``.csv``      RFC 4180: commas, quotes around fields that hold commas, line endings or (doubled) quotes
    ``.tsv``      as GLUE's files: tabs, quotes are plain characters, a row is a line
    ``.jsonl``    one JSON object per line
    ``.parquet``  one Parquet column for each column of the table
    ============  ==========================================================================================

    The first three are UTF-8, with or without a byte order mark and with any line endings, and can be compressed as
    ``.gz`` or ``.zst``. Text of CSV and TSV is not changed. The fingerprint is the start of the SHA-256 of the
    decompressed bytes of the file.

    Args:
        path: path of the file; a leading ``~`` is the home folder.
        columns: column names of a CSV or TSV file without a header line.
        quoting: whether fields of a CSV or TSV file can be quoted; None for the default: True for CSV, False for TSV.
        skip_ragged: skip rows of a CSV or TSV file whose number of fields differs from that of the header, and count
            them in ``skipped`` of the table; for published data that is known to have such rows.

    Raises:
        DataError: the file cannot be read, has an unsupported format, or is not valid in its format; the message lists
            at most ten faults with their lines and remedies.
    """
    path = Path(os.path.expanduser(path))
    kind = _kind_of(path)
    if kind.form not in _DELIMITERS and (columns is not None or quoting is not None or skip_ragged):
        raise DataError(
            f"{path}: names of columns, quoting and the skipping of ragged rows are for {CSV} and {TSV} files; "
            f"remove them for {kind.form}"
        )
    source, fingerprint = str(path), _fingerprint(path, kind.packing)
    if kind.form == PARQUET:
        return read_batches(parquet_batches(path, source, lambda share: None), source, fingerprint)
    if kind.form == JSON_LINES:
        return read_json_lines(decode_lines(_blocks(path, kind.packing), source), source, fingerprint)
    return read_delimited(
        decode_pieces(_blocks(path, kind.packing), source),
        source,
        fingerprint,
        delimiter=_DELIMITERS[kind.form],
        quoting=kind.form == CSV if quoting is None else quoting,
        columns=columns,
        skip_ragged=skip_ragged,
    )


def read_table_parts(path: str | Path, size: int, reached: Callable[[float], None]) -> Iterator[Table]:
    """Yields the table in a file in parts of at most ``size`` rows; one part is in memory at a time; none without rows.

    Rows keep their places in the file; the fingerprint is empty, since the file is read only once.

    Args:
        path: as for `read_table`.
        size: maximum number of rows of a part.
        reached: called with the share of the file that has been read, in [0, 1].

    Raises:
        DataError: as `read_table`, after the parts before the fault; the message lists the faults of one part.
    """
    path = Path(os.path.expanduser(path))
    kind, source = _kind_of(path), str(path)
    if kind.form == PARQUET:
        return _parquet_parts(path, size, reached)
    blocks = read_shares(path, kind.packing, reached)
    if kind.form == JSON_LINES:
        return json_line_blocks(decode_lines(blocks, source), source, "", size, may_be_empty=True)
    pieces = decode_pieces(blocks, source)
    quoting, delimiter = kind.form == CSV, _DELIMITERS[kind.form]
    return delimited_blocks(pieces, source, "", size, delimiter=delimiter, quoting=quoting, may_be_empty=True)


def _parquet_parts(path: Path, size: int, reached: Callable[[float], None]) -> Iterator[Table]:
    rows = 0
    with iterating(parquet_batches(path, str(path), reached)) as batches:
        for batch in batches:
            for at in range(0, batch.num_rows, size):
                yield read_batches([batch.slice(at, size)], str(path), "", rows + at)
            rows += batch.num_rows


def is_table(path: str | Path) -> bool:
    """Returns whether the suffix of a file is that of a table format."""
    return file_kind(Path(path).name, _FORMS) is not None


def _kind_of(path: Path) -> FileKind:
    kind = file_kind(path.name, _FORMS)
    if kind is None or (kind.form == PARQUET and kind.packing):
        raise DataError(
            f"{path}: unsupported table format; expected {CSV} (commas), {TSV} (tabs), {JSON_LINES} (one JSON object "
            f"per line), these also compressed as {' or '.join(PACKINGS)}, or {PARQUET}; rename it if it is one"
        )
    return kind


def _blocks(path: Path, packing: str) -> Iterator[bytes]:
    return read_blocks(path, packing, lambda position: None)


def _fingerprint(path: Path, packing: str) -> str:
    digest = hashlib.sha256()
    for block in _blocks(path, packing):
        digest.update(block)
    return f"sha256:{digest.hexdigest()[:16]}"
