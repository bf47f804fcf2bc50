"""Atomic writing of files and folders, without overwriting files of the user.

Everything is written to a temporary file or folder first, synced to disk and renamed. The process holds a lock on it
until then, so that what a killed process leaves behind is recognized and removed; on Windows it stays. A write that
fails leaves nothing behind but parent folders; on a full or read-only disk it raises one `OutputError`.
"""

from __future__ import annotations

import csv
import errno
import glob
import io
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertkit.runtime.errors import BertkitError, OutputError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.reading.paths import was_url

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished-"
"""Prefix of temporary files and folders; a killed process leaves them behind."""

_OF_SAFETENSORS = re.compile(r"\.tmp[A-Za-z0-9]{6}")  # its temporary files, renamed when they are complete
_A_DAY = 24 * 3600  # seconds
_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_OF_RUST = re.compile(r"\(os error (\d+)\)")  # safetensors and tokenizers raise exceptions of their own
_OF_TORCH = re.compile(r"PytorchStreamWriter failed|file write failed|basic_ios::clear|unexpected pos \d+ vs \d+")


def check_new_file(path: Path, name: str) -> None:
    """Checks that a file does not exist and that its folder does; does not write anything.

    Args:
        path: the file to be written.
        name: name of the file in messages, such as ``--output FILE``.

    Raises:
        OutputError: the file exists, or its folder does not, or is closed; or it is a URL, or a link without a target.
    """
    check_links(path, name)
    try:
        is_there, has_folder = path.exists(), path.parent.is_dir()
    except OSError as error:  # a folder on the way is closed, or the name is too long
        raise OutputError(f"{name}: cannot be written: {error.strerror}") from error
    if is_there:
        raise OutputError(f"{name}: already exists; give another name")
    if not has_folder:
        raise OutputError(f"{name}: the folder {path.parent} does not exist")


def check_links(path: Path, name: str) -> None:
    """Raises OutputError for a URL, and for a link without a target: it counts as missing, but cannot be created."""
    if was_url(path):
        raise OutputError(f"{name}: is a URL, and files are written to local folders; give one")
    for part in (path, *path.parents):
        if os.path.islink(part) and not os.path.exists(part):  # methods of Path raise below a folder that is closed
            raise OutputError(f"{name}: {part} is a link to {os.readlink(part)}, which does not exist; remove the link")


@contextmanager
def new_folder(place: Path, is_there: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Yields a temporary folder to write to; renames it to ``place`` at the end, or removes it on an exception.

    Args:
        place: a new or empty folder, or a link to one; parent folders are created, and stay on an exception. It is
            replaced, so it cannot be a mount point; if it is the current folder of this process, the new one is too.
        is_there: called if the rename fails; returns whether another process has written the same, which then stays.

    Raises:
        OutputError: the folder cannot be written, is a mount point, or the rename fails and ``is_there()`` is False.
    """
    place = Path(os.path.realpath(place))
    if os.path.ismount(place):
        raise OutputError(f"{place}: is a mount point, which cannot be replaced; give a folder in it")
    try:
        is_current = place.exists() and place.samefile(os.curdir)
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(place, error) from error
    with disk_faults(place), _draft(place, Path.mkdir) as draft:
        yield draft
        _settle(draft)
        try:
            os.rename(draft, place)
        except OSError as error:
            if not is_there():
                exists = error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
                hint = "; another process has written it in the meantime; give another folder" if exists else ""
                raise OutputError(f"{place}: cannot be written: {error.strerror}{hint}") from error
        if is_current:
            os.chdir(place)
        _sync_folder(place.parent)


@contextmanager
def into_folder(folder: Path, needed: int | None = None) -> Iterator[Path]:
    """Yields a temporary folder within ``folder``, and moves its files, also in subfolders, to ``folder`` at the end.

    Each file of ``folder`` has either its old or its complete new content. Use it for libraries that write several
    files themselves, such as ``save_pretrained``.

    Args:
        folder: an existing folder.
        needed: size of the files in bytes, for the message of a failed write; ``None`` if unknown.

    Raises:
        OutputError: the disk is full or read-only.
    """
    with disk_faults(folder, needed), _draft(folder, Path.mkdir, within=folder) as draft:
        yield draft
        _settle(draft)
        places = {path: folder / path.relative_to(draft) for path in draft.rglob("*") if path.is_file()}
        for path, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, place)
        for changed in {place.parent for place in places.values()}:
            _sync_folder(changed)


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes bytes, or text as UTF-8, atomically: the file has either its old or its complete new content.

    Raises:
        OutputError: the write fails, or the text has no UTF-8 form.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        wrong = error.object[max(error.start - 20, 0) : error.end + 20]
        raise OutputError(f"{path}: cannot be written as UTF-8: {wrong!r} holds half a character") from error
    try:
        with _draft(path, Path.touch) as draft:
            with draft.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, path)
    except OSError as error:
        raise output_error(path, error, len(data)) from error
    _sync_folder(path.parent)


def write_json(path: Path, content: Any, default: Callable[[Any], Any] | None = None) -> None:
    """Writes a JSON file atomically, indented, with a line break at the end.

    Args:
        path: the file.
        content: values that `bertkit.runtime.json_text.dumps` accepts.
        default: converts other values; ``None`` rejects them.
    """
    write_whole(path, dumps(content, indent=2, ensure_ascii=False, default=default) + "\n")


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes one JSON object per line, atomically."""
    write_whole(path, "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table as CSV with a line of the names of its columns, atomically; lines end as in RFC 4180."""
    written = io.StringIO(newline="")
    csv.writer(written).writerows([names, *rows])
    write_whole(path, written.getvalue())


def read_json(path: Path) -> Any:
    """Returns the contents of a JSON file, ``{}`` if it does not exist; raises ValueError if it is not JSON."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def read_record(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if the file is missing, damaged, or being written."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


# ---- temporary files and folders ----------------------------------------------------------------------------------


@contextmanager
def _draft(place: Path, create: Callable[[Path], None], within: Path | None = None) -> Iterator[Path]:
    """Creates a temporary file or folder, locked except on Windows; at the end it is removed, unless it was renamed.

    Those of killed processes that wrote the same are removed first.

    Args:
        place: the file or folder to be written.
        create: creates the temporary one.
        within: folder of the temporary one; by default that of ``place``.
    """
    remove_unfinished(within or place.parent, place.name)
    descriptor: int | None = None
    while True:
        draft = (within or place.parent) / f"{UNFINISHED}{place.name[:32]}-{uuid.uuid4().hex}"
        try:
            create(draft)
        except OSError as error:
            raise output_error(place, error) from error
        if fcntl is None:  # Windows opens no folders, and renames nothing that is open
            break
        with suppress(FileNotFoundError):  # removed by `remove_unfinished` of another process before it was locked
            descriptor = os.open(draft, os.O_RDONLY)
            lock(descriptor)
            if draft.exists():
                break
            os.close(descriptor)
    try:
        yield draft
    finally:
        _remove(draft)
        if descriptor is not None:
            os.close(descriptor)


def lock(descriptor: int) -> None:
    """Locks an open file or folder until it is closed or the process ends; does nothing where locks are missing."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def unlocked(path: Path, without_locks: bool = False) -> Iterator[bool]:
    """Yields whether a file or folder exists and no process has locked it; none can during the block.

    Where locks are missing, as on network file systems: ``without_locks``, or whether the last change is a day ago.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        is_free = without_locks or os.fstat(descriptor).st_mtime < time.time() - _A_DAY
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_free = True
            except BlockingIOError:
                is_free = False
            except OSError:  # a file system without locks
                pass
        yield is_free
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Returns whether a file name is that of a temporary file of a writer.

    >>> [is_temporary(name) for name in (".unfinished-run.json-3f", ".tmpa1B2c3", ".tmp", "x.partial")]
    [True, True, False, False]
    """
    return name.startswith(UNFINISHED) or _OF_SAFETENSORS.fullmatch(name) is not None


def remove_unfinished(folder: Path, name: str = "") -> None:
    """Removes the temporary files and folders of killed processes; those of running processes stay.

    Args:
        folder: the folder to search.
        name: name of the file or folder that was being written; all if empty.
    """
    for draft in folder.glob(f"{UNFINISHED}{glob.escape(name[:32])}*"):
        with unlocked(draft) as abandoned:
            if abandoned:
                _remove(draft)


def clean_run_folder(folder: Path) -> None:
    """Removes the temporary files of killed runs from a run directory and its checkpoints.

    The files of safetensors have no lock, so no other process may be writing to the folder.
    """
    for place in (folder, *folder.glob("checkpoint-*/")):
        remove_unfinished(place)
        for path in place.iterdir():
            if _OF_SAFETENSORS.fullmatch(path.name) and path.is_file():
                _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# ---- permissions and disk -----------------------------------------------------------------------------------------


def obey_umask(folder: Path) -> None:
    """Sets the permissions of all files below a folder to those of new files; safetensors creates its files as 0600.

    Args:
        folder: a folder that this process has created, so that its permissions follow the umask.
    """
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o777 != mode:
            with suppress(PermissionError):  # file systems without permissions, such as FAT
                path.chmod(mode)


def _settle(draft: Path) -> None:
    """Gives the files of a temporary folder the permissions of new files, and waits until they are on the disk."""
    obey_umask(draft)
    for path in draft.rglob("*"):
        if path.is_dir():
            _sync_folder(path)
        else:
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
    _sync_folder(draft)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not all systems and file systems can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- failed writes ------------------------------------------------------------------------------------------------


@contextmanager
def disk_faults(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turns the exceptions of a full or read-only disk in the block, of any library, into one OutputError.

    Args:
        path: the file or folder that is being written.
        needed: its size in bytes, for the message; ``None`` if unknown.
    """
    try:
        yield
    except BertkitError:
        raise
    except Exception as error:
        fault = disk_fault(error)
        if fault is None:
            raise
        raise output_error(path, fault, needed) from error


def disk_fault(error: BaseException) -> OSError | None:
    """Returns the error of a full or read-only disk that an exception stands for; ``None`` if there is none."""
    cause: BaseException | None = error
    while cause is not None:
        rust = _OF_RUST.search(str(cause))
        number = cause.errno if isinstance(cause, OSError) else int(rust[1]) if rust else None
        if number in _DISK_FAULTS:
            return cause if isinstance(cause, OSError) else OSError(number, os.strerror(number))
        if _OF_TORCH.search(str(cause)):  # torch does not say why
            return OSError(errno.ENOSPC, "the disk is full, or the file became too large")
        cause = cause.__cause__ or cause.__context__
    return None


def output_error(path: Path, error: OSError, needed: int | None = None) -> OutputError:
    """Returns the OutputError of a failed write; it has the space needed and free if the disk is full."""
    reason = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(f"{path}: cannot be written: {reason}")
    space = "" if needed is None else f"{readable_size(needed)} are needed, "
    with suppress(OSError):
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
        space += f"{readable_size(shutil.disk_usage(there).free)} are free there; "
    return OutputError(f"{path}: cannot be written: {reason}; {space}make room, or write to another disk")


def readable_size(size: int) -> str:
    """Formats a number of bytes for display.

    >>> readable_size(1), readable_size(12_345), readable_size(999_999), readable_size(1_300_000_000)
    ('1 byte', '12.3 kB', '1.0 MB', '1.3 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= 0.99995 * unit:  # else it would be 1000.0 of the smaller unit
            return f"{size / unit:.1f} {name}"
    return "1 byte" if size == 1 else f"{size} bytes"
