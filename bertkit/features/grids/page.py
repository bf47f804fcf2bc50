"""The report of a grid: scores of its settings with intervals, collapsed runs and times, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bertkit.features.grids.definition import RUNS
from bertkit.features.grids.results import GridResults, SettingResult, read_results, scored_runs
from bertkit.features.grids.table import conclusions, notes
from bertkit.features.grids.values import value_label
from bertkit.metrics import score_range
from bertkit.recipe.files import run_name
from bertkit.runtime.errors import DataError
from bertkit.runtime.files import check_new_file, read_record, write_whole
from bertkit.runtime.formats import amount
from bertkit.runtime.pages.page import render_page
from bertkit.runtime.progress import duration

PAGE = "report.html"

_WIDTH = 460  # pixels of the axis


class DrawnSetting(NamedTuple):
    """A setting of the drawing and of the table.

    Attributes:
        row: its statistics.
        name: its values in a few words.
        scores: place in pixels, score as text, and whether the run has collapsed, for each finished run.
        mean, low, high: places in pixels; None where they are not known.
        notes: numbers of failed and collapsed runs, and whether the search pruned the setting.
        time: wall time of its finished runs together; empty if unknown.
    """

    row: SettingResult
    name: str
    scores: list[tuple[float | None, str, bool]]
    mean: float | None
    low: float | None
    high: float | None
    notes: str
    time: str


def report_grid(grid: str | Path, *, output: str | Path | None = None) -> Path:
    """Writes the report of a grid of `bertkit.finetune_grid`, finished or not: one HTML file without links to others.

    Args:
        grid: output folder of the grid.
        output: the file, which must not exist. By default ``report.html`` in the folder of the grid, replaced if it
            exists.

    Returns:
        Path of the file.

    Raises:
        OutputError: there is no grid, or the file exists or cannot be written.
        DataError: no run of the grid has finished.

    Examples:
        ```python
        bertkit.report_grid("my-grid", output="grid.html")
        ```
    """
    folder = Path(grid)
    _, results = read_results(folder)
    if output is not None:
        check_new_file(Path(output), f"--output {output}")
    if not any(row.n for row in results.settings):
        raise DataError(f"{folder}: no run of this grid has finished; repeat its command")
    page = folder / PAGE if output is None else Path(output)
    content = _draw_content(results, folder)
    write_whole(page, render_page("bertkit.features.grids", "grid.html", None, "grid.css", **content))
    return page


def _draw_content(results: GridResults, folder: Path) -> dict[str, Any]:
    """Returns what the template shows."""
    records = [record for record in results.runs.values() if record.get("score") is not None]
    scores = [record["score"] for record in records]
    names = {name.removeprefix("eval_") for record in records for name in record["metrics"]}
    ends = [end for row in results.settings for end in (row.low, row.high) if end is not None]
    low, highest, most = min([0.0, *scores, *ends]), max([*scores, *ends]), score_range(results.metric, names)[1]
    # The range of a score of another package is not known.
    high = max(highest, low + 1e-9) if most is None or highest > most else most

    def place(value: float | None) -> float | None:
        return None if value is None else round(_WIDTH * (value - low) / (high - low), 1)

    drawn = []
    for row in results.settings:
        finished = scored_runs(results.runs, row.name)
        marks = [
            (place(record["score"]), f"{name}: {record['score']:.4f}", name in row.collapsed)
            for name, record in finished.items()
        ]
        values = [f"{key.partition('.')[2]} {value_label(value)}" for key, value in row.values.items()]
        seconds = [read_record(folder / RUNS / name / "run.json").get("wall_time") for name in finished]
        known = [each for each in seconds if isinstance(each, int | float)]
        places = place(row.mean), place(row.low), place(row.high)
        time = duration(sum(known)) if known else ""
        drawn.append(DrawnSetting(row, ", ".join(values) or "the recipe", marks, *places, notes(row), time))
    return {
        "results": results,
        "folder": run_name(folder),
        "settings": drawn,
        "conclusions": [f"{line.removeprefix('* ').removesuffix('.')}." for line in conclusions(results)],
        "ticks": [(_WIDTH * part / 4, amount(low + (high - low) * part / 4, digits=4)) for part in range(5)],
        "width": _WIDTH,
    }
