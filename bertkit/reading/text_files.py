"""Finds the files that paths and patterns name, and reads their decompressed bytes block by block."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import NamedTuple, TypeVar

from bertkit.errors import DataError

TEXT, JSON_LINES, PARQUET = FORMS = (".txt", ".jsonl", ".parquet")
PACKINGS = (".gz", ".zst")
FORMS_IN_WORDS = f"{TEXT}, {JSON_LINES} or {PARQUET}"

Item = TypeVar("Item")

_BLOCK = 1 << 20
_SMALL_BLOCK = 1 << 16


class FileKind(NamedTuple):
    """Format and compression of a file, from its suffixes.

    Attributes:
        form: suffix of the format, without that of the compression; one of ``FORMS`` for a corpus.
        packing: suffix of the compression, one of ``PACKINGS``, or empty.
    """

    form: str
    packing: str


def file_kind(name: str, forms: Collection[str] = FORMS) -> FileKind | None:
    """Returns the kind of a file by its name, ignoring case, or None if it is none of ``forms``.

    >>> file_kind("wiki/AA.JSONL.gz"), file_kind("notes.md"), file_kind("wiki.gz")
    (FileKind(form='.jsonl', packing='.gz'), None, None)
    """
    root, packing = os.path.splitext(name.lower())
    if packing not in PACKINGS:
        root, packing = name.lower(), ""
    form = os.path.splitext(root)[1]
    return FileKind(form, packing) if form in forms else None


def find_files(given: str, faults: list[str]) -> list[Path]:
    """Returns the files that a path or pattern names, in a fixed order, each once; adds errors to ``faults``.

    A file stands for itself. A folder stands for all files below it in a supported format, sorted by name; names that
    start with a dot, ``__MACOSX`` and files in other formats are skipped. A pattern (``*``, ``?``, ``[abc]``, and
    ``**`` for any number of folders) stands for the files and folders that it matches, as in a shell. A leading ``~``
    is the home folder.
    """
    path = Path(os.path.expanduser(given))
    if path.exists() or not glob.has_magic(str(path)):
        return _files_at(path, faults)
    matches = sorted(glob.glob(str(path), recursive=True), key=lambda match: Path(match).parts)
    matches = [match for match in matches if "__MACOSX" not in Path(match).parts]
    if not matches:
        faults.append(f"{given}: this pattern matches no file or folder")
    # A ** matches a folder and also its contents, so duplicates are removed.
    return list(dict.fromkeys(file for match in matches for file in _files_at(Path(match), faults)))


def _files_at(path: Path, faults: list[str]) -> list[Path]:
    if path.is_dir():
        files = _files_below(path)
        if not files:
            faults.append(f"{path}: no {FORMS_IN_WORDS} file in this folder or its subfolders")
        return files
    if not path.exists():
        faults.append(f"{path}: no such file or folder")
    elif file_kind(path.name) is not None:
        return [path]
    elif path.suffix.lower() in PACKINGS:
        faults.append(
            f"{path}: {path.suffix} does not tell the format of the compressed file; "
            f"rename it to end in {', '.join(form + path.suffix.lower() for form in FORMS)}"
        )
    else:
        kind = path.suffix or "a file without suffix"
        faults.append(
            f"{path}: {kind} is not supported; expected {FORMS_IN_WORDS}, also compressed as {' or '.join(PACKINGS)}; "
            f"if it is plain UTF-8 text, rename it to end in {TEXT}"
        )
    return []


def _files_below(folder: Path) -> list[Path]:
    files = []
    for parent, folders, names in os.walk(folder):
        # Archives made on macOS contain a binary "._name.txt" file for every file.
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        files += [Path(parent, name) for name in names if file_kind(name) is not None and not name.startswith(".")]
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


@contextmanager
def iterating(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Gives an iterator over ``items`` that is closed at the end of the block, whatever ends it.

    A generator that reads a file closes the file when it ends or is closed. An exception in the code that iterates over
    it does neither, and keeps it alive: so this code closes it.
    """
    iterator = iter(items)
    try:
        yield iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def read_blocks(file: Path, packing: str, reached: Callable[[int], None], block_size: int = _BLOCK) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in blocks of at most ``block_size`` bytes.

    A compressed file may consist of several concatenated streams.

    Args:
        file: path of the file.
        packing: one of ``PACKINGS``, or empty.
        reached: called before each block and at the end with the number of bytes on disk that have been read.
        block_size: maximum size of a block in bytes.

    Raises:
        DataError: the file cannot be read, or a compressed file is damaged or truncated.
    """
    try:
        with file.open("rb") as stored:
            if packing and not stored.peek(1):
                raise EOFError("it is empty")
            unpacked = _unpacked(stored, packing)
            while block := unpacked.read(block_size):
                reached(stored.tell())
                yield block
            reached(stored.tell())
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{file}: cannot be read: {error.strerror}") from error
        raise DataError(f"{file}: damaged or truncated ({error}); download or compress it again") from error


def read_shares(file: Path, packing: str, reached: Callable[[float], None]) -> Iterator[bytes]:
    """Yields blocks of at most 64 KiB as `read_blocks` and reports the share of the file that is read, in [0, 1].

    The size of a pipe is unknown; no progress is reported.
    """
    size = file.stat().st_size if file.is_file() else 0
    return read_blocks(file, packing, lambda at: reached(at / size) if size else None, _SMALL_BLOCK)


def _unpacked(stored: BufferedReader, packing: str) -> BufferedIOBase:
    if packing == ".gz":
        return gzip.GzipFile(fileobj=stored)
    if packing == ".zst":
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd")
    return stored
