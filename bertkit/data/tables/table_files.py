"""Reading of table files: CSV, TSV, JSON lines, Parquet, Excel."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.data.reading.row_files import parquet_batches
from bertkit.data.tables.delimited import COMMA, NAMES, TAB, delimited_parts, find_delimiter
from bertkit.data.tables.encodings import as_utf8
from bertkit.data.tables.sheets import sheet_parts
from bertkit.data.tables.table import ROWS_AT_ONCE, Table
from bertkit.data.tables.typed_rows import JSON, batches_parts, json_parts, read_json_list
from bertkit.runtime.errors import DataError, quoted, raise_all
from bertkit.runtime.progress import say
from bertkit.runtime.reading.paths import (
    COMPRESSIONS,
    JSON_LINES,
    PARQUET,
    XLSX,
    FileKind,
    file_kind,
    find_files,
    was_url,
    workbook_and_sheet,
)
from bertkit.runtime.reading.text import decode_lines, decode_pieces, iterating, read_blocks, read_shares

if TYPE_CHECKING:
    import pyarrow as pa

CSV, TSV = ".csv", ".tsv"
FORMS = (CSV, TSV, JSON_LINES, PARQUET, XLSX)
NEVER_PACKED = (PARQUET, XLSX, JSON)
_START = 1000  # bytes of a file that are looked at
DELIMITERS = {CSV: COMMA, TSV: TAB}
_OTHER_SHEETS = {
    ".xls": "Excel's older format",
    ".ods": "a spreadsheet of OpenDocument",
    ".xlsb": "Excel's binary format",
}


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    quoting: bool | None = None,
    skip_ragged: bool = False,
) -> Table:
    """Reads the table in a file; the suffix selects the format.

    ============  ==========================================================================================
    ``.csv``      RFC 4180: quotes around fields that hold separators, line endings or (doubled) quotes
    ``.tsv``      as GLUE's files: tabs, quotes are plain characters, a row is a line
    ``.jsonl``    one JSON object per line
    ``.json``     a list of JSON objects
    ``.parquet``  one Parquet column for each column of the table; ``data/train-*.parquet`` is all of these files
    ``.xlsx``     a sheet of Excel, ``reviews.xlsx#Sheet1`` where there are several; see `sheet_parts`
    a folder      of ``.txt``, ``.md``, ``.html`` and ``.eml``, a row per file; see `bertkit.data.tables.documents`
    ============  ==========================================================================================

    The columns of CSV and TSV are separated by what separates the names of the header: commas, tabs, semicolons or
    vertical bars. The first four formats are UTF-8, with or without a byte order mark and with any line endings; text
    in Windows-1252 and UTF-16 is recognised. The first three can be compressed as ``.gz`` or ``.zst``. A separator or
    an encoding that is not the usual one is printed. Text of CSV and TSV is not changed. The fingerprint is the start
    of the SHA-256 of the decompressed bytes of the file, for Excel with the name of the sheet.

    Args:
        path: path of the file; a leading ``~`` is the home folder.
        columns: column names of a CSV or TSV file without a header line.
        quoting: whether fields of a CSV or TSV file can be quoted; None for the default: not for columns of a TSV file
            that tabs separate.
        skip_ragged: skip rows of a CSV or TSV file whose number of fields differs from that of the header, and count
            them in ``skipped`` of the table; for published data that is known to have such rows. Of a folder, files
            that cannot be read or have no text.

    Raises:
        DataError: the file cannot be read, has an unsupported format, or is not valid in its format; the message lists
            at most ten faults with their lines and remedies.
    """
    if not str(path):  # an unset variable of a shell; as a path it would be the current folder
        raise DataError("'' is not the name of a file or folder; give one")
    if was_url(path):
        raise DataError(f"{path}: is a URL; download the file, and give its path")
    path = Path(os.path.expanduser(path))
    is_folder = os.path.isdir(path)  # False for names that are too long
    kind = FileKind("a folder", "") if is_folder else _kind_of(path)
    if kind.form not in DELIMITERS and (columns is not None or quoting is not None or (skip_ragged and not is_folder)):
        raise DataError(
            f"{path}: names of columns, quoting and the skipping of ragged rows are for {CSV} and {TSV} files; "
            f"remove them for {kind.form}"
        )
    if is_folder:
        from bertkit.data.tables.documents import read_folder

        return read_folder(path, read_table, skip_ragged)
    source, digest = str(path), hashlib.sha256()
    left_out: list[str] | None = [] if skip_ragged else None
    if kind.form == JSON:
        return read_json_list(path)
    files = [Path(workbook_and_sheet(path)[0])]
    if kind.form == PARQUET and "*" in path.name and not os.path.exists(path):
        faults: list[str] = []
        files = find_files(source, faults)
        raise_all(faults)
    blocks = _add_to_digest(chain.from_iterable(read_blocks(file, kind.compression) for file in files), digest.update)
    if kind.form in NEVER_PACKED:
        for _ in blocks:
            pass
        if kind.form == PARQUET:
            parts = batches_parts(_join_batches(files), source, ROWS_AT_ONCE)
        else:
            parts = sheet_parts(path, ROWS_AT_ONCE)
    elif kind.form == JSON_LINES:
        parts = json_parts(decode_lines(as_utf8(blocks, source), source), source, ROWS_AT_ONCE)
    else:
        parts = _read_delimited(
            blocks, source, kind.form, quoting=quoting, columns=columns, left_out=left_out, size=ROWS_AT_ONCE
        )
    table = whole(parts)
    if kind.form == XLSX:
        digest.update(table.source.removeprefix(str(files[0])).encode())
    return replace(table, fingerprint=f"sha256:{digest.hexdigest()[:16]}", skipped=len(left_out or ()))


def _read_delimited(
    blocks: Iterable[bytes],
    source: str,
    form: str,
    *,
    size: int,
    quoting: bool | None = None,
    columns: Sequence[str] | None = None,
    may_be_empty: bool = False,
    left_out: list[str] | None = None,
) -> Iterator[Table]:
    """Yields the parts of a CSV or TSV file; arguments as of `delimited_parts`. Prints a separator that is unusual."""
    with iterating(decode_pieces(as_utf8(blocks, source), source)) as pieces:
        start = next(pieces, "")
        usual = DELIMITERS[form]
        delimiter = usual if columns is not None else find_delimiter(start, usual)
        if delimiter != usual:
            say(f"{source}: columns are separated by {NAMES[delimiter]}s")
        yield from delimited_parts(
            chain([start], pieces),
            source,
            size,
            delimiter=delimiter,
            quoting=(form == CSV or delimiter != TAB) if quoting is None else quoting,
            columns=columns,
            may_be_empty=may_be_empty,
            left_out=left_out,
        )


def read_table_parts(
    path: str | Path, size: int, on_progress: Callable[[float], None], left_out: list[str] | None = None
) -> Iterator[Table]:
    """Yields the table in a file in parts of at most ``size`` rows; one part is in memory at a time; none without rows.

    Rows keep their places in the file; the fingerprint is empty, since the file is read only once. A ``.json`` file is
    one part, with its fingerprint, and refused without rows.

    Args:
        path: one file, as for `read_table`; no pattern or folder.
        size: maximum number of rows of a part.
        on_progress: called with the share of the file that has been read, in [0, 1]; not for ``.json``.
        left_out: receives the faults of rows of CSV and TSV with a wrong number of fields, which are skipped then;
            None to refuse them.

    Raises:
        DataError: as `read_table`, after the parts before the fault; the message lists the faults of one part.
    """
    path = Path(os.path.expanduser(path))
    kind, source = _kind_of(path), str(path)
    if kind.form == PARQUET:
        return batches_parts(parquet_batches(path, source, on_progress), source, size, may_be_empty=True)
    if kind.form == XLSX:
        return sheet_parts(path, size, on_progress, may_be_empty=True)
    if kind.form == JSON:
        return iter([read_json_list(path)])
    blocks = read_shares(path, kind.compression, on_progress)
    if kind.form == JSON_LINES:
        return json_parts(decode_lines(as_utf8(blocks, source), source), source, size, may_be_empty=True)
    return _read_delimited(blocks, source, kind.form, size=size, may_be_empty=True, left_out=left_out)


def is_table(path: str | Path) -> bool:
    """Returns whether the suffix of a file is that of a table format."""
    return file_kind(Path(workbook_and_sheet(path)[0]).name, (*FORMS, JSON)) is not None


def _kind_of(path: Path) -> FileKind:
    """Returns the format of a table file by its name; DataError for others, and for a page of a web site."""
    file = Path(workbook_and_sheet(path)[0])
    kind = file_kind(file.name, (*FORMS, JSON))
    if kind is None or (kind.form in NEVER_PACKED and kind.compression):
        suffix, remedy = path.suffix.lower(), "rename it if it is one"
        if suffix in _OTHER_SHEETS:
            remedy = f"{suffix} is {_OTHER_SHEETS[suffix]}: save it as {XLSX} or {CSV}"
        raise DataError(
            f"{path}: unsupported table format; expected {CSV}, {TSV}, {JSON_LINES} (one JSON object per line), these "
            f"also compressed as {' or '.join(COMPRESSIONS)}, {JSON} (a list of objects), {PARQUET}, or {XLSX}; "
            f"{remedy}"
        )
    if os.path.isfile(file):  # not a pipe, of which nothing may be lost
        start = next(read_blocks(file, "", block_size=_START), b"")
        if start.removeprefix(codecs.BOM_UTF8).lstrip().lower().startswith((b"<!doctype html", b"<html")):
            raise DataError(
                f"{file}: a page of a web site (HTML), not a table; download the file itself, such as by the link "
                "'Download' or 'Raw' of the page, and log in first if it asks for that"
            )
    return kind


def _join_batches(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of Parquet files one after the other.

    Raises:
        DataError: a file cannot be read, or its columns differ from those of the first.
    """
    schema = None
    for file in files:
        with iterating(parquet_batches(file, str(file))) as batches:
            for batch in batches:
                schema = schema or batch.schema
                if not batch.schema.equals(schema):
                    written = (
                        quoted(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in each)
                        for each in (batch.schema, schema)
                    )
                    raise DataError(
                        f"{file}: its columns differ from those of {files[0]}: {' in place of '.join(written)}"
                    )
                yield batch


def _add_to_digest(blocks: Iterable[bytes], add: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yields blocks after each is added to a digest."""
    with iterating(blocks) as remaining:
        for block in remaining:
            add(block)
            yield block


def whole(parts: Iterator[Table]) -> Table:
    """Returns the table of parts in the order of their rows; text of several parts is stored on disk.

    Raises:
        OutputError: the disk is full.
    """
    first = next(parts)
    second = next(parts, None)
    if second is None:
        return first
    from bertkit.data.tables.stored_columns import join_parts  # few tables are that large

    return join_parts(chain([first, second], parts))
