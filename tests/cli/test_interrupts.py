"""Ctrl-C while a command starts: it ends at once, writes nothing and says nothing but that it was interrupted."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import datasets
import pytest

from bertkit.placement.signals import interruptible

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")


SIZES = ["--max-steps", "100000", "--max-seq-length", "32"]


def pressed() -> None:
    """Ctrl-C, and the time until a postponed one arrives."""
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.2)


def test_an_import_does_not_swallow_ctrl_c(tmp_path, monkeypatch):
    """The module has the clause that libraries have around what they import."""
    (tmp_path / "swallowing.py").write_text(
        f"from {__name__} import pressed\ntry:\n    pressed()\nexcept BaseException:\n    pass\ncomplete = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - arrives after the import
        import swallowing

        time.sleep(5)
    assert swallowing.complete


def test_ctrl_c_in_the_last_import_of_the_block_is_raised_at_its_end(tmp_path, monkeypatch):
    (tmp_path / "last_import.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interruptible():
        import last_import  # noqa: F401


def test_what_is_hashed_by_datasets_does_not_swallow_ctrl_c():
    class Hashed:
        def __reduce__(self) -> tuple[type, tuple[()]]:
            pressed()
            return Hashed, ()

    rows, hashed = datasets.Dataset.from_dict({"x": [1]}), Hashed()
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - arrives after the hash
        rows.map(lambda row: {"y": str(hashed)})
        time.sleep(5)


def test_a_finalizer_and_a_callback_do_not_swallow_ctrl_c(capsys):
    class Closed:
        def __del__(self) -> None:
            pressed()

    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - arrives after the finalizer
        Closed()
        time.sleep(5)
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - arrives after the callback
        gc.callbacks.append(lambda *_: gc.callbacks.clear() or pressed())
        gc.collect()
        time.sleep(5)
    assert capsys.readouterr().err == ""


def test_a_script_that_is_imported_itself_can_be_interrupted(tmp_path, monkeypatch):
    (tmp_path / "imported_script.py").write_text(
        "import signal, time\nfrom bertkit.placement.signals import interruptible\n"
        "with interruptible():\n    signal.raise_signal(signal.SIGINT)\n    time.sleep(5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        import imported_script  # noqa: F401
    assert time.monotonic() - began < 4


@pytest.mark.slow
@pytest.mark.parametrize("tenths", [2, 4, 8, 12, 16, 20, 23, 26, 28, 30, 31, 32, 33, 34])
def test_ctrl_c_at_the_start_of_a_training_ends_it(checkpoint: Path, tmp_path: Path, tenths: int):
    """The moments are in the imports and the reading of the data; the training itself would take minutes."""
    table, out = tmp_path / "t.csv", tmp_path / "out"
    table.write_text("text,label\n" + "a good film,1\na bad film,0\n" * 50)
    files = ["--train-file", table, "--validation-file", table, "--model", checkpoint, "--output-dir", out]
    with subprocess.Popen(
        [sys.executable, "-m", "bertkit", "finetune", "classification", *map(str, files), *SIZES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(tenths / 10)
        process.send_signal(signal.SIGINT)
        try:
            printed, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert printed == ""
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
