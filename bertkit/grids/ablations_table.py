"""Results of `bertkit.ablations` as CSV, and as text for a terminal."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from bertkit.grids.table import fitted, notes

if TYPE_CHECKING:
    from bertkit.grids.ablations import Ablations
    from bertkit.metrics.statistics import Test

_OF_DIFFERENCE = "95 % interval of it"


def ablations_csv(results: Ablations) -> str:
    """Formats the results as CSV, a row for each variant and task."""
    text = io.StringIO()
    names = ("variant", "task", "metric", "n", "mean", "sd", "low", "high", "difference", "difference_low")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "difference_high", "p", "adjusted_p", "collapsed"])
    for variant, of_variant in results.tasks.items():
        for task, found in of_variant.items():
            row, test = found.scores, found.difference
            values = [test.difference, test.low, test.high, test.p, test.adjusted_p] if test else [None] * 5
            scores = [row.n, row.mean, row.sd, row.low, row.high]
            writer.writerow([variant, task, found.metric, *scores, *values, len(row.collapsed)])
    return text.getvalue()


def _p(test: Test) -> str:
    text = test.p_text if test.adjusted_p is None else test.adjusted_text
    return text.removeprefix("p ").removeprefix("= ")


def ablations_table(results: Ablations, width: int | None = None) -> str:
    """Formats the results for a terminal: a line for each variant and task, with the difference from the first.

    Args:
        results: results of the ablations.
        width: columns of the terminal; None asks the terminal. Intervals that do not fit are left out.
    """
    first = next(iter(results.tasks))
    rows = []
    for variant, of_variant in results.tasks.items():
        for task, found in of_variant.items():
            row, test = found.scores, found.difference
            spread = "" if row.sd is None else f" ± {row.sd:.4f}"
            cells = {"variant": variant, "task": task, "metric": found.metric, "n": str(row.n)}
            cells |= {
                "mean ± sd": f"{row.mean:.4f}{spread}",
                "95 % interval": "" if row.low is None else f"{row.low:.4f}–{row.high:.4f}",
                f"− {first}": "" if test is None or test.difference is None else f"{test.difference:+.4f}",
                _OF_DIFFERENCE: "" if test is None or test.low is None else f"{test.low:+.4f} to {test.high:+.4f}",
                "p": "" if test is None else _p(test),
                "notes": notes(row),
            }
            rows.append(cells)
    columns = {name: column for name in rows[0] if any(column := [row[name] for row in rows])} if rows else {}
    lines = fitted(columns, ("95 % interval", _OF_DIFFERENCE), width) if columns else []
    lines += [f"note: {note}" for note in results.notes]
    lines += [f"failed: {name}: {error}" for name, error in results.failed.items()]
    if results.failed:
        lines.append(f"{len(results.failed)} runs failed; repeat the command to try them again")
    return "\n".join(lines)
