"""Results of grids and comparisons as text for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from bertkit.grids.results import BEST, OUT_OF_FOLD, GridResults, SettingResult
from bertkit.grids.values import value_label

_OPTIONAL = ("median", "min", "max", "95 % interval")  # left out from the front if the terminal is narrow
_GAP = "  "


def grid_table(results: GridResults, width: int | None = None) -> str:
    """Formats the settings, one line each, with the best one marked, and lines on the best run and on failed runs.

    Args:
        results: results of a grid.
        width: columns of the terminal; None asks the terminal. Statistics that do not fit are left out.
    """
    width = shutil.get_terminal_size().columns if width is None else width
    keys = list(dict.fromkeys(key for row in results.settings for key in row.values))
    columns = {"": [" *"[row.name == results.best] for row in results.settings]}
    columns |= {key.partition(".")[2]: [value_label(row.values.get(key)) for row in results.settings] for key in keys}
    columns |= {
        "n": [str(row.n) for row in results.settings],
        "mean ± sd": [_mean(row) for row in results.settings],
        "median": [_number(row.median) for row in results.settings],
        "min": [_number(row.min) for row in results.settings],
        "max": [_number(row.max) for row in results.settings],
        "95 % interval": [_interval(row) for row in results.settings],
        "notes": [_notes(row) for row in results.settings],
    }
    if not any(columns["notes"]):
        del columns["notes"]
    for name in _OPTIONAL:
        if max(map(len, lines := aligned(columns))) <= width:
            break
        del columns[name]
    lines = aligned(columns)
    heading = f"{results.task}: {results.metric} on the validation set"
    return "\n".join([heading, *lines, *_conclusion(results)])


def _conclusion(results: GridResults) -> list[str]:
    lines = []
    if results.best is not None:
        lines.append(f"* best: {results.note}")
        lines.append(f"best run: {results.output_dir / BEST}, a copy of {results.best_run}, the best of its setting")
    if results.out_of_fold is not None:
        score = results.out_of_fold.get(results.metric)
        shown = "" if score is None else f", {results.metric} {score:.4f}"
        lines.append(f"out-of-fold predictions: {results.output_dir / OUT_OF_FOLD}{shown}")
    for name, error in results.failed.items():
        lines.append(f"failed: {name}: {error}")
    if results.failed:
        lines.append(f"{len(results.failed)} of {len(results.runs)} runs failed; repeat the command to try them again")
    return lines


def aligned(columns: dict[str, list[str]]) -> list[str]:
    """Formats columns of text; the words of a heading, separated by ``_``, stand below each other.

    >>> aligned({"learning_rate": ["2e-05", "5e-05"], "n": ["1", "3"]})
    ['learning', 'rate      n', '2e-05     1', '5e-05     3']
    """
    headings = [name.split("_") for name in columns]
    height = max(map(len, headings))
    parts = [[""] * (height - len(words)) + words for words in headings]
    cells = [[*words, *values] for words, values in zip(parts, columns.values(), strict=True)]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return [_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _mean(row: SettingResult) -> str:
    return _number(row.mean) + ("" if row.sd is None else f" ± {row.sd:.4f}")


def _interval(row: SettingResult) -> str:
    return "-" if row.low is None else f"{row.low:.4f}–{row.high:.4f}"


def _notes(row: SettingResult) -> str:
    notes: Sequence[tuple[bool | int, str]] = (
        (len(row.failed), f"{len(row.failed)} failed"),
        (len(row.collapsed), f"{len(row.collapsed)} collapsed"),
        (row.pruned, "pruned"),
    )
    return ", ".join(text for holds, text in notes if holds)
