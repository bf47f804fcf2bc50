"""Environments that a shell, a container or a cron job can give: streams, folders, locales, limits, names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .campaign import Case
from .damage import copy_of

NOBODY_READS = 141
ASCII = {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
BYTES = os.fsdecode(b"caf\xe9")
Conditions = dict[str, Any]


def _commands(case: Case) -> dict[str, list[object]]:
    made = case.made
    (case.work / "lines.txt").write_text("the café\na dog\n", encoding="utf-8")
    lines = case.work / "lines.txt"
    return {
        "predict": ["predict", made.classifier, "the café", "a dog"],
        "predict --json": ["predict", made.classifier, "the café", "--json"],
        "predict --input": ["predict", made.classifier, "--input", lines, "--output", case.work / "out.csv"],
        "stdin": ["predict", made.classifier, "--input", "-"],
        "embed": ["embed", made.bert, "the café", "--output", case.work / "vectors.npz"],
        "evaluate": ["evaluate", made.classifier, "--validation-file", made.table],
        "fill-mask": ["fill-mask", made.bert, "the [MASK] café"],
        "list": ["recipes", "list"],
        "show": ["recipes", "show", "finetune/ner"],
        "help": ["finetune", "ner", "--help"],
        "version": ["--version"],
        "validate": ["recipes", "validate", case.work / "none.yaml"],
        "finetune": [*made.training("classification", made.table, schedule=False), "--output-dir", case.work / "run"],
        "export": ["export", made.classifier, case.work / "exported"],
    }


# Each returns the conditions of `Case.run`; ``codes`` are exit codes that are right beside 0 and 2.
def full(case: Case, command: list[object]) -> Conditions:
    """stdout on a full disk."""
    return {"streams": ("", "/dev/full", "")}


def full_stderr(case: Case, command: list[object]) -> Conditions:
    """stderr on a full disk."""
    return {"streams": ("", "", "/dev/full"), "silent": True}


def closed(case: Case, command: list[object]) -> Conditions:
    """stdout closed."""
    return {"streams": ("", None, "")}


def closed_stdin(case: Case, command: list[object]) -> Conditions:
    """stdin closed."""
    return {"streams": (None, "", "")}


def closed_stderr(case: Case, command: list[object]) -> Conditions:
    """stderr closed."""
    return {"streams": ("", "", None), "silent": True}


def all_closed(case: Case, command: list[object]) -> Conditions:
    """No stream at all."""
    return {"streams": (None, None, None), "silent": True}


def no_folder(case: Case, command: list[object]) -> Conditions:
    """A working directory that is deleted."""
    return {"gone": True}


def ascii_locale(case: Case, command: list[object]) -> Conditions:
    """An ASCII locale without UTF-8 mode."""
    return {"environment": ASCII, "own_process": True}


def home_is_a_file(case: Case, command: list[object]) -> Conditions:
    """HF_HOME where no folder can be made."""
    return {"environment": {"HF_HOME": "/dev/null/home"}, "own_process": True}


def no_home(case: Case, command: list[object]) -> Conditions:
    """Neither HOME nor HF_HOME."""
    return {"environment": {"HF_HOME": None, "HOME": "/nonexistent", "XDG_CACHE_HOME": None}, "own_process": True}


def no_temporary_folder(case: Case, command: list[object]) -> Conditions:
    """TMPDIR that does not exist."""
    return {"environment": {"TMPDIR": "/nonexistent", "TEMP": "/nonexistent", "TMP": "/nonexistent"}}


def odd_bytes(case: Case, command: list[object]) -> Conditions:
    """Arguments and names of files that are not UTF-8."""
    command[:] = [BYTES if word in ("the café", "the [MASK] café") else word for word in command]
    for place, word in enumerate(command):
        if isinstance(word, Path) and word.parent == case.work:
            odd = word.with_name(f"{word.stem}-{BYTES}{word.suffix}")
            command[place] = word.rename(odd) if word.exists() else odd
    return {}


def odd_checkpoint(case: Case, command: list[object]) -> Conditions:
    """A checkpoint in a folder with an odd name."""
    for place, word in enumerate(command):
        if isinstance(word, Path) and word.is_dir() and (word / "config.json").exists():
            name = case.rng.choice([BYTES, "a b", "x\ny", "%s{0}", "-x", "é", "x\x1b[31m"])
            command[place] = copy_of(word, case.work / name)
    return {}


def dangling(case: Case, command: list[object]) -> Conditions:
    """Links to nothing where files are to be written."""
    for word in command:
        if isinstance(word, Path) and word.parent == case.work and not word.exists():
            word.symlink_to(case.work / "nothing" / "here")
    return {}


def no_place(case: Case, command: list[object]) -> Conditions:
    """Outputs below a file, and below what cannot be a folder."""
    places = [case.work / "lines.txt", Path("/dev/null"), Path("/proc/self")]
    for place, word in enumerate(command):
        if isinstance(word, Path) and word.parent == case.work and not word.exists():
            command[place] = case.rng.choice(places) / word.name
    return {}


def few_files(case: Case, command: list[object]) -> Conditions:
    """Hardly any file descriptors."""
    return {"limits": {"RLIMIT_NOFILE": case.rng.choice([8, 16, 32])}}


KINDS: list[Callable[[Case, list[object]], Conditions]] = [
    full, closed, no_folder, odd_bytes, closed_stdin, full_stderr, dangling, closed_stderr, no_place, odd_checkpoint,
    no_temporary_folder, all_closed, few_files, ascii_locale, home_is_a_file, no_home,
]  # fmt: skip


def attack(case: Case) -> None:
    kind = case.turn(KINDS)
    commands = _commands(case)
    name = case.rng.choice(["stdin"] * 3 + list(commands) if kind in (closed_stdin, all_closed) else list(commands))
    command = commands[name]
    conditions = kind(case, command)
    silent = conditions.pop("silent", False)
    case.note = f"{name}: {kind.__doc__}"
    if not silent:
        case.run(*command, codes=(0, 2, NOBODY_READS), allowed=["out.csv.partial"], **conditions)
        if kind in (full, closed) and case.outcomes[-1].code == 0:
            quiet = name in ("predict --input",) or (
                kind is closed and name in ("embed", "finetune", "export", "validate")
            )
            case.check(quiet, "exit code 0 although the answer went nowhere")
        return
    # Without stderr there is nothing to read a message from: the exit code and the files are left.
    outcome = case.kill(*command, stop=None, **conditions)
    case.check(not outcome.late and outcome.code in (0, 2, NOBODY_READS), f"exit code {outcome.code} without stderr")
    case.check("Traceback" not in outcome.out, "traceback on stdout")
