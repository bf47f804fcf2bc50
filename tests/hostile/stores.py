"""Damaged stores of tokens and vocabularies: pre-training gives the weights of whole ones, or names the store."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import damage
from .campaign import Case


def attack(case: Case) -> None:
    made = case.made
    expected, cache = (made.bert / "model.safetensors").read_bytes(), made.runner.home / "bertkit"
    whole = made.folder / "whole-cache"
    if not whole.exists():
        shutil.copytree(cache, whole)
    _replace(cache, whole)
    files = sorted(path for path in cache.rglob("*") if path.is_file() and "lock" not in path.name)
    tokens = [path for path in files if path.suffix == ".arrow"]
    path = case.rng.choice(tokens) if case.number % 2 else case.rng.choice(files)
    kinds = damage.JSON_FILE if path.suffix == ".json" else damage.ANY_FILE
    kind = case.turn([*kinds, _other_value] if path.suffix == ".json" else [damage.flipped, damage.zeroed, *kinds], 2)
    kind(path, case.rng)
    case.note = f"{kind.__name__} {path.relative_to(cache)}"
    outcome = case.run(*made.pretraining(), "--output-dir", "out", names=[path.parent.name, path.name])
    if outcome.code == 0:
        same = (case.work / "out" / "model.safetensors").read_bytes() == expected
        case.check(same, f"other weights than with a whole store; {case.note}")
    left = [str(each.relative_to(cache)) for each in cache.rglob(".unfinished-*")]
    case.check(not left, f"left half-written in the cache; {left}")
    _replace(cache, whole)


def _replace(folder: Path, source: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(source, folder)


def _other_value(path: Path, rng) -> None:
    """Puts a hostile value into the file."""
    damage.hostile_entry(path, rng)
