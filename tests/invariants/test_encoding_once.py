"""One process of a machine tokenizes, and the others read its result.

Only the user can read the files, and none is left behind.
"""

from __future__ import annotations

import stat

import pytest

from .conftest import NO_REPORT, TORCHRUN

pytestmark = pytest.mark.multiprocess

# The command line, with a note of every split that a process encodes.
NOTING = """\
import os, pathlib, sys, tempfile
from bertkit.cli.app import main
from bertkit.tasks import encoding
from datasets import Dataset

beside, fault = pathlib.Path(__file__).with_name, os.environ.get("FAULT")

encode_split = encoding.encode_split

def noting(task, split, tokenizer):
    with open(beside("encoded"), "a") as notes:
        notes.write(f"process {os.environ['RANK']}: {len(split.examples)}\\n")
    return encode_split(task, split, tokenizer)

save_to_disk = Dataset.save_to_disk

def noting_the_mode(self, folder):
    save_to_disk(self, folder)
    parts = folder.relative_to(beside("tmp")).parts
    with open(beside("folders"), "a") as notes:
        notes.write(f"{parts[0]} {beside('tmp').joinpath(parts[0]).stat().st_mode}\\n")
    if fault == "error" and folder.name == "validation":
        raise OSError("a fault while writing")
    if fault == "kill" and folder.name == "validation":
        os.kill(os.getpid(), 9)

encoding.encode_split, Dataset.save_to_disk = noting, noting_the_mode
tempfile.tempdir = str(beside("tmp"))
main()
"""


def test_one_process_tokenizes_in_private(bertkit, tmp_path, start, glue_folder, monkeypatch):
    """Nothing is left, also after an error; the name is another one each time."""
    for fault in ("", "error"):
        monkeypatch.setenv("FAULT", fault)
        done = run(bertkit, tmp_path, start, glue_folder)
        assert (done.returncode == 0) == (fault == ""), done.stderr
        if not fault:
            assert (tmp_path / "encoded").read_text().splitlines() == ["process 0: 37", "process 0: 11", "process 0: 7"]
    noted = [line.split() for line in (tmp_path / "folders").read_text().splitlines()]
    assert {stat.S_IMODE(int(mode)) for _, mode in noted} == {0o700}
    assert len({name for name, _ in noted}) == 2


def test_launcher_removes_it_after_a_kill(bertkit, tmp_path, start, glue_folder, monkeypatch):
    monkeypatch.setenv("FAULT", "kill")
    (tmp_path / "launch.py").write_text(LAUNCHING)
    done = run(bertkit, tmp_path, start, glue_folder, [tmp_path / "launch.py"])
    assert done.returncode == 137
    assert "process 0 of 2 (counted from 0) was killed by SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "folders").exists()


# bertkit's own launcher with the program above in place of bertkit.
LAUNCHING = """\
import pathlib, sys, tempfile
from bertkit.runtime.placement import launch

tempfile.tempdir = str(pathlib.Path(__file__).with_name("tmp"))
popen = launch.subprocess.Popen
launch.subprocess.Popen = lambda words, **rest: popen([words[0], *words[4:]], **rest)
sys.exit(launch.launch(sys.argv[1:], 2))
"""


def run(bertkit, tmp_path, start, glue_folder, launcher=TORCHRUN):
    """A run in a new folder; nothing may be left of the temporary ones."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    (tmp_path / "noting.py").write_text(NOTING)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, "--max-steps", "1"]
    command += [*NO_REPORT, "--placement", "cpu", "--output-dir", tmp_path / f"out{len(list(tmp_path.glob('out*')))}"]
    done = bertkit(command, launcher, [tmp_path / "noting.py"])
    assert not list((tmp_path / "tmp").glob("bertkit-*")), done.stderr
    return done
