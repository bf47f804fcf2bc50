"""Folders, patterns and URLs → files → shards, which are ranges of rows of one file.

Paths are those of `fsspec`: local ones, or URLs such as ``s3://bucket/reviews/*.parquet``. The shards depend on the
files and on the number of rows per shard only, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bertkit.errors import DataError
from bertkit.reading.text_files import JSON_LINES, PACKINGS, PARQUET, TEXT, file_kind
from bertkit.reading.urls import filesystem, is_url
from bertkit.scaling.rows import delimited_header, opened, parquet_rows, raw_rows

FORMS = (".csv", ".tsv", JSON_LINES, PARQUET, TEXT)
_STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class InputFile:
    """A file of the input.

    Attributes:
        path: path or URL by which it is opened and which messages show.
        relative: its path below the folder of the input, with slashes; also the start of the names of its outputs.
        form: suffix of its format, one of `FORMS`.
        packing: suffix of its compression, or empty.
        size: bytes, as stored.
        stamp: what changes with its content: an object store's checksum, or the time of the last change.
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
        offset: bytes of the decompressed file before them; 0 for Parquet, which is read by row numbers.
        first_line: lines of the file before them; 0 for Parquet.
        columns: column names of CSV and TSV, from the first line of the file; empty for other formats.
    """

    file: InputFile
    number: int
    rows: int
    first_row: int
    offset: int = 0
    first_line: int = 0
    columns: tuple[str, ...] = ()

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


def find_inputs(given: str) -> list[InputFile]:
    """Returns the files that a path, a pattern or a URL of either names, sorted by their relative paths.

    A folder stands for all files below it in one of `FORMS`; names that begin with a dot and ``__MACOSX`` are skipped.
    A pattern (``*``, ``?``, ``[abc]``, ``**``) stands for the files that it matches and those below the folders that
    it matches.

    Raises:
        DataError: there are none, or they cannot be listed.
    """
    fs, path = filesystem(given, f"--input {given}")
    try:
        found, base = _listed(fs, path)
    except Exception as error:  # clients of object stores have exceptions of their own, which fsspec passes on
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise DataError(f"--input {given}: cannot be listed: {reason}") from error
    files = []
    for place, info in sorted(found.items()):
        relative = place[len(base) :].lstrip("/")
        kind = file_kind(place.rsplit("/", 1)[-1], FORMS)
        parts = relative.split("/")
        if kind is None or any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        if kind.form == PARQUET and kind.packing:
            continue
        url = fs.unstrip_protocol(place) if is_url(given) else place
        stamp = next((str(info[key]) for key in _STAMPS if info.get(key) is not None), "")
        files.append(InputFile(url, relative, *kind, int(info.get("size") or 0), stamp))
    if not files:
        raise DataError(
            f"--input {given}: names no file that ends in {', '.join(FORMS)}, also compressed as "
            f"{' or '.join(PACKINGS)} except for {PARQUET}"
        )
    return files


def _listed(fs: Any, path: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns the files with their descriptions, and the folder that their relative paths begin at."""
    path = path.rstrip("/") or path
    if fs.isfile(path):
        return {path: fs.info(path)}, path.rpartition("/")[0]
    if fs.isdir(path):
        return fs.find(path, detail=True), path
    if not any(sign in path for sign in "*?["):
        return {}, path
    files: dict[str, dict[str, Any]] = {}
    for match, info in fs.glob(path, detail=True).items():
        files |= fs.find(match, detail=True) if info["type"] == "directory" else {match: info}
    fixed = path[: min(path.index(sign) for sign in "*?[" if sign in path)]
    return files, fixed.rpartition("/")[0]


def shards_of(file: InputFile, rows_of_a_shard: int) -> list[Shard]:
    """Cuts a file into shards of a fixed number of rows; the last may have fewer.

    Of a Parquet file only the footer is read; other files are read once, for the places where shards begin.

    Raises:
        DataError: the file cannot be read; or has no rows.
    """
    if file.form == PARQUET:
        count = parquet_rows(file.path)
        return _nonempty(
            file,
            [
                Shard(file, number, min(rows_of_a_shard, count - first), first)
                for number, first in enumerate(range(0, count, rows_of_a_shard))
            ],
        )
    return _nonempty(file, list(_text_shards(file, rows_of_a_shard)))


def _nonempty(file: InputFile, shards: list[Shard]) -> list[Shard]:
    if not shards:
        raise DataError(f"{file.path}: no rows")
    return shards


def _text_shards(file: InputFile, size: int) -> Iterator[Shard]:
    with opened(file.path, file.packing) as stream:
        columns, offset, line = delimited_header(stream, file.path, file.form)
        number = rows = 0
        begins = (offset, line)
        for raw in raw_rows(stream, file.form, columns, offset, line):
            rows += 1
            if rows == size:
                yield Shard(file, number, rows, number * size, *begins, columns)
                number, rows = number + 1, 0
                begins = (raw.end, raw.last_line)
        if rows:
            yield Shard(file, number, rows, number * size, *begins, columns)


def described(shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """Returns shards as values of JSON, for `Shard.from_json`."""
    return [asdict(shard) for shard in shards]
