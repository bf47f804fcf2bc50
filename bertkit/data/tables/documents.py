"""Folders whose files are one text each: plain text, Markdown, HTML, and mails."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from unicodedata import normalize

from bertkit.data.tables.encodings import as_utf8, find_fault
from bertkit.data.tables.html import text_of_html
from bertkit.data.tables.table import Table, usual_column
from bertkit.data.tables.typed_rows import JSON
from bertkit.runtime.errors import DataError, noted, quoted, raise_all, raise_listed
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, say
from bertkit.runtime.reading.paths import JSON_LINES, PARQUET, XLSX, file_kind, files_below
from bertkit.runtime.reading.text import decode_text, read_blocks, split_lines

_NEVER_LINES = (".html", ".htm", ".eml")
FORMS = (".txt", ".md", *_NEVER_LINES)
_CHARSET = re.compile(  # not of UTF-16 and UTF-32, in which these bytes could not be read: browsers ignore them too
    rb"<meta\b[^>]{0,200}?\bcharset\s*=\s*[\"']?\s*(?!utf.?(?:16|32))([\w.:-]+)", re.IGNORECASE
)
_START_OF_PAGE = 1024  # bytes, in which browsers look for it
_OF_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030"}
_SEVEN_BITS = ("iso2022", "hz", "utf-7")  # encodings whose bytes are all ASCII, and so UTF-8
_METADATA = "metadata.csv"  # the name that the folders of ``datasets`` have for it
_FILE_NAMES = ("file_name", "file", "filename")
_TABLES = (".csv", ".tsv", JSON_LINES, JSON, PARQUET, XLSX)
_PART = re.compile(r"-\d+-of-\d+")  # of a table in several files, as those of the Hub


def is_document(path: Path) -> bool:
    """Returns whether a file is one text, and none with a text a line: HTML or a mail."""
    return path.suffix.lower() in _NEVER_LINES and path.is_file()


def document_parts(folder: Path, size: int, left_out: list[str] | None = None) -> Iterator[tuple[Table, float]]:
    """Yields the files of a folder and its subfolders as tables of ``file`` and ``text``, with the share that is read.

    The files are those that end in `FORMS`, sorted by their paths; others are counted on stderr, except for hidden
    ones. ``file`` is the path below the folder.

    Args:
        folder: the folder, or a single file.
        size: files of a table.
        left_out: receives the faults of files that cannot be read or have no text, which are left out then; None to
            refuse them.

    Raises:
        DataError: there are no such files, or some cannot be read, or have no text.
    """
    files, above = _find_files(folder), folder if folder.is_dir() else folder.parent
    for at in range(0, len(files), size):
        columns: dict[str, list[str]] = {"file": [], "text": []}
        faults: list[str] = []
        for path in files[at : at + size]:
            with noted(faults):
                columns["text"].append(read_document(path))
                name = os.fsencode(path.relative_to(above).as_posix())
                columns["file"].append(name.decode("utf-8", "backslashreplace"))  # names can have any bytes
        if left_out is None:
            raise_all(faults)
        else:
            left_out += faults
        yield Table(columns, str(folder), "", first_row=at, unit="file"), min(1.0, (at + size) / len(files))


def read_folder(folder: Path, read_table: Callable[[Path], Table], skip_faulty: bool = False) -> Table:
    """Reads a folder of documents as a table of ``file``, ``text`` and, where they are given, labels.

    The other columns are those of ``metadata.csv`` in the folder, if there is one: it has the path of each file below
    the folder in ``file_name``. Without it, the files of subfolders have the name of the first one in ``label``.

    Args:
        folder: the folder.
        read_table: reads the metadata.
        skip_faulty: leave out files that cannot be read or have no text, and count them in ``skipped`` of the table.

    Raises:
        DataError: as `document_parts`; the metadata lack a file, or have two rows for one; or only some files are in
            subfolders.
    """
    left_out: list[str] | None = [] if skip_faulty else None
    [(table, _)] = document_parts(folder, sys.maxsize, left_out)
    if not len(table):
        raise DataError(f"{folder}: none of its files has a text")
    names = list(table.columns["file"])
    has_metadata = (folder / _METADATA).is_file()
    others = _order_metadata(read_table(folder / _METADATA), names) if has_metadata else _label_by_folder(folder, names)
    columns = {**table.columns, **others}
    digest = hashlib.sha256(dumps(columns).encode()).hexdigest()
    return replace(table, columns=columns, fingerprint=f"sha256:{digest[:16]}", skipped=len(left_out or ()))


def _order_metadata(table: Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the columns of the metadata in the order of the documents ``names``."""
    file = table.source
    column = usual_column(list(table.columns), _FILE_NAMES)
    if column is None:
        raise DataError(f"{file}: no column file_name; it has {quoted(table.columns)}")
    rows: dict[str, int] = {}
    faults = [
        f"{table.place(row)}: a second row for the file {name!r}; keep one"
        for row, name in enumerate(table.columns[column])
        if rows.setdefault(normalize("NFC", str(name)), row) != row
    ]
    keys = [normalize("NFC", name) for name in names]  # macOS parts the accents of names from their letters
    raise_listed(faults + [f"{file}: no row for the file {name!r}" for name in keys if name not in rows])
    return {
        other: [values[rows[name]] for name in keys]
        for other, values in table.columns.items()
        if other not in (column, "file", "text")
    }


def _label_by_folder(folder: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the column of the labels, which are the first subfolders; no column without any."""
    labels = [name.partition("/")[0] if "/" in name else None for name in names]
    if not any(labels):
        return {}
    raise_listed(
        [
            f"{folder / name}: is in no subfolder, and subfolders are the labels; move it, or write {_METADATA}"
            for name, label in zip(names, labels, strict=True)
            if label is None
        ]
    )
    return {"label": labels}


def _find_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    faults: list[str] = []
    found = [path for path in files_below(folder, faults) if path != folder / _METADATA]
    raise_all(faults)
    files = [path for path in found if path.suffix.lower() in FORMS]
    others = [path for path in found if path.suffix.lower() not in FORMS]
    tables = [_PART.sub("-*", str(path)) for path in others if file_kind(path.name, _TABLES) is not None]
    if tables and all(path.stem.lower() == "readme" for path in files):  # which describes the tables
        raise DataError(f"{folder}: a folder of tables; give the file of one: {quoted(dict.fromkeys(tables), 5)}")
    if not files:
        raise DataError(f"{folder}: a folder that has no file that ends in {', '.join(FORMS)}")
    if others:
        kinds = sorted({path.suffix.lower() or "without suffix" for path in others})
        say(f"{folder}: {counted(len(others), 'other file')} passed over ({', '.join(kinds)})")
    return files


def read_document(path: Path) -> str:
    """Returns the text of a file; DataError if the file cannot be read, or has no text.

    Of HTML it is the text that is seen. Of a mail (``.eml``) it is the subject and the plain text, or without plain
    text that of its HTML; attachments are left out. Pages and mails that are not UTF-8 are read in the encoding that
    they declare.
    """
    data, form = b"".join(read_blocks(path, "")), path.suffix.lower()
    if form == ".eml":
        text = _read_mail(data, str(path))
    elif form in (".html", ".htm"):
        declared = _CHARSET.search(data, 0, _START_OF_PAGE)
        text = text_of_html(_decode(data, declared[1].decode() if declared else "", str(path)), str(path))
    else:
        text = _decode(data, "", str(path))
    if not text.strip():
        raise DataError(f"{path}: has no text; remove the file")
    return text.strip()


def _decode(data: bytes, declared: str, name: str) -> str:
    """Returns text that is not UTF-8 in the encoding that it declares, and other text as that of files, `as_utf8`."""
    with suppress(LookupError, ValueError):
        encoding = codecs.lookup(declared).name
        if encoding.startswith(_SEVEN_BITS) or find_fault(data) is not None:
            text = data.decode(_OF_BROWSERS.get(encoding, encoding))
            text.encode()  # some encodings have escapes of half a character
            return "\n".join(split_lines(text))
    return decode_text(b"".join(as_utf8([data], name)), name)


def _read_mail(data: bytes, name: str) -> str:
    mail = BytesParser(EmailMessage, policy=policy.default).parsebytes(data.removeprefix(codecs.BOM_UTF8))
    text = ""
    for kind in ("plain", "html"):  # beside HTML the plain text may be blank
        try:
            body = mail.get_body((kind,))
        except AttributeError as error:  # of the library, for a container of parts that has none
            raise DataError(f"{name}: a part of the mail lacks its own parts; save its text as .txt") from error
        if body is not None and not text.strip():
            content = body.get_payload(decode=True)
            assert isinstance(content, bytes)
            text = _decode(content, body.get_content_charset(""), f"{name}: the body")
            text = text_of_html(text, name) if kind == "html" else text
    try:
        subject = str(mail["subject"] or "")
        subject.encode()
    except UnicodeEncodeError as error:  # of the library too, for a subject in UTF-7
        raise DataError(f"{name}: its subject has half of a character; save its text as .txt") from error
    return "\n\n".join(filter(None, (subject.strip(), text.strip())))
