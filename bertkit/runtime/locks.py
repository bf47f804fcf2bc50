"""The lock of a run directory, so that one run at a time writes to it."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from bertkit.runtime.errors import OutputError
from bertkit.runtime.files import disk_fault, output_error, read_record
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import say

LOCK_FILE = ".bertkit.lock"
"""Name of the lock file in a run directory. A killed run leaves it behind; it is not locked then."""

_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
_ATTEMPTS = 100
_PATIENCE = 0.05  # seconds; a run that ends removes the file, and `is_locked` holds the lock for an instant


class FolderInUseError(OutputError):
    """Raised if another process holds the lock of a run directory."""


class RunLock:
    """Context manager that holds the lock of a run directory.

    The lock is filelock's of `LOCK_FILE` in the directory, ``flock`` on Unix. The kernel releases it when the process
    ends, for whatever reason, so a lock is never stale. The file, with host and process id as JSON, is removed at the
    end, and so are folders that this class has created and that are still empty.

    On NFS (Linux, version 3 with lockd, version 4) the server keeps the lock, so it holds between machines; if a
    machine crashes, the server releases its locks after the lease time or the reboot. File systems without locks, such
    as Lustre without the mount option ``flock``, give a warning, and the directory is not locked. Lustre with
    ``localflock`` locks only between processes of one machine.

    Args:
        folder: the run directory; created if it does not exist.

    Raises:
        FolderInUseError: another process holds the lock.
        OutputError: the folder or the file cannot be created.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._path = folder / LOCK_FILE
        self._lock = FileLock(self._path, thread_local=False, fallback_to_soft=False)
        self._file: os.stat_result | None = None
        self._created: list[Path] = []

    def __enter__(self) -> RunLock:
        try:
            self._acquire()
        except OSError as error:
            self._release()
            if disk_fault(error) is not None:
                raise output_error(self.folder, error) from error
            raise OutputError(f"{self.folder}: cannot be written to: {error.strerror}; give another folder") from error
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._release()

    def _acquire(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
                self._created += [path for path in missing if path not in self._created]
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 5)
                self._file = self._path.stat()
                with suppress(PermissionError):  # Windows locks the content too
                    own = dumps({"host": socket.gethostname(), "pid": os.getpid()})
                    self._path.write_text(own, encoding="utf-8")
                return
            except FileNotFoundError:  # another run may have removed the empty folder again
                if attempt == _ATTEMPTS - 1:
                    raise
            except Timeout:
                holder = read_record(self._path)  # empty if it has not written the file yet
                of = f" (host {holder['host']}, process {holder['pid']})" if {"host", "pid"} <= holder.keys() else ""
                raise FolderInUseError(
                    f"{self.folder}: another run is writing here{of}; wait for it or stop it"
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                self._path.unlink(missing_ok=True)
                say(f"warning: {self.folder}: this file system has no locks; a second run here would not be noticed")
                return

    def _release(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                if os.path.samestat(self._file, self._path.stat()):  # else it has been removed, and made by another run
                    self._path.unlink()  # before the lock is released: nobody else removes the file
            self._file = None
        self._lock.release()
        for path in self._created:  # the innermost first
            with suppress(OSError):  # not empty
                path.rmdir()
        self._created = []


def is_locked(folder: Path) -> bool:
    """Returns whether a process holds the lock of a run directory; False where it cannot be seen."""
    path = folder / LOCK_FILE
    if not os.path.isfile(path):
        return False
    try:
        with FileLock(path, blocking=False, fallback_to_soft=False):
            return False
    except Timeout:
        return True
    except OSError:
        return False
