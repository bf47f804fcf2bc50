"""The table of a reproduction, for a terminal and in other forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from bertkit.features.grids.results import COLLAPSED
from bertkit.features.grids.table import failures
from bertkit.features.grids.values import label
from bertkit.features.reproducing.scores import ReproducedRow, Reproduction
from bertkit.runtime.formats import Format, ResultTable, interval_text, score_text
from bertkit.runtime.progress import duration

_INTERVAL = "95 % interval"


def reproduction_table(results: Reproduction, width: int | None = None, format: Format = "text") -> str:
    """Formats the paper's scores beside ours, in per cent.

    Checkpoints of the paper's sizes have one column ``paper``; beside any other one, each model of the paper has one,
    if there are three at most.

    Args:
        results: results of a reproduction.
        width, format: as of `ResultTable.formatted`. A narrow terminal gets no times, and no intervals.
    """
    systems = results.systems if len(results.systems) <= 3 and any(row.system is None for row in results.rows) else ()
    cells = [_cells(row, systems, results.rows) for row in results.rows]
    columns = {name: column for name in cells[0] if any(column := [row[name] for row in cells])}
    heading = (
        f"Table {results.table.rpartition('-')[2]} of the BERT paper (page {results.page}, section {results.section}): "
        f"{results.title}, in per cent"
    )
    several = len({row.model for row in results.rows}) > 1
    reasons = [f"{row.model + ', ' if several else ''}{row.row}: {row.note}" for row in results.rows if row.note]
    totals: dict[str, float] = {}  # of the devices; rows of one run share its time
    for seconds in {(row.model, row.task): row.seconds or {} for row in results.rows}.values():
        for device, number in seconds.items():
            totals[device] = totals.get(device, 0.0) + number
    which = " of the runs of the best settings" if any(row.setting for row in results.rows) else ""
    times = [f"time on {device}{which}: {duration(seconds)}" for device, seconds in totals.items()]
    lines = [*dict.fromkeys(reasons), *times, *(f"note: {note}" for note in results.notes)]
    if any(row.collapsed for row in results.rows):
        lines.append(f"collapsed: {COLLAPSED}; train longer, or change the learning rate")
    lines += failures(results.failed)
    rows = [  # of CSV: the paper's score is that of the model of the same size
        {
            **asdict(row),
            "paper": row.paper.get(row.system or ""),
            "seconds": sum(row.seconds.values()) if row.seconds else None,
            "device": ", ".join(row.seconds or ()),
        }
        for row in results.rows
    ]
    return ResultTable(columns, rows, heading, lines, ("time", _INTERVAL)).formatted(format, width)


def _cells(row: ReproducedRow, systems: Sequence[str], rows: Sequence[ReproducedRow]) -> dict[str, str]:
    papers = {name: score_text(row.paper.get(name), digits=1) for name in systems}
    if not systems:
        papers = {"paper": score_text(row.paper.get(row.system or ""), digits=1)}
    return {
        "model": row.model if len({each.model for each in rows}) > 1 else "",
        "as": row.system or "" if len({each.system for each in rows}) > 1 else "",
        "row": row.row,
        "metric": row.metric,
        "set": row.our_set if len({each.our_set for each in rows}) > 1 else "",
        **papers,
        "ours": score_text(row.mean, row.sd, digits=1),
        _INTERVAL: interval_text(row.low, row.high, digits=1, unknown=""),
        "difference": "" if row.difference is None else f"{row.difference:+.1f}",
        "n": str(row.n) if row.n else "",
        "time": duration(sum(row.seconds.values())) if row.seconds else "",
        "setting": label(row.setting or {}),
        "notes": f"{row.collapsed} collapsed" if row.collapsed else "",
    }
