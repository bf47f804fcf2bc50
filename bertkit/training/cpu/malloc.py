"""Memory that a training step frees and the next one takes again, kept by the process in between.

glibc gives large blocks back to the system at once. A step frees and takes hundreds of MiB, and each time the system
has to find the pages again and to clear them: a quarter of the time of a step on a CPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = -1
_GROWN_BY = 64 << 20  # bytes


def keep_freed_memory() -> bool:
    """Tells the C library to keep for this process what it frees, from here on.

    The most memory that the process needs at a time stays about what it was; it is given back when the process ends.

    Returns:
        True where the C library is glibc, which can be told. Others, and other allocators, stay as they are.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
        is_in_use = _address(library.malloc) == _address(ctypes.CDLL(None).malloc)
    except (OSError, AttributeError, TypeError):
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER, _M_TOP_PAD: _GROWN_BY}
    return is_in_use and all(mallopt(name, value) == 1 for name, value in settings.items())


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
