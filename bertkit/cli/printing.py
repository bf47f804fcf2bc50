"""Printing of results to stdout, with complete lines even after a closed pipe or Ctrl-C.

All commands print with these functions, which escape control characters: results hold names and texts of others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bertkit.files import uninterrupted
from bertkit.json_text import dumps
from bertkit.progress import printable

if TYPE_CHECKING:
    from bertkit.run.directory import Run


def print_text(text: object, end: str = "\n") -> None:
    """Prints text or JSON, and a line ending."""
    print(printable(str(text)), end=end)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines that are escaped already and may have colours, and flushes."""
    _print("".join(f"{line}\n" for line in lines))


def print_list(name: str, blocks: Iterable[Iterable[Any]]) -> None:
    """Prints one JSON object with one list incrementally, block by block, formatted as by `json.dumps`."""
    opening = before = f"{{{dumps(name)}: ["
    for block in blocks:
        _print(before + printable(", ".join(dumps(item, ensure_ascii=False) for item in block)))
        before = ", "
    _print(f"{opening}]}}\n" if before == opening else "]}\n")  # there may be no block


def print_address(address: str) -> None:
    """Prints the address of a server as one JSON object, and flushes."""
    _print(printable(dumps({"address": address})) + "\n")


def _print(text: str) -> None:
    with uninterrupted():
        sys.stdout.write(text)
        sys.stdout.flush()


def print_results(run: Run, shown: list[tuple[str, str]], as_json: bool) -> None:
    """Prints the results of a run: one JSON object, or the metrics ``shown`` (key, name) and the output folder."""
    if as_json:
        collapse = {} if run.collapse is None else {"collapse": run.collapse}
        print_text(dumps({"output_dir": str(run.output_dir), **run.metrics, **collapse}))
        return
    for key, name in shown:
        if key in run.metrics:
            print_text(f"{name} {run.metrics[key]:.4f}")
    if run.collapse is not None:
        print_text(f"collapsed: {run.collapse} on the validation set")
    print_text(f"results, checkpoint and model card: {run.output_dir}")
