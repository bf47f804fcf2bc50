"""Printing of results to stdout block by block, with complete lines even after a closed pipe or Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from json import dumps
from pathlib import Path
from typing import Any

import typer

from bertkit.files import uninterrupted

_NOBODY_READS = 141  # 128 + SIGPIPE (13): the exit code that a shell shows for git and grep after a broken pipe


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines and flushes; exits silently if the reader has closed the pipe."""
    _print("".join(f"{line}\n" for line in lines))


def print_list(name: str, blocks: Iterable[Iterable[Any]]) -> None:
    """Prints one JSON object with one list incrementally, block by block, formatted as by `json.dumps`."""
    before = f"{{{dumps(name)}: ["
    for block in blocks:
        _print(before + ", ".join(dumps(item, ensure_ascii=False) for item in block))
        before = ", "
    _print("]}\n")


def _print(text: str) -> None:
    try:
        with uninterrupted():
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        # At exit the interpreter flushes the rest of the buffer, which would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(_NOBODY_READS) from None


def print_results(output_dir: Path, metrics: dict[str, float], shown: list[tuple[str, str]], as_json: bool) -> None:
    """Prints the results of a run: one JSON object, or the metrics ``shown`` (key, name) and the output folder."""
    if as_json:
        print(dumps({"output_dir": str(output_dir), **metrics}))
        return
    for key, name in shown:
        if key in metrics:
            print(f"{name} {metrics[key]:.4f}")
    print(f"results, checkpoint and model card: {output_dir}")
