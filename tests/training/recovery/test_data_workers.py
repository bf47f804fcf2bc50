"""Data workers that are killed, by any signal and at any moment, give one message."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import torch

from bertkit.errors import TrainingError
from bertkit.training.recovery.data_workers import killed_workers_reported


class Killing(torch.utils.data.Dataset):
    """A data set whose worker is killed by a signal, or ends, at an example."""

    def __init__(self, number: int | None, at: int):
        self.number, self.at = number, at

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> int:
        if index == self.at and self.number is None:
            os._exit(3)
        if index == self.at:
            signal.signal(self.number, signal.SIG_DFL) if self.number != signal.SIGKILL else None
            os.kill(os.getpid(), self.number)
            time.sleep(10)
        return index


@pytest.fixture(autouse=True)
def handler_of_torch(monkeypatch):
    """Lets torch install its handler for the end of child processes anew, and removes it at the end."""
    monkeypatch.setattr(torch.utils.data._utils.signal_handling, "_SIGCHLD_handler_set", False)
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGCHLD, before)


# torch's handler also raises where Python can only print it, as in a finalizer of the connection to the worker.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_killed_data_worker_is_one_message(monkeypatch, seed):
    """It is noticed while waiting for a batch, or anywhere else, since torch handles the signal of its end."""
    rng = random.Random(seed)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    number = [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, None][seed % 4]
    loader = torch.utils.data.DataLoader(
        Killing(number, rng.randrange(16)), batch_size=2, num_workers=rng.randint(1, 2)
    )
    waits, has_handler = rng.random() < 0.5, rng.random() < 0.7

    def read() -> None:
        batches = iter(loader)
        if not has_handler:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end = time.monotonic() + (0 if waits else 2)
        while time.monotonic() < end:
            time.sleep(0.01)
        for _ in batches:
            time.sleep(rng.uniform(0, 0.1))

    with pytest.raises(TrainingError) as caught, killed_workers_reported():
        read()
    message = str(caught.value)
    assert message.startswith("process 1: a data worker (process id ")
    assert "\n" not in message
    assert "--resume" in message
    if number is None:
        assert "has ended unexpectedly" in message
    else:
        assert f"was killed by {number.name} (signal {int(number)})" in message
        assert ("out of memory" in message) == (number == signal.SIGKILL)


def test_other_errors_stay():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), killed_workers_reported():
        torch.ones(2, 3) @ torch.ones(2, 3)


class Failing(Killing):
    def __getitem__(self, index: int) -> int:
        raise [OSError, EOFError, RuntimeError][self.at]("a fault of the data")


@pytest.mark.parametrize("at", range(3))
def test_errors_of_living_workers_stay(at):
    loader = torch.utils.data.DataLoader(Failing(None, at), num_workers=1)
    with pytest.raises((OSError, EOFError, RuntimeError), match="a fault of the data"), killed_workers_reported():
        list(loader)
