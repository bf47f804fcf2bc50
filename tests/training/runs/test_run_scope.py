"""The scope of a run: the lock of its directory; data workers that are killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from bertkit.runtime.errors import OutputError, TrainingError
from bertkit.runtime.locks import LOCK_FILE, RunLock
from bertkit.training.runs.directory import killed_workers_reported, writes_run


@writes_run
def written(name: str, *, output_dir: str | Path) -> str:
    """Writes a file to the folder, while it is locked."""
    assert (Path(output_dir) / LOCK_FILE).exists()
    (Path(output_dir) / name).write_text("")
    return name


def test_a_run_holds_the_lock_of_its_directory(tmp_path):
    assert written("recipe.yaml", output_dir=str(tmp_path / "run")) == "recipe.yaml"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["recipe.yaml"]
    with RunLock(tmp_path / "run"), pytest.raises(OutputError, match="another run is writing here"):
        written("weights", output_dir=tmp_path / "run")


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OutputError, match="is a link to nowhere, which does not exist"):
        written("weights", output_dir=tmp_path / "link" / "run")
    with pytest.raises(OutputError, match="File name too long; give another folder"):
        written("weights", output_dir=tmp_path / ("long" * 99) / "run")


def test_other_processes_of_a_run_do_not_lock(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with RunLock(tmp_path):
        written("rng_state_1.pth", output_dir=tmp_path)


class Killing(torch.utils.data.Dataset):
    """A data set whose worker is killed at its last example."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


@pytest.fixture
def own_handler(monkeypatch):
    """Has torch set its handler of killed workers, and restores the one before."""
    monkeypatch.setattr(torch.utils.data._utils.signal_handling, "_SIGCHLD_handler_set", False)
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGCHLD, before)


# torch's handler also raises where Python can only print it, as in a finalizer of the connection to the worker.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_data_worker_is_one_message(own_handler):
    with pytest.raises(TrainingError) as caught, killed_workers_reported():
        list(torch.utils.data.DataLoader(Killing(), num_workers=1, collate_fn=list))
    message = str(caught.value)
    assert message.startswith("DataLoader worker (pid")
    assert "--resume" in message
    assert "\n" not in message
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), killed_workers_reported():
        torch.ones(2, 3) @ torch.ones(2, 3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_is_killed_while_it_hands_a_batch_over_is_reported(own_handler):
    loader = iter(torch.utils.data.DataLoader([0, 1], num_workers=1))
    threading.Timer(0.2, os.kill, (loader._workers[0].pid, signal.SIGKILL)).start()
    with pytest.raises(TrainingError, match="DataLoader worker"), killed_workers_reported():
        raise ConnectionResetError
    with pytest.raises(FileNotFoundError), killed_workers_reported():
        raise FileNotFoundError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_second_killed_worker_does_not_disturb_the_end(tmp_path, own_handler):
    """As when the system is out of memory: one is killed in the run, another while the run releases its lock."""
    loader = iter(torch.utils.data.DataLoader([0, 1], num_workers=1))

    @writes_run
    def run(output_dir: Path) -> None:
        list(torch.utils.data.DataLoader(Killing(), num_workers=1, collate_fn=list))

    with pytest.raises(TrainingError, match="DataLoader worker"):
        run(output_dir=tmp_path)
    [worker] = loader._workers
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # torch's handler would raise here
    assert not (tmp_path / LOCK_FILE).exists()
