"""A file of rows, by its kind: CSV, TSV, JSON lines, Parquet."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from bertkit.corpus.documents import decode_lines, decode_pieces
from bertkit.corpus.row_files import MOST_ROWS_OF_A_BATCH, parquet_batches
from bertkit.corpus.text_files import JSON_LINES, PACKINGS, PARQUET, FileKind, file_kind, read_blocks, read_shares
from bertkit.errors import DataError
from bertkit.tables.arrow import read_batches
from bertkit.tables.delimited import COMMA, TAB, delimited_blocks
from bertkit.tables.json_lines import json_line_blocks
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
    """The table in a file; the end of its name says of which kind it is.

    ============  ==========================================================================================
    ``.csv``      RFC 4180: commas, quotes around fields that hold commas, line endings or (doubled) quotes
    ``.tsv``      as GLUE's files: tabs, quotes are plain characters, a row is a line
    ``.jsonl``    one JSON object a line
    ``.parquet``  one column of it for each column of the table
    ============  ==========================================================================================

    The first three are UTF-8, may begin with a byte order mark, have any line endings, and may also be packed as
    ``.gz`` or ``.zst``. What CSV and TSV hold is text exactly as it stands. The fingerprint is the start of the SHA-256
    of the file's bytes, unpacked.

    Args:
        path: the file; ``~`` is the home folder.
        columns: the names of the columns of a CSV or TSV file that has no header line.
        quoting: whether fields of a CSV or TSV file can be quoted; None follows the kind: CSV yes, TSV no.
        skip_ragged: leave out rows of a CSV or TSV file with another number of fields than the header, and count them
            in the table's ``skipped``; for published data that is known to have some.

    Raises:
        DataError: the file cannot be read, is of another kind, or is not what its name says; the message names all its
            faults, at most ten of them, with their lines and remedies.
    """
    path = Path(os.path.expanduser(path))
    kind = _kind_of(path)
    if kind.form not in _DELIMITERS and (columns is not None or quoting is not None or skip_ragged):
        raise DataError(
            f"{path}: names of columns, quoting and the skipping of ragged rows are for {CSV} and {TSV} files; "
            f"leave them out for {kind.form}"
        )
    (table,) = _parts(path, kind, _fingerprint(path, kind.packing), sys.maxsize, columns, quoting, skip_ragged)
    return table


def read_table_parts(path: str | Path, size: int, reached: Callable[[float], None]) -> Iterator[Table]:
    """The table in a file in parts of at most ``size`` rows, of which one is held in memory at a time.

    Rows keep the places that they have in the file; the fingerprint is left empty, since the file is read only once.

    Args:
        path: as for `read_table`.
        size: rows.
        reached: told from time to time which share of the file is read, in [0, 1].

    Raises:
        DataError: as `read_table`, when the parts before have been given; the faults of one part are named.
    """
    path = Path(os.path.expanduser(path))
    return _parts(path, _kind_of(path), "", size, reached=reached)


def _parts(
    path: Path,
    kind: FileKind,
    fingerprint: str,
    size: int,
    columns: Sequence[str] | None = None,
    quoting: bool | None = None,
    skip_ragged: bool = False,
    reached: Callable[[float], None] = lambda share: None,
) -> Iterator[Table]:
    source = str(path)
    if kind.form == PARQUET:
        return _parquet_parts(path, fingerprint, size, reached)
    # A packed file cannot be converted where it lies, so messages do not show how.
    file = None if kind.packing else path
    blocks = read_shares(path, kind.packing, reached)
    if kind.form == JSON_LINES:
        return json_line_blocks(decode_lines(blocks, source, file), source, fingerprint, size)
    return delimited_blocks(
        decode_pieces(blocks, source, file),
        source,
        fingerprint,
        size,
        delimiter=_DELIMITERS[kind.form],
        quoting=kind.form == CSV if quoting is None else quoting,
        columns=columns,
        skip_ragged=skip_ragged,
    )


def _parquet_parts(path: Path, fingerprint: str, size: int, reached: Callable[[float], None]) -> Iterator[Table]:
    batches = parquet_batches(path, str(path), reached)
    rows = 0
    while part := list(islice(batches, max(1, size // MOST_ROWS_OF_A_BATCH))):
        yield read_batches(part, str(path), fingerprint, rows)
        rows += sum(batch.num_rows for batch in part)
    if not rows:
        yield read_batches([], str(path), fingerprint)  # says that there are none


def is_table(path: str | Path) -> bool:
    """Whether a file is a table by the end of its name; `read_table` reads those."""
    return file_kind(Path(path).name, _FORMS) is not None


def _kind_of(path: Path) -> FileKind:
    kind = file_kind(path.name, _FORMS)
    if kind is None or (kind.form == PARQUET and kind.packing):
        raise DataError(
            f"{path}: this is no kind of table by its name; expected {CSV} (commas), {TSV} (tabs), {JSON_LINES} (one "
            f"JSON object a line), these also packed as {' or '.join(PACKINGS)}, or {PARQUET}; rename it if it is one"
        )
    return kind


def _fingerprint(path: Path, packing: str) -> str:
    digest = hashlib.sha256()
    for block in read_blocks(path, packing, lambda position: None):
        digest.update(block)
    return f"sha256:{digest.hexdigest()[:16]}"
