"""Two processes that wait for each other: a failure, an interruption or a value of one reaches the other in time."""

from __future__ import annotations

import os
import signal
import textwrap
import threading

import pytest

from bertkit.runtime.errors import DataError
from bertkit.runtime.placement.processes import (
    failing_together,
    first_on_machine,
    from_main_process,
    gathered,
    uninterrupted,
)

# The processes of a run, whose collective operations of training wait for two seconds.
PROGRAM = """
import sys, time
from datetime import timedelta
import torch.distributed as dist
from accelerate import PartialState
from bertkit.runtime.errors import BertkitError, DataError
from bertkit.runtime.placement.processes import *

state = PartialState(cpu=True, timeout=timedelta(seconds=2))
rank = state.process_index
try:
{body}
except BertkitError as error:
    print(type(error).__name__, error, flush=True)
except SystemExit as error:
    print("SystemExit", error.code, flush=True)
time.sleep(1)  # the first process holds the rendezvous
"""


@pytest.fixture
def two(two_processes):
    """``two(body)``: what two processes print that execute the lines."""
    return lambda body: two_processes(PROGRAM.replace("{body}", textwrap.indent(body.strip(), "    ")))


@pytest.mark.multiprocess
def test_others_wait_for_preparation_longer_than_for_training(two):
    body = """
with first_on_machine():
    if rank == 0:
        time.sleep(5)
    print("prepared", end=" ")
print(from_main_process(lambda: rank + 5))
"""
    assert two(body) == ["prepared 5", "prepared 5"]


@pytest.mark.multiprocess
@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("context", ["first_on_machine()", "failing_together()"])
def test_a_failure_of_one_process_ends_both(two, context, failing):
    body = f"""
with {context}:
    if rank == {failing}:
        raise DataError("x.txt, line 3: not UTF-8")
print("not reached")
"""
    printed = two(body)
    assert printed[failing] == "DataError x.txt, line 3: not UTF-8"
    other = f"OtherProcessError process {failing} of 2 (counted from 0) failed: x.txt, line 3: not UTF-8"
    assert printed[1 - failing] == other


@pytest.mark.multiprocess
def test_unexpected_errors_and_exits(two):
    body = """
try:
    from_main_process(lambda: {}[7])
except BertkitError as error:
    print(error, end=" | ")
except KeyError as error:
    print("KeyError", error, end=" | ")
from_main_process(lambda: sys.exit(143))
"""
    first, second = two(body)
    assert first == "KeyError 7 | SystemExit 143"
    assert second == "process 0 of 2 (counted from 0) failed: KeyError: 7 | SystemExit 143"


def test_one_process_does_the_work_alone():
    assert gathered(lambda: 3) == [3]
    assert from_main_process(lambda: "x", prepares=True) == "x"
    for context in (first_on_machine, failing_together):
        with pytest.raises(DataError, match="here"), context():
            raise DataError("here")


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_and_a_second_one_does_not(times):
    done = []

    def work():
        with uninterrupted():
            for time in range(times):
                signal.raise_signal(signal.SIGINT)
                done.append(time)
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [0]
    with pytest.raises(KeyboardInterrupt):  # and is as it was before
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("has_handler", [True, False])
def test_the_end_of_a_data_worker_waits(has_handler):
    done = []
    before = signal.signal(signal.SIGCHLD, (lambda *_: done.append("handled")) if has_handler else signal.SIG_DFL)
    try:
        with uninterrupted("SIGCHLD"):
            for _ in range(2):
                signal.raise_signal(signal.SIGCHLD)
            done.append("within")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert done == ["within", "handled"][: 1 + has_handler]


def test_an_error_within_goes_on(tmp_path):
    with pytest.raises(OSError, match="Is a directory"), uninterrupted():
        os.open(tmp_path, os.O_WRONLY)


def test_it_does_nothing_where_no_ctrl_c_comes():
    """In other threads than the first, which alone gets signals, and where the process ignores them."""
    done = []

    def work():
        with uninterrupted():
            done.append("thread")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("ignored")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["thread", "ignored"]
