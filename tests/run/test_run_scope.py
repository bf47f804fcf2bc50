"""The scope of a run: the lock of its directory; data workers that are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from bertkit.errors import OutputError, TrainingError
from bertkit.locks import LOCK_FILE, RunLock
from bertkit.run.directory import killed_workers_reported, writes_run


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
    with pytest.raises(TypeError, match="output_dir"):
        written("weights")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="a file of that name exists; give a folder"):
        written("weights", output_dir=tmp_path / "file")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OutputError, match="is a link to nowhere, which does not exist"):
        written("weights", output_dir=tmp_path / "link" / "run")


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


# torch's handler also raises where Python can only print it, as in a finalizer of the connection to the worker.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_data_worker_is_one_message(monkeypatch):
    monkeypatch.setattr(torch.utils.data._utils.signal_handling, "_SIGCHLD_handler_set", False)
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        with pytest.raises(TrainingError) as caught, killed_workers_reported():
            list(torch.utils.data.DataLoader(Killing(), num_workers=1, collate_fn=list))
    finally:
        signal.signal(signal.SIGCHLD, before)
    message = str(caught.value)
    assert message.startswith("DataLoader worker (pid")
    assert "--resume" in message
    assert "\n" not in message
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), killed_workers_reported():
        torch.ones(2, 3) @ torch.ones(2, 3)
