"""SCHEDULE.md, and the sentence of the documentation, from the cells that `schedule.py` has measured."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import Any

from schedule import EPOCHS, SCORED, SOURCES


def below(each: dict[str, Any]) -> float:
    """Points that the chosen values are below the best of the grid; negative if they are above."""
    return float(each["best"]["score"] - each["chosen"]["score"])


def is_near(each: dict[str, Any]) -> bool:
    return below(each) <= 1


def is_within(each: dict[str, Any]) -> bool:
    """True unless the whole interval of the difference to the best lies more than one point below it."""
    return is_near(each) or (each["interval"] is not None and each["interval"][1] >= -1)


def is_learned(each: dict[str, Any]) -> bool:
    """True unless always answering the most frequent class scores as much as every run, up to chance (95 %)."""
    if (guess := each["guess"]) is None:  # a score that always answering the same does not reach
        return True
    chance = 1.96 * (guess * (100 - guess) / SCORED) ** 0.5
    return bool(max(each["chosen"]["score"], each["best"]["score"]) > guess + chance)


def seconds_of_three(each: dict[str, Any]) -> float:
    """CPU seconds of three epochs: the mean of the runs of the grid that have three."""
    of_three = [run["seconds"] for run in each["grid"] if run["num_train_epochs"] == min(EPOCHS)]
    return float(sum(of_three) / len(of_three))


def is_quick(each: dict[str, Any]) -> bool:
    return bool(each["chosen"]["seconds"] <= max(2 * seconds_of_three(each), 120))


def above_one_setting(cells: list[dict[str, Any]]) -> float:
    """Points that the chosen values are above the setting of the grid that is the best for all cells, on average."""
    of_settings = zip(*([run["score"] for run in each["grid"]] for each in cells), strict=True)
    return float(mean(each["chosen"]["score"] for each in cells) - max(map(mean, of_settings)))


def sentence(record: dict[str, Any]) -> str:
    """Summary of the cells, for docs/guides/classification.md."""
    cells = record["cells"]
    count, most = len(cells), max(cells, key=below)
    near, within, quick = (sum(map(holds, cells)) for holds in (is_near, is_within, is_quick))
    learned, others = [each for each in cells if is_learned(each)], [each for each in cells if not is_learned(each)]
    titles = in_words(SOURCES[name].title for name in SOURCES if name in {each["table"] for each in cells})
    return (
        f"Cases: {count}, tables of {values_of(cells, 'rows')} rows from {titles}, encoders of "
        f"{values_of(cells, 'layers')} layers, up to {len({each['seed'] for each in cells})} seeds. "
        f"In {near} the choice scored at most one point less than the best of "
        f"nine; in {within} the 95 % interval of the difference allows that. The largest difference was "
        f"{below(most):.1f} points ({SOURCES[most['table']].title}, {most['rows']:,} rows). In {len(others)} cases no "
        "run scored more than always answering the most frequent class, up to chance: there the choice is at most one "
        f"point below in {sum(map(is_near, others))}; in the other {len(learned)} it is in "
        f"{sum(map(is_near, learned))}, and at most {max(map(below, learned)):.1f} points below. On average it scored "
        f"{-mean(map(below, cells)):.1f} points more than the best of nine of each case, and "
        f"{above_one_setting(cells):.1f} more than the one of the nine that is the best for all. In {quick} the run "
        "took at most two minutes, or twice as long as three epochs. `benchmarks/SCHEDULE.md` has each case."
    )


HEAD = (
    "table",
    "rows",
    "layers",
    "seed",
    "chosen",
    "best of nine",
    "most frequent class",
    "its rate and epochs",
    "difference, 95 % interval",
    "seconds, chosen",
    "seconds, three epochs",
)


def page(record: dict[str, Any]) -> str:
    """SCHEDULE.md."""
    cells, machine = list(record["cells"]), record["machine"]
    versions = f"torch {machine['torch']}, transformers {machine['transformers']}"
    lines = [
        "# The chosen learning rate and epochs beside a grid of nine",
        "",
        "Written by `benchmarks/run_all.py --render` from `benchmarks/SCHEDULE.json`; do not edit.",
        "",
        f"`{record['command']}`: an encoder 384 wide, its first {values_of(cells, 'layers')} layers; {machine['cpu']}, "
        f"{versions}, one thread; commits {in_words(sorted({each['commit'] for each in cells}))}.",
        "",
        sentence(record),
        "",
        "The scored rows are seen by no run; a run holds out a tenth of its rows. Runs of the grid keep their best "
        "epoch by these, the chosen one if they are at least 100. The best of nine is selected on the scored rows, so "
        "chance favours it. Seconds are CPU seconds of a run. In a cell that was measured again (`--again`), the other "
        "eight runs of the grid are of earlier commits.",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{' --- |' * len(HEAD)}",
    ]
    order = list(SOURCES)
    for each in sorted(
        cells, key=lambda each: (each["rows"], each["layers"], order.index(each["table"]), each["seed"])
    ):
        best, interval = each["best"], each["interval"]
        ends = "" if interval is None else f" ({interval[0]:+.1f} to {interval[1]:+.1f})"
        row = [
            SOURCES[each["table"]].title,
            f"{each['rows']:,}",
            str(each["layers"]),
            str(each["seed"]),
            f"{each['chosen']['score']:.1f}",
            f"{best['score']:.1f}",
            "" if each["guess"] is None else f"{each['guess']:.1f}",
            f"{best['learning_rate']:g}, {best['num_train_epochs']}",
            f"{0.0 - below(each):+.1f}{ends}",
            f"{each['chosen']['seconds']:.0f}",
            f"{seconds_of_three(each):.0f}",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def values_of(cells: list[dict[str, Any]], key: str) -> str:
    """The values of a key of the cells, in words."""
    return in_words(f"{value:,}" for value in sorted({each[key] for each in cells}))


def in_words(values: Iterable[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} and {last}" if others else last
