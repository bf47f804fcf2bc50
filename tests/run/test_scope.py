"""The scope of a run: the lock of its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import OutputError
from bertkit.locks import LOCK_FILE, RunLock
from bertkit.run.scope import writes_run


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
