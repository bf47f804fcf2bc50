"""Memory that a training step frees and the next one takes again, kept by the process in between, in large pages.

glibc gives large blocks back to the system at once. A step frees and takes hundreds of MiB, and each time the system
has to find the pages again and to clear them: a quarter of the time of a step on a CPU. And of pages of 4 KiB a CPU
knows too few by heart to walk through gradients, moments and activations without looking them up.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = -1
_GROWN_BY = 64 << 20  # bytes
_RESERVED = 1 / 2  # of the machine's memory
_STRICT = "2"  # overcommit: addresses count as memory


def keep_freed_memory() -> bool:
    """Tells the C library to keep for this process what it frees, from here on.

    The most memory that the process needs at a time stays about what it was; it is given back when the process ends.

    Returns:
        Whether the C library is one that can be told: glibc. Others, and other allocators, go on as they do.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
        is_in_use = _address(library.malloc) == _address(ctypes.CDLL(None).malloc)
    except (OSError, AttributeError, TypeError):
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER, _M_TOP_PAD: _GROWN_BY}
    if not is_in_use or not all(mallopt(name, value) == 1 for name, value in settings.items()):
        return False
    with suppress(OSError):
        _take_large_pages(library)
    return True


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _take_large_pages(library: ctypes.CDLL) -> None:
    """Has the system use pages of 2 MiB, where it can, for the heap and for what the heap will grow by.

    What is reserved for that is a range of addresses: memory is taken as it is written to.

    Raises:
        OSError: the system does not say where the heap is.
    """
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() != _STRICT:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        library.free(library.malloc(int(memory * _RESERVED)))  # None, where a limit forbids it, is freed as well
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        if line.endswith(b"[heap]"):
            start, end = (int(address, 16) for address in line.split()[0].split(b"-"))
            library.madvise(start, end - start, mmap.MADV_HUGEPAGE)
