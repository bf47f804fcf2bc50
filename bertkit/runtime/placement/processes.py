"""The processes of a run: which one this is, its variables, work that all of them wait for, and signals that end them.

If work that the others wait for fails in one process, all of them fail with its message. With one process these
functions only do the work.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Literal, TypeVar, get_args

from bertkit.runtime.errors import BertkitError, OtherProcessError, RecipeError, shortened

INTERRUPTED = 128 + signal.SIGTERM
"""Exit code of a process that was ended by SIGTERM, SIGUSR1 or SIGHUP, whether or not it saved a checkpoint."""

REPEATED = 1.0
"""Seconds in which a signal counts as the same one: ``timeout`` and batch systems signal a process and its group."""

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
"""The signals that batch systems and clouds send before they stop a job."""

Engine = Literal["local", "ray"]
Handler = Callable[[int, FrameType | None], None]

_Value = TypeVar("_Value")

_PREPARATION = timedelta(hours=24)
_LONGEST_MESSAGE = 2_000  # characters


def is_main_process() -> bool:
    """Returns whether this is the process that writes files and logs: rank 0, or the only process."""
    return os.environ.get("RANK", "0") == "0"


def started_processes() -> int:
    """Returns the number of processes that a launcher has started on all machines; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_restarted_by_launcher() -> bool:
    """Returns whether the launcher repeats the command if a process or a machine fails: ``torchrun --max-restarts``."""
    return os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") not in ("", "0")


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may use, also within the limit of a container."""
    import joblib

    return int(joblib.cpu_count())


@contextmanager
def environment_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Context in which environment variables have other values."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def gathered(compute: Callable[[], _Value], *, prepares: bool = False) -> list[_Value]:
    """Calls a function in every process and returns the values of all processes, in the order of their ranks.

    Args:
        compute: the function; returns an object that can be pickled. It must not fail in one process alone after it
            has begun a collective operation, since the others would wait there.
        prepares: the processes wait for hours, for work such as tokenization that one process does for the others;
            otherwise as long as training waits, ``ddp_timeout`` seconds (default: 1,800).

    Raises:
        OtherProcessError: the function failed in another process only. The process in which it failed raises the
            exception itself. A KeyboardInterrupt or SystemExit is raised in all processes.
    """
    if not _are_several():
        return [compute()]
    with _group(prepares) as group:
        with _failure_reported(group):
            value = compute()
        return _meet(group, value)


def from_main_process(compute: Callable[[], _Value], *, prepares: bool = False) -> _Value:
    """Calls a function in the main process only and returns its value in all; arguments and errors as `gathered`."""
    values: list[Any] = gathered(lambda: compute() if is_main_process() else None, prepares=prepares)
    value: _Value = values[0]
    return value


@contextmanager
def failing_together(*, prepares: bool = False) -> Iterator[None]:
    """Context at whose end all processes wait for each other; body, argument and errors as `gathered`."""
    if not _are_several():
        yield
        return
    with _group(prepares) as group:
        with _failure_reported(group):
            yield
        _meet(group)


@contextmanager
def first_on_machine() -> Iterator[None]:
    """Context that one process of each machine goes through before the others there, which wait for hours.

    Errors as `gathered`.
    """
    if not _are_several():
        yield
        return
    from accelerate import PartialState

    is_first = PartialState().is_local_main_process
    with _group(prepares=True) as group:
        if not is_first:
            _meet(group)
        with _failure_reported(group):
            yield
        _meet(group)
        if is_first:
            _meet(group)


def _are_several() -> bool:
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@contextmanager
def _group(prepares: bool) -> Iterator[Any]:
    """Context with the group to wait in: None for that of the training, or one that waits for hours."""
    import torch.distributed as dist

    if not prepares:
        yield None
        return
    group = dist.new_group(backend="gloo", timeout=_PREPARATION)
    try:
        yield group
    finally:
        dist.destroy_process_group(group)


@contextmanager
def _failure_reported(group: Any) -> Iterator[None]:
    """Context whose exception the other processes raise too, in `_meet`."""
    try:
        yield
    except BaseException as error:
        message = shortened(str(error), _LONGEST_MESSAGE)
        reason: str | BaseException = (
            message if isinstance(error, BertkitError) else f"{type(error).__name__}: {message}"
        )
        if isinstance(error, KeyboardInterrupt):
            reason = KeyboardInterrupt()
        elif isinstance(error, SystemExit):
            reason = SystemExit(error.code)
        with suppress(RuntimeError):  # another process has ended
            _exchange((reason, None), group)
        raise


def _meet(group: Any, value: Any = None) -> list[Any]:
    """Waits for all processes and returns their values; raises the failure of another one, or its interruption."""
    outcomes = _exchange((None, value), group)
    for rank, (reason, _) in enumerate(outcomes):
        if isinstance(reason, BaseException):
            raise reason
        if reason is not None:
            raise OtherProcessError(f"process {rank} of {len(outcomes)} (counted from 0) failed: {reason}")
    return [each for _, each in outcomes]


def _exchange(outcome: Any, group: Any) -> list[Any]:
    import torch.distributed as dist

    outcomes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(outcomes, outcome, group=group)
    return outcomes


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


@contextmanager
def uninterrupted(name: Literal["SIGINT", "SIGCHLD"] = "SIGINT") -> Iterator[None]:
    """Defers a signal to the end of the block, if it has a handler; one before an exception of the block is lost.

    Args:
        name: ``SIGINT``, Ctrl-C, which would truncate a line, and takes effect at once if it comes again; or
            ``SIGCHLD``, whose handler of torch raises an error where a data worker was killed. Windows has none.
    """
    signals = [signal.Signals[name]] if name in signal.Signals.__members__ else []
    handler = signal.getsignal(signals[0]) if signals else None
    came = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came and name == "SIGINT" and callable(handler):
            handler(number, frame)
        came = True

    with handled(signals if callable(handler) else [], wait):
        yield
    if came and callable(handler):
        handler(signals[0], None)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Processes that divide work among them; its result does not depend on them, except on ``threads``.

    Attributes:
        engine: ``local``: processes of this machine; ``ray``: those of Ray.
        ray_address: of a running Ray cluster; None for one of its own on this machine, or for work with a model that of
            ``RAY_ADDRESS`` if it is set.
        number: of the processes; None for one per GPU, or per ``threads`` cores where there is none or it is not used.
        threads: of each process for the computation of a model on a CPU. It does not follow from the number of
            processes, since the last digits of results depend on it.
        part: ``i/n``: do the i-th of n shares of the work only, beside others that do the rest.

    Raises:
        RecipeError: a value is out of range, or ``ray_address`` is given without Ray.
    """

    engine: Engine = "local"
    ray_address: str | None = None
    number: int | None = None
    threads: int = 1
    part: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise RecipeError(f"--engine {self.engine}: is not one of {', '.join(get_args(Engine))}")
        if self.engine != "ray" and self.ray_address is not None:
            raise RecipeError("--ray-address: is for --engine ray; give it, or remove this")
        if self.part is not None:
            share_of(self.part)
        for option, number in (("--workers", self.number), ("--threads", self.threads)):
            if number is not None and number < 1:
                raise RecipeError(f"{option} {number}: expected at least 1")

    @property
    def share(self) -> tuple[int, int] | None:
        """Returns i and n of ``part``."""
        return None if self.part is None else share_of(self.part)


def share_of(part: str) -> tuple[int, int]:
    """Returns i and n of ``i/n``, the i-th of n shares of some work.

    Raises:
        RecipeError: it is not so written, or i is not 1 to n.

    >>> share_of("3/16")
    (3, 16)
    """
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise RecipeError(f"--part {part}: expected I/N with 1 ≤ I ≤ N, such as 3/16")
    return int(match[1]), int(match[2])
