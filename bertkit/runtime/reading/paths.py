"""Paths and URLs: the files that they name, the format of a file by its suffixes, and names below a folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from bertkit.runtime.errors import DataError

TEXT, JSON_LINES, PARQUET = FORMS = (".txt", ".jsonl", ".parquet")
XLSX = ".xlsx"
COMPRESSIONS = (".gz", ".zst")
FORMS_IN_WORDS = f"{TEXT}, {JSON_LINES} or {PARQUET}"

_SHEET = re.compile(re.escape(f"{XLSX}#"), re.IGNORECASE | re.ASCII)  # the name of a sheet follows

# Protocols may be chained, as in simplecache::s3://bucket/store; without :// the name is that of a file. A protocol of
# one letter is a drive of Windows.
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)


# ---- formats and files -----------------------------------------------------------------------------------------------


class FileKind(NamedTuple):
    """Format and compression of a file, from its suffixes.

    Attributes:
        form: suffix of the format, without that of the compression; one of ``FORMS`` for a corpus.
        compression: suffix of the compression, one of ``COMPRESSIONS``, or empty.
    """

    form: str
    compression: str


def file_kind(name: str, forms: Collection[str] = FORMS) -> FileKind | None:
    """Returns the kind of a file by its name, ignoring case, or None if it is none of ``forms``.

    >>> file_kind("wiki/AA.JSONL.gz"), file_kind("notes.md"), file_kind("wiki.gz")
    (FileKind(form='.jsonl', compression='.gz'), None, None)
    """
    compression = compression_of(name)
    form = os.path.splitext(name.lower().removesuffix(compression))[1]
    return FileKind(form, compression) if form in forms else None


def different_ends(paths: Sequence[Path]) -> list[str]:
    """Returns the last parts of each path, as few as tell different paths apart; nothing for no paths.

    >>> different_ends([Path("/ada/v1/train.csv"), Path("/ada/v2/train.csv"), Path("/ada/v1/train.csv")])
    ['v1/train.csv', 'v2/train.csv', 'v1/train.csv']
    """
    parts = [path.parts for path in paths]
    longest = max(map(len, parts), default=1)
    ends = ([Path(*each[-length:]).as_posix() for each in parts] for length in range(1, longest + 1))
    return next(each for each in ends if len({*each}) == len({*parts}))


def compression_of(path: str | Path) -> str:
    """Returns the suffix of the compression of a file by its name, one of ``COMPRESSIONS`` or empty, ignoring case.

    >>> compression_of("wiki.txt.GZ"), compression_of(Path("wiki.txt"))
    ('.gz', '')
    """
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in COMPRESSIONS else ""


def workbook_and_sheet(path: str | Path) -> tuple[str, str | None]:
    """Returns the file or URL of a workbook and the sheet that is named after it; no sheet for other files.

    >>> workbook_and_sheet("s3://mail/2024.xlsx#May"), workbook_and_sheet(Path("a#b.csv"))
    (('s3://mail/2024.xlsx', 'May'), ('a#b.csv', None))
    """
    whole = str(path)
    found = _SHEET.search(whole)
    if found is None or os.path.exists(whole):
        return whole, None
    return whole[: found.end() - 1], whole[found.end() :]


def find_files(pattern: str, faults: list[str]) -> list[Path]:
    """Returns the files that a path or pattern names, in a fixed order, each once; adds errors to ``faults``.

    A file stands for itself. A folder stands for all files below it in a supported format, sorted by name; names that
    are hidden (`is_hidden`), links to folders and files in other formats are skipped. A pattern (``*``, ``?``,
    ``[abc]``, and ``**`` for any number of folders) stands for the files and folders that it matches, as in a shell. A
    leading ``~`` is the home folder.
    """
    if not pattern:  # an unset variable of a shell; as a path it would be the current folder
        faults.append("'' is not the name of a file or folder; give one")
        return []
    path = Path(os.path.expanduser(pattern))
    if os.path.exists(path) or not glob.has_magic(str(path)):  # False for names that are too long
        return _find_files_at(path, faults)
    matches = sorted(glob.glob(str(path), recursive=True), key=lambda match: Path(match).parts)
    matches = [match for match in matches if "__MACOSX" not in Path(match).parts]
    if not matches:
        faults.append(f"{pattern}: this pattern matches no file or folder")
    # A ** matches a folder and also its contents, so duplicates are removed.
    return list(dict.fromkeys(file for match in matches for file in _find_files_at(Path(match), faults)))


def _find_files_at(path: Path, faults: list[str]) -> list[Path]:
    if os.path.isdir(path):
        before = len(faults)
        files = [file for file in files_below(path, faults) if file_kind(file.name) is not None]
        broken = [file for file in files if os.path.islink(file) and not os.path.exists(file)]
        faults += [f"{file}: a link to a file that does not exist" for file in broken]
        if not files and len(faults) == before:
            faults.append(f"{path}: no {FORMS_IN_WORDS} file in this folder or its subfolders")
        return [file for file in files if file not in broken]
    if not os.path.exists(path):
        try:
            os.stat(path)
        except PermissionError as error:
            faults.append(f"{path}: cannot be read: {error.strerror}")
        except (OSError, ValueError):
            faults.append(f"{path}: no such file or folder")
    elif file_kind(path.name) is not None:
        return [path]
    elif compression := compression_of(path):
        faults.append(
            f"{path}: {path.suffix} does not tell the format of the compressed file; "
            f"rename it to end in {', '.join(form + compression for form in FORMS)}"
        )
    else:
        kind = path.suffix or "a file without suffix"
        faults.append(
            f"{path}: {kind} is not supported; expected {FORMS_IN_WORDS}, also compressed as "
            f"{' or '.join(COMPRESSIONS)}; if it is plain UTF-8 text, rename it to end in {TEXT}"
        )
    return []


# ---- names below a folder --------------------------------------------------------------------------------------------


def files_below(folder: Path, faults: list[str]) -> list[Path]:
    """Returns the files of a folder and its subfolders, sorted by their names, without hidden ones (`is_hidden`); adds
    subfolders that cannot be read to ``faults``. Links to folders are not followed."""
    files: list[Path] = []
    unreadable: list[OSError] = []  # folders, which os.walk would leave out without a word
    for parent, folders, names in os.walk(folder, onerror=unreadable.append):
        folders[:] = [name for name in folders if not is_hidden(name)]
        files += [Path(parent, name) for name in names if not is_hidden(name)]
    faults += [f"{error.filename}: cannot be read: {error.strerror}" for error in unreadable]
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


def is_hidden(name: str) -> bool:
    """Returns whether a folder that is read leaves out a file or folder of this name: with a dot first, ``~$`` of
    workbooks that are open, or ``__MACOSX``. Archives made on macOS have a binary ``._name.txt`` for every file.

    >>> [is_hidden(name) for name in ("._a.txt", ".git", "__MACOSX", "~$a.xlsx", "a.txt")]
    [True, True, True, True, False]
    """
    return name.startswith((".", "~$")) or name == "__MACOSX"


def is_below(name: Any) -> bool:
    """Returns whether a name, joined to a folder, is a path below the folder; links are not followed.

    >>> [is_below(name) for name in ("a/x.csv", "..x", "../x", "a/../../x", "/x", "a\\0", ".", "", None)]
    [True, True, False, False, False, False, False, False, False]
    """
    if not isinstance(name, str) or "\0" in name:
        return False
    path = PurePath(name)
    return bool(path.parts) and not path.anchor and ".." not in path.parts


def leads_out(path: Path, folder: Path) -> bool:
    """Returns whether links on the way to a path, which need not exist, lead out of a folder."""
    return not path.resolve().is_relative_to(folder.resolve())


# ---- URLs ------------------------------------------------------------------------------------------------------------


def is_url(path: str) -> bool:
    """Returns whether a name is a URL of `fsspec`, with its protocol, and not the path of an existing file.

    >>> is_url("s3://bucket/a.csv"), is_url("simplecache::s3://bucket/store"), is_url("zip://a.csv::b.zip")
    (True, True, True)
    >>> is_url("reviews/a.csv"), is_url("wikimedia/wikipedia"), is_url("o::p"), is_url("a/b://c")
    (False, False, False, False)
    """
    return _URL.match(path) is not None and not os.path.exists(path)


def was_url(path: str | Path) -> bool:
    """Returns whether a path is what `Path` makes of a URL, with one slash of two, or is a URL.

    >>> was_url(Path("s3://bucket/a.csv")), was_url("s3://bucket/a.csv"), was_url("reviews/a.csv")
    (True, True, False)
    """
    return is_url(str(path).replace(":/", "://", 1))


def filesystem(path: str, name: str) -> tuple[Any, str]:
    """Returns the file system of `fsspec` that a path or URL belongs to, and the path within it.

    Args:
        path: path or URL; a leading ``~`` of a path is the home folder.
        name: name of the path in messages.

    Raises:
        DataError: the protocol is unknown, or its package, its server, the archive or a setting is missing.
    """
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    if not is_url(path):  # url_to_fs would take o::p for a chain of protocols, and return the path o
        return LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    try:
        files: tuple[Any, str] = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise DataError(f"{name}: {error}; install the package of this protocol, or copy the files") from error
    except Exception as error:  # file systems raise what their clients raise, and TypeError without their settings
        raise DataError(f"{name}: cannot be opened: {str(error) or type(error).__name__}; copy the files") from error
    return files
