"""What is written is whole, also when Ctrl-C comes."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from bertkit.errors import OutputError
from bertkit.files import new_folder, uninterrupted


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


def test_a_folder_appears_when_it_is_whole(tmp_path):
    place = tmp_path / "above" / "place"
    with new_folder(place) as draft:
        (draft / "file").write_text("content")
        assert not place.exists()
    assert (place / "file").read_text() == "content"
    assert list(place.parent.iterdir()) == [place]
    plain = tmp_path / "plain"
    plain.mkdir()
    assert place.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_folder_that_is_not_finished_vanishes(tmp_path, error):
    def half():
        with new_folder(tmp_path / "place") as draft:
            (draft / "file").write_text("half")
            raise error

    with pytest.raises(error):
        half()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_made_meanwhile_stays_as_it_is(tmp_path):
    place = tmp_path / "place"
    for is_there in (False, True):
        try:
            with new_folder(place, is_there=lambda same=is_there: same) as draft:
                (draft / "file").write_text("second")
                place.mkdir(exist_ok=True)
                (place / "file").write_text("first")
        except OSError:
            assert not is_there
        else:
            assert is_there
        assert (place / "file").read_text() == "first"
        assert list(tmp_path.iterdir()) == [place]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match=r"place: cannot be written: File exists"),
        new_folder(tmp_path / "file" / "place"),
    ):
        pass
