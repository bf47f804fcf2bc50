"""Handling of the signals that end a run: shared by the launcher and the processes of a run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGTERM
"""Exit code of a process that was ended by SIGTERM, SIGUSR1 or SIGHUP, whether or not it saved a checkpoint."""

REPEATED = 1.0
"""Seconds in which a signal counts as the same one: ``timeout`` and batch systems signal a process and its group."""

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
"""The signals that batch systems and clouds send before they stop a job."""

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(signals: Sequence[signal.Signals], handle: Handler) -> Iterator[None]:
    """Context with a handler for signals to this process, but not to its forked children.

    A signal that is ignored stays ignored, as SIGHUP under ``nohup``. Has no effect outside of the main thread.

    Args:
        signals: the signals to handle.
        handle: called with the number of the signal and the interrupted frame.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def in_owner(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:  # not in a data worker, which its parent stops
            handle(number, frame)

    before = {each: signal.getsignal(each) for each in signals if signal.getsignal(each) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, in_owner)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
