"""Tables from files and folders, whatever their form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bertkit.data.tables.documents import read_folder
from bertkit.data.tables.table import Table
from bertkit.data.tables.table_files import read_table_file


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
    vertical bars. The first three formats are UTF-8, with or without a byte order mark and with any line endings, and
    can be compressed as ``.gz`` or ``.zst``; text in Windows-1252 and UTF-16 is recognised. A separator or an encoding
    that is not the usual one is printed. Text of CSV and TSV is not changed. The fingerprint is the start of the
    SHA-256 of the decompressed bytes of the file.

    Args:
        path: path of the file; a leading ``~`` is the home folder.
        columns: column names of a CSV or TSV file without a header line.
        quoting: whether fields of a CSV or TSV file can be quoted; None for the default: not for columns of a TSV file
            that tabs separate.
        skip_ragged: skip rows of a CSV or TSV file whose number of fields differs from that of the header, and count
            them in ``skipped`` of the table; for published data that is known to have such rows. Of a folder, files
            without a text.

    Raises:
        DataError: the file cannot be read, has an unsupported format, or is not valid in its format; the message lists
            at most ten faults with their lines and remedies.
    """
    path = Path(os.path.expanduser(path))
    return (
        read_folder(path, skip_ragged)
        if path.is_dir()
        else read_table_file(path, columns=columns, quoting=quoting, skip_ragged=skip_ragged)
    )
