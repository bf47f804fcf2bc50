"""Folders, patterns and URLs → files → shards, which are ranges of rows of one file.

Paths are those of `fsspec`: local ones, or URLs such as ``s3://bucket/reviews/*.parquet``. The shards depend on the
files and on the number of rows per shard only, never on the number of workers.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bertkit.data.tables import table_files
from bertkit.data.tables.delimited import NAMES
from bertkit.features.scaling.rows import find_layout, open_rows, parquet_rows, raw_rows, sheet_rows
from bertkit.runtime.errors import DataError, OutputError
from bertkit.runtime.progress import counted, say
from bertkit.runtime.reading.paths import (
    COMPRESSIONS,
    PARQUET,
    TEXT,
    XLSX,
    FileKind,
    file_kind,
    filesystem,
    is_below,
    is_hidden,
    is_url,
    workbook_and_sheet,
)

FORMS = (*table_files.FORMS, TEXT)
_SIGNS = "*?["  # of patterns
_STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class InputFile:
    """A file of the input.

    Attributes:
        path: path or URL by which it is opened and which messages show.
        relative: its path below the folder of the input, with slashes; also the start of the names of its outputs.
        form: suffix of its format, one of `FORMS`.
        packing: suffix of its compression, or empty.
        size: bytes, as stored; 0 where the store does not say.
        stamp: what changes with its content: an object store's checksum, or the time of the last change; empty where
            there is neither.
    """

    path: str
    relative: str
    form: str
    packing: str
    size: int
    stamp: str


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of one file: the unit of work, whose result is one file.

    Attributes:
        file: the file.
        number: of the shard in its file, from 0.
        rows: number of rows, those that cannot be read among them.
        first_row: rows of the file before them.
        offset: bytes of the decompressed file in UTF-8 before them; 0 for Parquet and Excel, which are read by row
            numbers.
        first_line: lines of the file before them; 0 for Parquet and Excel.
        columns: column names of CSV and TSV, from the header of the file; empty for other formats.
        delimiter: separator of the columns of CSV and TSV; empty for other formats.
        is_recoded: the text of the file is not UTF-8.
    """

    file: InputFile
    number: int
    rows: int
    first_row: int
    offset: int = 0
    first_line: int = 0
    columns: tuple[str, ...] = ()
    delimiter: str = ""
    is_recoded: bool = False

    @property
    def is_read_on(self) -> bool:
        """Returns whether shards after one another are read from one opening of the file, and not each at its place."""
        return bool(self.file.packing) or self.is_recoded or self.file.form in (PARQUET, XLSX)

    @property
    def name(self) -> str:
        """Returns the name of its results, without the suffix of their format.

        >>> Shard(InputFile("/in/a/x.csv", "a/x.csv", ".csv", "", 9, ""), number=2, rows=5, first_row=10).name
        'a/x.csv.000002'
        """
        return f"{self.file.relative}.{self.number:06d}"

    @staticmethod
    def from_json(described: dict[str, Any]) -> Shard:
        """Returns the shard that ``dataclasses.asdict`` described."""
        return Shard(**{**described, "file": InputFile(**described["file"]), "columns": tuple(described["columns"])})


def find_inputs(source: str, output: str | None = None) -> tuple[list[InputFile], str]:
    """Returns the files that a path, a pattern or a URL of either names, sorted by their relative paths.

    A folder stands for all files below it in one of `FORMS`. Other files, hidden names (`is_hidden`) and what is no
    regular file, such as a pipe, are passed over and counted. A pattern (``*``, ``?``, ``[abc]``, ``**``) stands for
    the files that it matches and those below the folders that it matches. ``FILE.xlsx#SHEET`` is a sheet.

    Args:
        source: path, pattern or URL.
        output: the output folder, which may lie in the folder of the input: files below it do not count.

    Returns:
        The files, and a part of a message with the numbers of those passed over by their suffix or another reason:
        "3 files passed over: 2 .json, 1 hidden"; empty if there are none.

    Raises:
        DataError: there are none, a folder cannot be listed, or a name leads out of the folder.
        OutputError: all of them are in the output folder.
    """
    from fsspec.implementations.local import LocalFileSystem

    workbook, sheet = workbook_and_sheet(source)
    name = "" if sheet is None else f"#{sheet}"
    fs, path = filesystem(workbook, f"--input {source}")
    try:
        listing, base = _list_files(fs, path)
    except Exception as error:  # clients of object stores have exceptions of their own, which fsspec passes on
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise DataError(f"--input {source}: cannot be listed: {reason}") from error
    files = []
    reasons: Counter[str] = Counter()
    is_in_output = False
    held, inside = (None, "") if output is None else filesystem(output, f"--output-dir {output}")
    root = base
    if isinstance(fs, LocalFileSystem):  # one of them may be given by a link
        root, inside = base and os.path.realpath(base), os.path.realpath(inside)
    for place, info in sorted(listing.items()):
        relative = place[len(base) :].lstrip("/")
        url = fs.unstrip_protocol(place) if is_url(source) else place
        if held == fs and (root + place[len(base) :]).startswith(f"{inside}/"):  # one may be a URL, the other a path
            is_in_output = True
            continue
        if not is_below(relative):  # stores of objects take any name, and results are written under these names
            raise DataError(f"--input {source}: {url!r} has a name that leads out of the folder; rename it")
        kind = file_kind(place.rsplit("/", 1)[-1], FORMS)
        is_left_out = place != path and any(map(is_hidden, relative.split("/")))
        reason = "hidden" if is_left_out else _explain_passing_over(relative, kind, info)
        if reason or kind is None:
            reasons[reason] += 1
            continue
        stamp = next((str(info[key]) for key in _STAMPS if info.get(key) is not None), "")
        if info.get("islink"):  # a listing has the time of the link, which stays when its file changes
            with suppress(OSError):
                stamp = str(os.stat(str(info["name"])).st_mtime)
        files.append(InputFile(url + name, relative + name, *kind, int(info.get("size") or 0), stamp))
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    passed_over = f"{counted(reasons.total(), 'file')} passed over: {parts}" if parts else ""
    if not files and is_in_output:
        raise OutputError(f"--output-dir {output}: holds the input {source}; give a new folder")
    if not listing and not any(sign in path for sign in _SIGNS):
        if isinstance(fs, LocalFileSystem) and os.path.exists(path) and not os.path.isdir(path):
            raise DataError(f"--input {source}: no regular file, but a pipe or a device; write its rows to a file")
        raise DataError(f"--input {source}: no such file or folder, or an empty one")
    if not files:
        raise DataError(
            f"--input {source}: names no file that ends in {', '.join(FORMS)}, also compressed as "
            f"{' or '.join(COMPRESSIONS)} except for {PARQUET} and {XLSX}{f'; {passed_over}' if passed_over else ''}"
        )
    return files, passed_over


def _explain_passing_over(relative: str, kind: FileKind | None, info: Mapping[str, Any]) -> str:
    """Returns why a file of a folder is not read; empty if it is read."""
    if info.get("islink") and os.path.isdir(str(info["name"])):
        return "linked folder"
    if kind is None or (kind.form in table_files.NEVER_PACKED and kind.compression):
        return os.path.splitext(relative)[1].lower() or "without suffix"
    # A link that leads nowhere is an input that cannot be read, with an error of its own.
    if info.get("type") == "other" and os.path.exists(str(info["name"])) and not os.path.isfile(str(info["name"])):
        return "no regular file"
    return ""


def _list_files(fs: Any, path: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns the files with their descriptions, and the folder that their relative paths begin at."""
    path = path.rstrip("/") or path
    if fs.isfile(path):
        return {path: fs.info(path)}, path.rpartition("/")[0]
    if fs.isdir(path):
        return _files_below(fs, path), path
    if not any(sign in path for sign in _SIGNS):
        return {}, path
    files: dict[str, dict[str, Any]] = {}
    for match, info in fs.glob(path, detail=True).items():
        files |= _files_below(fs, match) if info["type"] == "directory" else {match: info}
    fixed = path[: min(path.index(sign) for sign in _SIGNS if sign in path)]
    return files, fixed.rpartition("/")[0]


def _files_below(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    """Returns the files below a folder with their descriptions; OSError for a folder that cannot be listed."""
    from fsspec.implementations.local import LocalFileSystem

    if isinstance(fs, LocalFileSystem):  # whose `find` leaves out such folders without a word
        unreadable: list[OSError] = []
        for _, folders, _ in os.walk(folder, onerror=unreadable.append):
            folders[:] = [name for name in folders if not is_hidden(name)]
        if unreadable:
            raise unreadable[0]
    found: dict[str, dict[str, Any]] = fs.find(folder, detail=True)
    return found


def shards_of(file: InputFile, rows_of_a_shard: int, note: Callable[[str], object] = say) -> list[Shard]:
    """Cuts a file into shards of a fixed number of rows; the last may have fewer. A file without rows has none.

    Of a Parquet file only the footer is read; other files are read once, for the places where shards begin.

    Args:
        file: the file.
        rows_of_a_shard: their number.
        note: called with each sentence on a file whose separator or encoding is not the usual one.

    Raises:
        DataError: the file cannot be read.
    """
    places: Iterable[tuple[int, int]] = itertools.repeat((0, 0))  # bytes and lines before each shard
    columns: tuple[str, ...] = ()
    delimiter = ""
    notes: list[str] = []
    count = 0
    if file.form in (PARQUET, XLSX):
        count = parquet_rows(file.path) if file.form == PARQUET else sum(1 for _ in sheet_rows(file.path))
    else:
        with open_rows(file.path, file.packing, on_other=notes.append) as stream:
            lines, columns, delimiter, offset, line = find_layout(stream, file.path, file.form)
            places = begins = [(offset, line)]
            for count, raw in enumerate(raw_rows(lines, file.form, columns, delimiter, offset, line), 1):
                if count % rows_of_a_shard == 0:
                    begins.append((raw.end, raw.last_line))
    is_recoded = bool(notes)
    if count and delimiter != table_files.DELIMITERS.get(file.form, ""):
        notes.append(f"{file.path}: columns are separated by {NAMES[delimiter]}s")
    for each in notes:
        note(each)
    firsts = range(0, count, rows_of_a_shard)
    return [
        Shard(file, number, min(rows_of_a_shard, count - first), first, *place, columns, delimiter, is_recoded)
        for number, (first, place) in enumerate(zip(firsts, places, strict=False))
    ]
