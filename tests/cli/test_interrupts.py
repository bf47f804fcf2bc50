"""Ctrl-C while a command starts: it ends at once, writes nothing and says nothing but that it was interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")

IN_AN_IMPORT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100):
        pass
except BaseException:
    raise ImportError("of a library") from None
"""

IN_A_DESTRUCTOR = """
import os, signal, sys
from bertkit.__main__ import main

class Destroyed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass

def run():
    Destroyed()

sys.modules["bertkit.cli.app"] = type(sys)("bertkit.cli.app")
sys.modules["bertkit.cli.app"].main = run
main()
"""


@pytest.mark.parametrize(
    ("module", "arguments"), [(IN_AN_IMPORT, ["-m", "bertkit", "--version"]), ("", ["-c", IN_A_DESTRUCTOR])]
)
def test_dropped_ctrl_c_ends_at_once(tmp_path: Path, module: str, arguments: list[str]):
    """Libraries turn what is raised in an import into their own error; Python prints and ignores it in a destructor."""
    if module:
        (tmp_path / "typer.py").write_text(module)
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
