"""Reading of table files: CSV, TSV, JSON lines, Parquet."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import os
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bertkit.errors import DataError, raise_listed
from bertkit.reading.paths import JSON_LINES, PACKINGS, PARQUET, FileKind, file_kind
from bertkit.reading.row_files import parquet_batches
from bertkit.reading.text import decode_lines, decode_pieces, iterating, read_blocks, read_shares
from bertkit.tables.table import Table, repeated_names
from bertkit.tables.typed_rows import json_line_blocks, read_batches, read_json_lines

CSV, TSV = ".csv", ".tsv"
COMMA, TAB = ",", "\t"
_FORMS = (CSV, TSV, JSON_LINES, PARQUET)
_DELIMITERS = {CSV: COMMA, TSV: TAB}
_NAMES = {COMMA: "comma", TAB: "tab"}
_REMEDIES = {
    COMMA: "if commas separate its columns, name the file .csv",
    TAB: "if tabs separate its columns, name the file .tsv",
    ";": "if ';' separates its columns, save it with commas",
}
_LONGEST_FIELD = 2**31 - 1  # characters; the largest limit that the csv module accepts on every system

_Row = tuple[int, list[str]]  # first line, from 1; fields, none for a blank line


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


# ---- CSV and TSV: text is unchanged, and NA, None, null and an empty field are text ----------------------------------


def read_delimited(
    pieces: Iterable[str],
    source: str,
    fingerprint: str,
    *,
    delimiter: str,
    quoting: bool,
    columns: Sequence[str] | None = None,
    skip_ragged: bool = False,
) -> Table:
    r"""Reads a table from text whose first row has the column names.

    A column without a name is dropped: pandas writes row numbers to such a column. A blank line is skipped, except in a
    table of one column, where it is an empty text. A line ends with CRLF, LF or CR; within quotes these are part of the
    field.

    Args:
        pieces: pieces of the text, from `bertkit.reading.text.decode_pieces`.
        source: name of the text in messages.
        fingerprint: fingerprint of the table.
        delimiter: `COMMA` or `TAB`.
        quoting: True if a field may be quoted as in RFC 4180: it can then contain delimiters, line endings and doubled
            quotes. A quote within a field that does not start with one is a plain character. False: quotes are plain
            characters everywhere, and a row is a line.
        columns: column names of a text without a header row.
        skip_ragged: skip and count rows whose number of fields differs from the number of columns.

    Raises:
        DataError: there is no header or no row, no column has a name, columns share a name, a row has a wrong number of
            fields, or a quoted field does not end. The message lists the first ten faults with their lines.

    >>> table = read_delimited(['text,label\n"a, b",1\n'], "x.csv", "", delimiter=COMMA, quoting=True)
    >>> table.columns
    {'text': ['a, b'], 'label': ['1']}
    """
    (table,) = delimited_blocks(
        pieces,
        source,
        fingerprint,
        sys.maxsize,
        delimiter=delimiter,
        quoting=quoting,
        columns=columns,
        skip_ragged=skip_ragged,
    )
    return table


def delimited_blocks(
    pieces: Iterable[str],
    source: str,
    fingerprint: str,
    size: int,
    *,
    delimiter: str,
    quoting: bool,
    columns: Sequence[str] | None = None,
    skip_ragged: bool = False,
    may_be_empty: bool = False,
) -> Iterator[Table]:
    """Yields the table of `read_delimited` in parts of ``size`` rows; ``skipped`` is cumulative over the parts.

    With ``may_be_empty``, no text at all and a header without rows give no parts.

    Raises:
        DataError: as `read_delimited`, after the parts before the fault; the message lists the faults of one part.
    """
    faults: list[str] = []
    skipped: list[int] = []
    with iterating(pieces) as remaining:
        lines: Iterator[str] = (line for piece in remaining for line in io.StringIO(piece, newline=""))
        if may_be_empty:
            first = next(lines, None)
            if first is None:
                return
            lines = itertools.chain([first], lines)
        rows = _quoted_rows(lines, delimiter, source, faults) if quoting else _plain_rows(lines, delimiter)
        if columns is None:
            names = _header(rows, source, delimiter, faults)
            expected = f"where the header has {len(names)}"
        else:
            names = list(columns)
            expected = f"where {len(names)} column names are given"
            faults += _faults_of_names(names, f"{source}, the names given for its columns")
        remedy = f"; put quotes around a field that contains a {_NAMES[delimiter]}" if quoting else ""

        def even_rows() -> Iterator[_Row]:
            for line, fields in rows:
                if not fields:
                    if len(names) > 1:
                        continue
                    fields = [""]
                if len(fields) == len(names):
                    yield line, fields
                elif skip_ragged:
                    skipped.append(line)
                else:
                    counted = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                    more = remedy if len(fields) > len(names) else ""
                    faults.append(f"{source}, line {line}: {counted} {expected}{more}")

        is_empty, even = True, even_rows()
        while part := list(itertools.islice(even, size)):
            if faults:
                break
            is_empty = False
            values = {name: [fields[at] for _, fields in part] for at, name in enumerate(names) if name}
            yield Table(values, source, fingerprint, array("q", [line for line, _ in part]), skipped=len(skipped))
        if is_empty and not faults and not may_be_empty:
            left = f", but {len(skipped)} with a different number of fields" if skipped else ""
            faults.append(f"{source}: no rows{' after the header' if columns is None else ''}{left}")
    raise_listed(faults)


def _header(rows: Iterator[_Row], source: str, delimiter: str, faults: list[str]) -> list[str]:
    """Returns the column names; adds faults of individual names to ``faults``."""
    _, names = next(rows, (1, []))
    if not names:
        raise_listed(faults or [f"{source}, line 1: empty; expected a header line with the names of the columns"])
    other = next((other for other in _REMEDIES if other in names[0]), None)
    if len(names) == 1 and other not in (None, delimiter):
        raise DataError(f"{source}, line 1: no {_NAMES[delimiter]} in the header {names[0]!r}; {_REMEDIES[other]}")
    faults += _faults_of_names(names, f"{source}, line 1")
    return names


def _faults_of_names(names: Sequence[str], place: str) -> list[str]:
    named = list(filter(None, names))
    return repeated_names(named, place) if named else [f"{place}: none of the columns has a name; add names"]


def _plain_rows(lines: Iterable[str], delimiter: str) -> Iterator[_Row]:
    for number, ended in enumerate(lines, 1):
        line = ended.rstrip("\r\n")
        yield number, line.split(delimiter) if line else []


def _quoted_rows(lines: Iterable[str], delimiter: str, source: str, faults: list[str]) -> Iterator[_Row]:
    """Yields rows as in RFC 4180 up to the first unterminated quoted field, which is added to ``faults``."""
    # The limit is global to the process: lowering it again could interrupt a reader in another thread.
    csv.field_size_limit(_LONGEST_FIELD)
    of_row: list[str] = []
    reader = csv.reader(_noted(lines, of_row), delimiter=delimiter, strict=True)
    begins = 1
    try:
        for fields in reader:
            yield begins, fields
            begins = reader.line_num + 1
            of_row.clear()
    except csv.Error as error:
        opening = _opening(of_row, begins, delimiter)
        faults.append(
            f"{source}, line {opening}: a field begins with a quote here and does not end with one "
            f"(line {reader.line_num}: {error}); close it, and double the quotes within it"
        )


def _noted(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line


def _opening(of_row: Sequence[str], begins: int, delimiter: str) -> int:
    """Returns the line where the first unterminated field of a row starts."""
    whole_field = re.compile(rf'(?:"(?:[^"]++|"")*+"|[^"{delimiter}][^{delimiter}]*+)?{delimiter}')
    text, start = "".join(of_row), 0
    while field := whole_field.match(text, start):
        start = field.end()
    ends = itertools.accumulate(map(len, of_row))
    return begins + next(number for number, end in enumerate(ends) if end > start)
