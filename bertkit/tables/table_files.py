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
from dataclasses import replace
from pathlib import Path

from bertkit.errors import DataError, raise_listed
from bertkit.progress import counted
from bertkit.reading.paths import COMPRESSIONS, JSON_LINES, PARQUET, FileKind, file_kind
from bertkit.reading.row_files import parquet_batches
from bertkit.reading.text import decode_lines, decode_pieces, iterating, read_blocks, read_shares
from bertkit.tables.table import Table, repeated_names
from bertkit.tables.typed_rows import json_parts, read_batches

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
_FEW_VALUES = 256  # different values of a column, such as labels, that are kept once

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
    kind, source, digest = _kind_of(path), str(path), hashlib.sha256()
    if kind.form not in _DELIMITERS and (columns is not None or quoting is not None or skip_ragged):
        raise DataError(
            f"{path}: names of columns, quoting and the skipping of ragged rows are for {CSV} and {TSV} files; "
            f"remove them for {kind.form}"
        )
    blocks = _added(read_blocks(path, kind.compression), digest.update)
    if kind.form == PARQUET:
        for _ in blocks:
            pass
        table = read_batches(parquet_batches(path, source), source)
    elif kind.form == JSON_LINES:
        (table,) = json_parts(decode_lines(blocks, source), source)
    else:
        quoting = kind.form == CSV if quoting is None else quoting
        pieces, delimiter = decode_pieces(blocks, source), _DELIMITERS[kind.form]
        (table,) = delimited_parts(
            pieces, source, delimiter=delimiter, quoting=quoting, columns=columns, skip_ragged=skip_ragged
        )
    return replace(table, fingerprint=f"sha256:{digest.hexdigest()[:16]}")


def read_table_parts(path: str | Path, size: int, on_progress: Callable[[float], None]) -> Iterator[Table]:
    """Yields the table in a file in parts of at most ``size`` rows; one part is in memory at a time; none without rows.

    Rows keep their places in the file; the fingerprint is empty, since the file is read only once.

    Args:
        path: as for `read_table`.
        size: maximum number of rows of a part.
        on_progress: called with the share of the file that has been read, in [0, 1].

    Raises:
        DataError: as `read_table`, after the parts before the fault; the message lists the faults of one part.
    """
    path = Path(os.path.expanduser(path))
    kind, source = _kind_of(path), str(path)
    if kind.form == PARQUET:
        return _parquet_parts(path, size, on_progress)
    blocks = read_shares(path, kind.compression, on_progress)
    if kind.form == JSON_LINES:
        return json_parts(decode_lines(blocks, source), source, size, may_be_empty=True)
    pieces, delimiter = decode_pieces(blocks, source), _DELIMITERS[kind.form]
    return delimited_parts(pieces, source, size, delimiter=delimiter, quoting=kind.form == CSV, may_be_empty=True)


def _parquet_parts(path: Path, size: int, on_progress: Callable[[float], None]) -> Iterator[Table]:
    rows = 0
    with iterating(parquet_batches(path, str(path), on_progress)) as batches:
        for batch in batches:
            for at in range(0, batch.num_rows, size):
                yield read_batches([batch.slice(at, size)], str(path), rows + at)
            rows += batch.num_rows


def is_table(path: str | Path) -> bool:
    """Returns whether the suffix of a file is that of a table format."""
    return file_kind(Path(path).name, _FORMS) is not None


def _kind_of(path: Path) -> FileKind:
    kind = file_kind(path.name, _FORMS)
    if kind is None or (kind.form == PARQUET and kind.compression):
        raise DataError(
            f"{path}: unsupported table format; expected {CSV} (commas), {TSV} (tabs), {JSON_LINES} (one JSON object "
            f"per line), these also compressed as {' or '.join(COMPRESSIONS)}, or {PARQUET}; rename it if it is one"
        )
    return kind


def _added(blocks: Iterable[bytes], add: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yields blocks after each is added to a digest."""
    with iterating(blocks) as remaining:
        for block in remaining:
            add(block)
            yield block


# ---- CSV and TSV ----------------------------------------------------------------------------------------------------


def delimited_parts(
    pieces: Iterable[str],
    source: str,
    size: int = sys.maxsize,
    *,
    delimiter: str,
    quoting: bool,
    columns: Sequence[str] | None = None,
    skip_ragged: bool = False,
    may_be_empty: bool = False,
) -> Iterator[Table]:
    r"""Yields a table in parts of ``size`` rows, from text whose first row has the column names.

    Text is unchanged: ``NA``, ``None``, ``null`` and an empty field are text. A column without a name is dropped:
    pandas writes row numbers to such a column. A blank line is skipped, except in a table of one column, where it is an
    empty text. A line ends with CRLF, LF or CR; within quotes these are part of the field.

    Args:
        pieces: pieces of the text, from `bertkit.reading.text.decode_pieces`.
        source: name of the text in messages.
        size: rows of a part.
        delimiter: `COMMA` or `TAB`.
        quoting: True if a field may be quoted as in RFC 4180: it can then contain delimiters, line endings and doubled
            quotes. A quote within a field that does not start with one is a plain character. False: quotes are plain
            characters everywhere, and a row is a line.
        columns: column names of a text without a header row.
        skip_ragged: skip rows whose number of fields differs from the number of columns, and count them in ``skipped``
            of the table and of those before it.
        may_be_empty: no text at all and a header without rows give no parts.

    Raises:
        DataError: there is no header or no row, no column has a name, columns share a name, a row has a wrong number of
            fields, or a quoted field does not end; after the parts before the fault. The message lists the first ten
            faults of a part with their lines.

    >>> [table] = delimited_parts(['text,label\n"a, b",1\n'], "x.csv", delimiter=COMMA, quoting=True)
    >>> table.columns
    {'text': ['a, b'], 'label': ['1']}
    """
    faults: list[str] = []
    skipped: list[str] = []
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
        else:
            names = list(columns)
            faults += _faults_of_names(names, f"{source}, the names given for its columns")
        expected = f"the header has {len(names)}" if columns is None else f"{len(names)} column names are given"
        remedy = f"; put quotes around a field that contains a {_NAMES[delimiter]}" if quoting else ""
        uneven = skipped if skip_ragged else faults
        even = _even_rows(rows, len(names), source, (f" where {expected}", f" where {expected}{remedy}"), uneven)
        is_empty = True
        while len((part := _columns(itertools.islice(even, size), len(names)))[0]):
            if faults:
                break
            is_empty = False
            starts, fields = part
            values = {name: column for name, column in zip(names, fields, strict=True) if name}
            yield Table(values, source, "", starts, skipped=len(skipped))
        if is_empty and not faults and not may_be_empty:
            left = f", but {len(skipped)} with a different number of fields" if skipped else ""
            faults.append(f"{source}: no rows{' after the header' if columns is None else ''}{left}")
    raise_listed(faults)


def _columns(rows: Iterable[_Row], width: int) -> tuple[array[int], list[list[str]]]:
    """Returns the lines and the columns of rows; equal values of a column, such as labels, are one string if there are
    few of them."""
    lines, columns = array("q"), [[] for _ in range(width)]  # type: ignore[var-annotated]
    known: list[dict[str, str]] = [{} for _ in range(width)]
    for line, fields in rows:
        lines.append(line)
        for column, values, value in zip(columns, known, fields, strict=True):
            known_value = values.setdefault(value, value) if len(values) < _FEW_VALUES else values.get(value, value)
            column.append(known_value)
    return lines, columns


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


def _even_rows(
    rows: Iterable[_Row], width: int, source: str, expected: tuple[str, str], uneven: list[str]
) -> Iterator[_Row]:
    """Yields the rows of ``width`` fields; adds the faults of others to ``uneven``, with the ends that ``expected`` has
    for too few fields and for too many.
    """
    for line, fields in rows:
        if not fields and width > 1:
            continue
        fields = fields or [""]
        if len(fields) == width:
            yield line, fields
        else:
            uneven.append(f"{source}, line {line}: {counted(len(fields), 'field')}{expected[len(fields) > width]}")


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
