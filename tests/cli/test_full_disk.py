"""Commands on a disk that fills up: one message, nothing half-written; the same command works once there is room."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bertkit

# Runs a command on a disk of $1 KiB, prints its exit code and the files there, and runs it again with room.
SCRIPT = """
mount -t tmpfs -o size=$(($1 + 4))k none "$2" || exit 99
cd "$2"; shift 2
head -c 4096 /dev/zero >filler  # tmpfs counts pages of 4 KiB
"$@" >../first 2>&1; echo $?
rm filler
find . -mindepth 1 | sort >../files
mount -o remount,size=200m none . || exit 99
[ -z "$RESUME" ] || [ ! -e new/recipe.yaml ] || set -- "$@" --resume
"$@" >../second 2>&1; echo $?
find . -mindepth 1 -name '.[ut]*'
"""
TRAIN = [
    "--max-steps",
    "4",
    "--max-seq-length",
    "32",
    "--set",
    "train.save_strategy=steps",
    "--set",
    "train.load_best_model_at_end=false",
    "--set",
    "train.save_steps=2",
    "--set",
    "placement.device=cpu",
]
NEW = ["--output-dir", "new"]
# Each with a size in KiB that is surely too small: about half of what the files take, which depends on the versions of
# the libraries that write them.
COMMANDS = {
    "finetune": (["finetune", "classification", "--model", "CHECKPOINT", "--train-file", "TABLE", *TRAIN, *NEW], 448),
    "pretrain": (["pretrain", "--model", "CHECKPOINT", "--corpus", "TEXTS", *TRAIN, *NEW], 448),
    "tokenizer": (["tokenizer", "train", "--corpus", "TEXTS", "--vocab-size", "90", *NEW], 0),
    "extend": (["tokenizer", "extend", "CHECKPOINT", "--corpus", "TEXTS", "--min-frequency", "1", *NEW], 40),
    "copy": (["recipes", "copy", "finetune/glue/sst2", "new.yaml"], 0),
    "export": (["export", "CHECKPOINT", "new"], 40),
    "fill": (["embed", "CHECKPOINT", "--input", "TABLE", "--output", "new.jsonl"], 20),
    "npz": (["embed", "CHECKPOINT", "--input", "TABLE", "--output", "new.npz"], 8),
    "parquet": (["embed", "CHECKPOINT", "--input", "TABLE", "--output", "new.parquet"], 0),
}


def can_mount() -> bool:
    """Returns whether a process can mount a small disk in its own namespace."""
    if shutil.which("unshare") is None:
        return False
    call = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(call, capture_output=True).returncode == 0


def sizes(command: str, largest: int) -> list[int]:
    """Draws sizes of the disk in KiB, multiples of 4 up to ``largest``."""
    rng = random.Random(command)
    return sorted({0, *(4 * rng.randrange(largest // 4 + 1) for _ in range(2 if largest > 100 else 1))})


CASES = [(name, size) for name, (_, largest) in COMMANDS.items() for size in sizes(name, largest)]


@pytest.fixture(scope="module")
def given(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("given")
    rng = random.Random(8)
    rows = [f"the {rng.choice(['film', 'plot'])} is {word},{word}" for word in ("lovely", "awful") * 40]
    (folder / "table.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "texts").mkdir()
    for number in range(4):
        (folder / "texts" / f"{number}.txt").write_text("The film is good. The plot is bad. It is lovely.\n" * 20)
    return {"CHECKPOINT": str(checkpoint), "TABLE": str(folder / "table.csv"), "TEXTS": str(folder / "texts")}


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="no small disk can be mounted here")
@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_full_disk(name, size, given, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments = [given.get(word, word) for word in COMMANDS[name][0]]
    environment = {
        "PYTHONPATH": str(Path(bertkit.__file__).parents[1]),
        "HF_HOME": str(tmp_path / "cache"),
        "RESUME": "yes" if name in ("finetune", "pretrain") else "",
    }
    call = [SCRIPT, "script", str(size), disk, sys.executable, "-m", "bertkit", *arguments]
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", *call],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    first, second, *temporary = done.stdout.splitlines()
    said, files = (tmp_path / "first").read_text(), (tmp_path / "files").read_text().split()
    assert "Traceback" not in said, said
    assert first == "2", said
    assert said.count("bertkit: error: ") == 1, said
    assert "cannot be written: " in said, said
    assert "are free there; make room" in said, said
    left = [file for file in files if "/.unfinished-" in file or "/.tmp" in file]
    assert left == []
    assert name in ("finetune", "pretrain") or files == []
    assert second == "0", (tmp_path / "second").read_text()
    assert temporary == []
