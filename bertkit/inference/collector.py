"""Python's garbage collector while libraries are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Turns the garbage collector off in the block, and on again if it was on.

    Imports of torch and transformers create a million objects that stay. The collector would examine all of them many
    times and free none, which takes a fifth of the time of a command that predicts for one text.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
