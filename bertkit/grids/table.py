"""Results of grids and comparisons as text for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from bertkit.grids.results import BEST, COLLAPSED, OUT_OF_FOLD, GridResults, SettingResult
from bertkit.grids.values import value_label

_OPTIONAL = ("median", "min", "max", "95 % interval")  # left out from the front if the terminal is narrow
_GAP = "  "


def grid_table(results: GridResults, width: int | None = None) -> str:
    """Formats the settings, one line each, with the best one marked, and lines on the best run and on failed runs.

    Args:
        results: results of a grid.
        width: columns of the terminal; None asks the terminal. Statistics that do not fit are left out.
    """
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
        "notes": [notes(row) for row in results.settings],
    }
    if not any(columns["notes"]):
        del columns["notes"]
    lines = fitted(columns, _OPTIONAL, width)
    heading = f"{results.task}: {results.metric} on the validation set"
    return "\n".join([heading, *lines, *_conclusion(results)])


def _conclusion(results: GridResults) -> list[str]:
    lines = []
    if results.best is not None:
        lines.append(f"* {results.note}")
        if len(results.expected_best) > 1:
            lines.append(_expected_best(results.expected_best))
        if results.test is not None:
            lines.append(f"* on the test set: {_test(results.test)}")
        collapsed = any(results.best_run in row.collapsed for row in results.settings)
        lines.append(
            f"best run: {results.output_dir / BEST}, a copy of {results.best_run}, the best of its setting"
            + (", which has collapsed" if collapsed else "")
        )
    if results.out_of_fold is not None:
        score = results.out_of_fold.get(results.metric)
        shown = "" if score is None else f", {results.metric} {score:.4f}"
        lines.append(f"out-of-fold predictions: {results.output_dir / OUT_OF_FOLD}{shown}")
    if any(row.collapsed for row in results.settings):
        lines.append(f"collapsed: {COLLAPSED}")
    for name, error in results.failed.items():
        lines.append(f"failed: {name}: {error}")
    if results.failed:
        lines.append(f"{len(results.failed)} of {len(results.runs)} runs failed; repeat the command to try them again")
    return lines


def _expected_best(scores: Sequence[float]) -> str:
    """Formats the expected best scores for budgets of 1, 2, 4, … settings and of all."""
    budgets = [2**power for power in range(len(scores).bit_length()) if 2**power < len(scores)]
    shown = [f"{scores[budget - 1]:.4f} of {budget}" for budget in (*budgets, len(scores))]
    return f"expected best of a budget of settings (Dodge et al. 2019): {', '.join(shown)}"


def _test(scores: Mapping[str, float | None]) -> str:
    mean, sd, low, high = (scores[name] for name in ("mean", "sd", "low", "high"))
    interval = "" if low is None else f", 95 % interval {low:.4f}–{high:.4f}"
    return f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}") + f"{interval}, n = {scores['n']}"


def fitted(columns: Mapping[str, list[str]], optional: Sequence[str], width: int | None) -> list[str]:
    """Formats columns of text as `aligned` does, without those of ``optional`` for which a terminal has no room.

    Args:
        columns: heading → cells.
        optional: headings, in the order in which they are left out.
        width: columns of the terminal; None asks the terminal.
    """
    width = shutil.get_terminal_size().columns if width is None else width
    columns = dict(columns)
    for name in optional:
        if max(map(len, aligned(columns))) <= width:
            break
        columns.pop(name, None)
    return aligned(columns)


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


def notes(row: SettingResult) -> str:
    """Formats the numbers of failed and collapsed runs, and whether the search pruned the setting."""
    facts: Sequence[tuple[bool | int, str]] = (
        (len(row.failed), f"{len(row.failed)} failed"),
        (len(row.collapsed), f"{len(row.collapsed)} collapsed"),
        (row.pruned, "pruned"),
    )
    return ", ".join(text for holds, text in facts if holds)
