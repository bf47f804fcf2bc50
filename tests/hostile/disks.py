"""Disks that fill up: a small tmpfs where it can be mounted, else a limit on the size of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .campaign import Case
from .materials import WORDS

PAGE = 4096
SIZES = {"finetune": 400_000, "pretrain": 400_000, "export": 150_000, "tokenizer": 60_000, "copy": 9_000}
SIZES |= {"predict": 12_000, "embed": 30_000, "npz": 20_000, "parquet": 30_000, "extend": 40_000}


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mounts a tmpfs of ``size`` bytes; yields whether that was possible."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def attack(case: Case) -> None:
    made, disk = case.made, case.folder / "work" / "disk"
    name = case.turn(list(SIZES))
    size = int(case.rng.choice([0.02, 0.2, 0.5, 0.9, 1.5, case.rng.random()]) * SIZES[name])
    size = max(PAGE, size // PAGE * PAGE)
    out = disk / "out"
    lines = case.folder / "lines.txt"
    lines.write_text("".join(f"{' '.join(case.rng.choices(WORDS, k=6))}\n" for _ in range(400)))
    words = case.folder / "words.txt"
    words.write_text("grandmothers like doghouses\n" * 9)
    commands = {
        "finetune": [*made.ten_steps, "--output-dir", out],
        "pretrain": [*made.pretraining(4), "--output-dir", out],
        "export": ["export", made.classifier, out],
        "tokenizer": ["tokenizer", "train", "--corpus", made.corpus, "--vocab-size", "80", "--output-dir", out],
        "copy": ["recipes", "copy", "finetune/ner", disk / "mine.yaml"],
        "predict": ["predict", made.classifier, "--input", lines, "--output", disk / "out.jsonl"],
        "embed": ["embed", made.bert, "--input", lines, "--output", disk / "out.jsonl"],
        "npz": ["embed", made.bert, "--input", lines, "--output", disk / "out.npz"],
        "parquet": ["embed", made.bert, "--input", lines, "--output", disk / "out.parquet"],
        "extend": ["tokenizer", "extend", made.bert, "--corpus", words, "--output-dir", out],
    }
    with small_disk(disk, size) as mounted:
        case.note = f"{name} on {size} bytes, {'tmpfs' if mounted else 'limit of file size'}"
        limits = {} if mounted else {"RLIMIT_FSIZE": size}
        grown = [f"out.{form}.partial" for form in ("jsonl", "npz", "parquet")]  # whole rows, as the guide says
        outcome = case.run(*commands[name], names=[str(disk)], allowed=grown, limits=limits)
        if outcome.code == 0:
            return
        named = any(word in outcome.message for word in ("space", "disk is full", "too large", "quota"))
        case.check(outcome.code != 2 or named, f"no word of space; {outcome.message[:200]}")
        _again(case, name, commands[name], disk, mounted)


def _again(case: Case, name: str, command: list, disk: Path, mounted: bool) -> None:
    """With room on the disk the same command, or --resume, has to get to the end."""
    if mounted:
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    out = disk / "out"
    recipe = out / "recipe.yaml"
    begun = name in ("finetune", "pretrain") and recipe.exists() and recipe.stat().st_size
    for partial in disk.glob("*.partial"):  # the user's, by docs/guides/predicting.md
        partial.unlink()
    outcome = case.run(*command, *(["--resume"] if begun else []), names=[str(disk)], must="answer")
    if name == "finetune" and outcome.code == 0:
        expected = (case.made.whole_run / "model.safetensors").read_bytes()
        case.check((out / "model.safetensors").read_bytes() == expected, "other weights after a full disk")
