"""Damage to files: one function for each kind, and hostile values in JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

HOSTILE_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3.5, 10**9, 2**63, 10**40, -(10**9), 1e308, float("nan"), float("inf"), "", "x",
    "0", "gelu", "../../../etc/passwd", "\x1b[31m", "a" * 5000, "é\u202e\u2028", [], {}, [[]], [None], {"": ""},
    {"x": {"x": {}}}, [1, 2, 3],
]  # fmt: skip


def missing(path: Path, rng: Random) -> None:
    """Removes the file."""
    path.unlink()


def empty(path: Path, rng: Random) -> None:
    """Leaves nothing in it, as after a power failure."""
    path.write_bytes(b"")


def truncated(path: Path, rng: Random) -> None:
    """Cuts it somewhere."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def flipped(path: Path, rng: Random) -> None:
    """Flips one bit."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def zeroed(path: Path, rng: Random) -> None:
    """Fills a block with zeros, as after a power failure."""
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    end = min(len(content), start + 512)
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def garbage(path: Path, rng: Random) -> None:
    """Replaces it by random bytes."""
    path.write_bytes(rng.randbytes(rng.choice([1, 8, 300])))


def pointer(path: Path, rng: Random) -> None:
    """Replaces it by what git checks out without git-lfs."""
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


def a_folder(path: Path, rng: Random) -> None:
    """Puts a folder in its place."""
    path.unlink()
    path.mkdir()


def dangling(path: Path, rng: Random) -> None:
    """Puts a link to nothing in its place."""
    path.unlink()
    path.symlink_to("nothing/here")


def a_bare_value(path: Path, rng: Random) -> None:
    """Replaces it by valid JSON of another type."""
    path.write_text(json.dumps(rng.choice(HOSTILE_VALUES)))


Damage = Callable[[Path, Random], None]
ANY_FILE: list[Damage] = [missing, empty, truncated, flipped, zeroed, garbage, pointer, a_folder, dangling]
JSON_FILE: list[Damage] = [*ANY_FILE, a_bare_value]


def hostile_entry(path: Path, rng: Random) -> str:
    """Replaces, removes or adds one entry somewhere in a JSON file; returns what, as ``key=value``."""
    content = json.loads(path.read_text())
    place, key = content, None
    while True:
        keys = sorted(place, key=str) if isinstance(place, dict) else range(len(place))
        if not keys:
            break
        key = rng.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    value = rng.choice(HOSTILE_VALUES)
    if key is None:
        content = value
    elif rng.random() < 0.15:
        del place[key]
        value = "(removed)"
    else:
        place[key] = value
    path.write_text(json.dumps(content))
    return f"{key}={str(value)[:60]!r}"


def copy_of(source: Path, place: Path) -> Path:
    """Copies a folder or a file for the case to damage."""
    shutil.copytree(source, place, symlinks=True) if source.is_dir() else shutil.copy(source, place)
    return place
