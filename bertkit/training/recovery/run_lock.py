"""The lock of a run directory, so that one run at a time writes to it."""

from __future__ import annotations

import errno
import json
import os
import socket
from contextlib import suppress
from pathlib import Path

from bertkit.errors import OutputError
from bertkit.files import disk_fault, output_error
from bertkit.json_text import dumps
from bertkit.progress import say

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".bertkit.lock"
"""Name of the lock file in a run directory. A killed run leaves it behind; it is not locked then."""

_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
_ATTEMPTS = 100

_held: set[int] = set()  # descriptors of the locks of this process


def _close_in_child() -> None:
    """Closes the descriptors in a forked process, such as a data worker, which could outlive the run."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class FolderInUseError(OutputError):
    """Raised if another process holds the lock of a run directory."""


class RunLock:
    """Context manager that holds the lock of a run directory.

    The lock is ``flock`` on `LOCK_FILE` in the directory. The kernel releases it when the process ends, for whatever
    reason, so a lock is never stale. The file, with host and process id as JSON, is removed at the end, and so are
    folders that this class has created and that are still empty.

    On NFS (Linux, version 3 with lockd, version 4) the server keeps the lock, so it holds between machines; if a
    machine crashes, the server releases its locks after the lease time or the reboot. File systems without locks, such
    as Lustre without the mount option ``flock``, and Windows give a warning, and the directory is not locked. Lustre
    with ``localflock`` locks only between processes of one machine.

    Args:
        folder: the run directory; created if it does not exist.

    Raises:
        FolderInUseError: another process holds the lock.
        OutputError: the folder or the file cannot be created.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._path = folder / LOCK_FILE
        self._descriptor: int | None = None
        self._created: list[Path] = []

    def __enter__(self) -> RunLock:
        if fcntl is None:
            say(f"warning: {self.folder}: this system has no file locks; a second run here would not be noticed")
            return self
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

    def _release(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                if self._is_locked_file(self._descriptor):
                    self._path.unlink()  # before the lock is released: nobody else removes the file
            self._close(self._descriptor)
            self._descriptor = None
        self._remove_folders()

    def _acquire(self) -> None:
        fault: OSError = BlockingIOError(errno.EAGAIN, "other runs keep creating and removing it")
        for _ in range(_ATTEMPTS):
            try:
                self._create_folders()
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError as error:
                fault = error
                continue  # another run may have removed the empty folder again
            _held.add(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_locked_file(descriptor):
                    self._descriptor = descriptor
                    content = dumps({"host": socket.gethostname(), "pid": os.getpid()})
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, content.encode(), 0)
                    return
            except BlockingIOError:
                holder = _holder(descriptor)
                raise FolderInUseError(
                    f"{self.folder}: another run is writing here{holder}; wait for it or stop it"
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                self._path.unlink(missing_ok=True)
                say(f"warning: {self.folder}: this file system has no locks; a second run here would not be noticed")
                return
            finally:
                if self._descriptor is None:
                    self._close(descriptor)
        raise fault

    def _is_locked_file(self, descriptor: int) -> bool:
        """Returns whether the lock file is still the opened one: the holder of the lock may have removed it since."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _create_folders(self) -> None:
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self._created += [path for path in missing if path not in self._created]
        self.folder.mkdir(parents=True, exist_ok=True)

    def _remove_folders(self) -> None:
        for path in self._created:  # the innermost first
            with suppress(OSError):  # not empty
                path.rmdir()
        self._created = []

    def _close(self, descriptor: int) -> None:
        _held.discard(descriptor)
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Returns whether a process holds the lock of a run directory; False where it cannot be seen."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released at once, with the descriptor
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Returns the description of the process that holds the lock; empty if it has not written the file yet."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f" (host {holder['host']}, process {holder['pid']})"
    except (OSError, ValueError, LookupError, TypeError):
        return ""
