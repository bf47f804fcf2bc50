"""Of the processes of a machine one tokenizes, and the others read what it made; nothing of that is left behind."""

from __future__ import annotations

import pytest

from .conftest import TORCHRUN

pytestmark = pytest.mark.multiprocess

# The command line, with a note of every split that a process encodes.
NOTING = """\
import os, pathlib, tempfile
from bertkit.cli.app import main
from bertkit.tasks.base import Task

encode_split = Task.encode_split

def noting(self, split, tokenizer):
    with open(pathlib.Path(__file__).with_name("encoded"), "a") as notes:
        notes.write(f"process {os.environ['RANK']}: {len(split.examples)}\\n")
    return encode_split(self, split, tokenizer)

Task.encode_split = noting
tempfile.tempdir = str(pathlib.Path(__file__).with_name("tmp"))
main()
"""


def test_one_process_tokenizes(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "noting.py").write_text(NOTING)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, "--max-steps", "1"]
    command += ["--placement", "cpu", "--output-dir", tmp_path / "out"]
    done = bertkit(command, TORCHRUN, [tmp_path / "noting.py"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "encoded").read_text().splitlines() == ["process 0: 37", "process 0: 11", "process 0: 7"]
    assert not list((tmp_path / "tmp").glob("bertkit-*"))
