"""What is written is whole, also when Ctrl-C comes."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from bertkit.files import uninterrupted


@pytest.fixture(autouse=True)
def interruptible():
    """SIGINT as Python has it; where the tests run in the background it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_waits_for_what_is_within():
    done = []

    def work():
        with uninterrupted():
            interrupt()
            done.append("whole")
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["whole"]
    with pytest.raises(KeyboardInterrupt):  # and is as it was before
        interrupt()


def test_a_second_ctrl_c_does_not_wait():
    done = []

    def work():
        with uninterrupted():
            interrupt()
            done.append("once")
            interrupt()
            done.append("twice")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["once"]


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
            interrupt()
            done.append("ignored")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["thread", "ignored"]
