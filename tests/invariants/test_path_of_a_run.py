"""A run of ``finetune`` enters few files: what has nothing to do in a run is not executed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FEATURES = ("features/", "runtime/markdown.py")
"""The report and the card."""


# Prints the files of the package whose functions a run executes; classes, modules and templates do not count.
TRACED = """\
import json, sys, threading
import bertkit
root, files = str(bertkit.__path__[0]) + "/", set()
def entered(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(root) and code.co_filename.endswith(".py"):
        files.add(code.co_filename[len(root):])
model, data_dir, output_dir, overrides = sys.argv[1:]
bertkit.finetune  # the import is not part of the run
sys.setprofile(entered)
threading.setprofile(entered)
bertkit.finetune("sst2", model=model, data_dir=data_dir, output_dir=output_dir, overrides=json.loads(overrides))
sys.setprofile(None)
print(json.dumps(sorted(files)))
"""


@pytest.mark.parametrize(
    ("report", "left_out", "most"), [(True, (), 71), (False, FEATURES, 57)], ids=["with-report", "without"]
)
def test_a_run_enters_few_files(start, glue_folder, tmp_path: Path, report, left_out, most):
    overrides = {"train.num_train_epochs": 1, "data.max_seq_length": 32, "train.report": report}
    done = subprocess.run(
        [sys.executable, "-c", TRACED, start, glue_folder, tmp_path / "run", json.dumps(overrides)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The import system calls the finder of earlier names.
    files = [file for file in json.loads(done.stdout) if not file.startswith((*left_out, "runtime/earlier_names.py"))]
    assert len(files) <= most, f"{len(files)}\n" + "\n".join(files)
