"""Handling of the signals that end a run: shared by the launcher and the processes of a run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTED = 128 + signal.SIGTERM
"""Exit code of a process that was ended by SIGTERM, SIGUSR1 or SIGHUP, whether or not it saved a checkpoint."""

REPEATED = 1.0
"""Seconds in which a signal counts as the same one: ``timeout`` and batch systems signal a process and its group."""

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
"""The signals that batch systems and clouds send before they stop a job."""

Handler = Callable[[int, FrameType | None], None]

_TIMER = "postponed signal"
_AGAIN = 0.02  # seconds until a postponed signal is sent again
_IMPORT = "<frozen importlib._bootstrap>"
_SWALLOWING = ("__del__", "update_fingerprint")  # finalizers; datasets hashes functions in an except clause for all


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which Ctrl-C raises a KeyboardInterrupt that nothing swallows; see `where_raised`.

    Finalizers and callbacks from C print the exception and go on; then the signal is sent again. Has no effect outside
    of the main thread, or if Ctrl-C is ignored or has another handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    report = sys.unraisablehook

    def unraisable(error: Any) -> None:
        if issubclass(error.exc_type, KeyboardInterrupt):
            _send_again(signal.SIGINT)
        else:
            report(error)

    signal.signal(signal.SIGINT, where_raised(signal.default_int_handler))
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = report
        signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = [each for each in threading.enumerate() if isinstance(each, threading.Timer) and each.name == _TIMER]
    for timer in waiting:
        timer.cancel()
    if waiting:
        raise KeyboardInterrupt


def where_raised(handle: Handler) -> Handler:
    """Returns a handler that calls ``handle``, which raises an exception, where the exception takes effect.

    While a module is imported, its ``except`` clauses could swallow it, or the module would stay half initialized; a
    finalizer swallows all exceptions, as do some functions of libraries. There the signal is sent again in a moment,
    until these have ended. Those that have begun at the time of this call do not count, such as the import of a script
    that runs as a module.
    """
    begun = _swallowing(sys._getframe())

    def called(number: int, frame: FrameType | None) -> None:
        if _swallowing(frame) > begun:
            _send_again(number)
        else:
            handle(number, frame)

    return called


def _swallowing(frame: FrameType | None) -> int:
    """Returns the number of imports and functions on the stack that may swallow an exception."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == _IMPORT or frame.f_code.co_name in _SWALLOWING
        frame = frame.f_back
    return count


def _send_again(number: int) -> None:
    if os.name == "nt":
        timer = threading.Timer(_AGAIN, signal.raise_signal, [number])
    else:  # to the main thread, so that its system call is interrupted
        timer = threading.Timer(_AGAIN, signal.pthread_kill, [threading.main_thread().ident, number])
    timer.name, timer.daemon = _TIMER, True
    timer.start()


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
