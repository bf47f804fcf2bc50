"""Checkpoints of a run: the manifest of their files, and the newest complete one."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from bertkit.files import obey_umask, write_json
from bertkit.progress import say
from bertkit.reading.paths import is_below, leads_out

MANIFEST = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Writes ``manifest.json`` with the size in bytes and the SHA-256 of each file of a checkpoint.

    All files are on disk before the manifest exists, so that a checkpoint with a manifest was complete once.

    Args:
        folder: a checkpoint whose other files are written.
    """
    obey_umask(folder)
    files = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST):
        with path.open("rb+") as stream:  # fsync needs a writable file on some systems
            os.fsync(stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        files[path.name] = {"size": path.stat().st_size, "sha256": digest}
    write_json(folder / MANIFEST, {"files": files})


def find_fault(folder: Path) -> str | None:
    """Compares the files of a checkpoint with its manifest; returns a description of the first difference, or None."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, expected in files.items():
            path = folder / name
            if not is_below(name) or leads_out(path, folder):
                return f"{MANIFEST} names {name!r}, which is not in this folder"
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != expected["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {expected['size']}"
            with path.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != expected["sha256"]:
                    return f"{name} is damaged (its SHA-256 is not that of the manifest)"
    except FileNotFoundError:
        return f"it is incomplete (no {MANIFEST})"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"it cannot be read: {error}"
    return None


def last_checkpoint(output_dir: Path) -> Path | None:
    """Returns the newest complete ``checkpoint-N`` of a run, or None; prints the newer ones that it skips, and why."""
    for folder in reversed(checkpoints_after(-1, output_dir)):
        fault = find_fault(folder)
        if fault is None:
            return folder
        say(f"warning: {folder} is not used: {fault}")
    return None


def checkpoints_after(step: int, output_dir: Path) -> list[Path]:
    """Returns the folders ``checkpoint-N`` of a run with N greater than ``step``, complete or not, by ascending N."""
    found = [(path.name.removeprefix("checkpoint-"), path) for path in output_dir.glob("checkpoint-*")]
    steps = {int(number): path for number, path in found if number.isdecimal()}
    return [steps[number] for number in sorted(steps) if number > step]
