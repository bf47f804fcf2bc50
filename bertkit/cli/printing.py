"""Results on stdout, block by block: every line whole, also when the reader goes away or Ctrl-C comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from json import dumps
from pathlib import Path
from typing import Any

import typer

from bertkit.files import uninterrupted

_NOBODY_READS = 141  # what a shell shows of git and grep, which the signal of a broken pipe ends (128 + 13)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines and hands them on at once; where nobody reads them any more the command ends quietly."""
    _print("".join(f"{line}\n" for line in lines))


def print_list(name: str, blocks: Iterable[Iterable[Any]]) -> None:
    """Prints one JSON object with one list, block by block as it comes, as `json.dumps` would print it whole."""
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
        # The interpreter flushes at its end what is left, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(_NOBODY_READS) from None


def print_results(output_dir: Path, metrics: dict[str, float], shown: list[tuple[str, str]], as_json: bool) -> None:
    """Prints a finished run: one JSON object, or the metrics ``shown`` (key, name) and where the rest is."""
    if as_json:
        print(dumps({"output_dir": str(output_dir), **metrics}))
        return
    for key, name in shown:
        if key in metrics:
            print(f"{name} {metrics[key]:.4f}")
    print(f"results, checkpoint and model card: {output_dir}")
