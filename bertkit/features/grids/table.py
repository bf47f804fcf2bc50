"""Tables of the results of grids, comparisons and ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from bertkit.features.grids.results import BEST, COLLAPSED, GridResults, SettingResult, setting_rows
from bertkit.features.grids.values import value_label
from bertkit.inference.comparison import Comparisons
from bertkit.inference.outcome import OUT_OF_FOLD_FILE
from bertkit.runtime.errors import shown
from bertkit.runtime.formats import Format, ResultTable, interval_text, score_text
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from bertkit.metrics.statistics import Test

_OPTIONAL = ("median", "min", "max", "95 % interval")  # left out from the front if the terminal is narrow
_EXAMPLES = 3  # of each side of a comparison
OF_DIFFERENCE = "95 % interval of it"


def grid_table(results: GridResults, width: int | None = None, format: Format = "text") -> str:
    """Formats the settings, one line each, with the best one marked, and lines on the best run and on failed runs.

    Args:
        results: results of a grid.
        width, format: as of `ResultTable.formatted`. Statistics that do not fit into the terminal are left out.
    """
    keys = list(dict.fromkeys(key for row in results.settings for key in row.values))
    columns = {"": ["*" if row.name == results.best else " " for row in results.settings]}
    columns |= {key.partition(".")[2]: [value_label(row.values.get(key)) for row in results.settings] for key in keys}
    columns |= {
        "n": [str(row.n) for row in results.settings],
        "mean ± sd": [score_text(row.mean, row.sd) for row in results.settings],
        "median": [score_text(row.median) for row in results.settings],
        "min": [score_text(row.min) for row in results.settings],
        "max": [score_text(row.max) for row in results.settings],
        "95 % interval": [interval_text(row.low, row.high) for row in results.settings],
        "notes": [notes(row) for row in results.settings],
    }
    if not any(columns["notes"]):
        del columns["notes"]
    heading = f"{results.task}: {results.metric} on the validation set"
    table = ResultTable(columns, setting_rows(results), heading, conclusions(results), _OPTIONAL)
    return table.formatted(format, width)


def conclusions(results: GridResults) -> list[str]:
    """Returns lines on the best setting, its run, and collapsed and failed runs."""
    lines = []
    if results.best is not None:
        lines.append(f"* {results.note}")
        if len(scores := results.expected_best) > 1:
            budgets = [2**power for power in range(len(scores).bit_length()) if 2**power < len(scores)]
            parts = [f"{scores[budget - 1]:.4f} of {budget}" for budget in (*budgets, len(scores))]
            lines.append(f"expected best of a budget of settings (Dodge et al. 2019): {', '.join(parts)}")
        if (test := results.test) is not None:
            ends = "" if test["low"] is None else f", 95 % interval {interval_text(test['low'], test['high'])}"
            lines.append(f"* on the test set: {score_text(test['mean'], test['sd'])}{ends}, n = {test['n']}")
        collapsed = any(results.best_run in row.collapsed for row in results.settings)
        run, place = str(results.best_run), results.output_dir / BEST
        if place.is_dir() and not results.unfinished:
            run = f"{place}, a copy of {run}"
        lines.append(f"best run: {run}, the best of its setting" + (", which has collapsed" if collapsed else ""))
    if results.out_of_fold is not None:
        score = results.out_of_fold.get(results.metric)
        of_metric = "" if score is None else f", {results.metric} {score:.4f}"
        lines.append(f"out-of-fold predictions: {results.output_dir / OUT_OF_FOLD_FILE}{of_metric}")
    if any(row.collapsed for row in results.settings):
        lines.append(f"collapsed: {COLLAPSED}")
    return [*lines, *failures(results.failed, len(results.runs))]


def failures(failed: Mapping[str, str], runs: int | None = None) -> list[str]:
    """Formats the errors of failed runs, a line each, and their number, of all ``runs``."""
    lines = [f"failed: {name}: {error}" for name, error in failed.items()]
    number = counted(len(failed), "run") if runs is None else f"{len(failed)} of {counted(runs, 'run')}"
    return [*lines, f"{number} failed; repeat the command to try again"] if failed else []


def notes(row: SettingResult) -> str:
    """Formats the numbers of failed and collapsed runs, and whether the search pruned the setting."""
    facts: Sequence[tuple[bool | int, str]] = (
        (len(row.failed), f"{len(row.failed)} failed"),
        (len(row.collapsed), f"{len(row.collapsed)} collapsed"),
        (row.pruned, "pruned"),
    )
    return ", ".join(text for holds, text in facts if holds)


# ---- comparisons -----------------------------------------------------------------------------------------------------


def comparison_table(results: Comparisons, format: Format = "text") -> str:
    """Formats comparisons.

    Args:
        results: results of a comparison.
        format: ``text`` has the verdict on each run, scores, the answers to both questions, agreement, and some
            examples; the other formats of `ResultTable.formatted` have a row for each comparison.
    """
    if format != "text":
        return _tabulate(results).formatted(format)
    lines = [results.heading]
    for name, sentences in results.verdicts.items():
        lines += ["", name, *(f"  {sentence}" for sentence in sentences)]
    for each in results.comparisons:
        lines += [
            "",
            f"A {_format_scores(each.scores_a)}  {each.a}",
            f"B {_format_scores(each.scores_b)}  {each.b}",
            *(sentence.replace("? ", "?\n  ", 1) for sentence in (each.models, each.settings)),
        ]
        if (counts := each.agreement) is not None:
            first = " of the first runs" if max(len(each.scores_a), len(each.scores_b)) > 1 else ""
            lines.append(
                f"right{first}: both {counts.both}, only A {counts.only_a}, only B {counts.only_b}, neither "
                f"{counts.neither}; same prediction: {counts.same} of {results.examples}"
            )
        lines += [*_format_examples("A", each.only_a), *_format_examples("B", each.only_b)]
    return "\n".join([*lines, *(f"note: {note}" for note in results.notes)])


def _tabulate(results: Comparisons) -> ResultTable:
    columns: dict[str, list[str]] = {}
    rows: list[dict[str, Any]] = []
    for each in results.comparisons:
        test = each.by_example
        cells = {
            "A": each.a,
            "B": each.b,
            f"{results.metric} of A": _format_scores(each.scores_a),
            f"{results.metric} of B": _format_scores(each.scores_b),
            "B − A": "undefined" if test.difference is None else f"{test.difference:+.4f}",
            OF_DIFFERENCE: interval_of_test(test),
            "p": p_of_test(test),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
        rows.append(
            {"a": each.a, "b": each.b, "metric": results.metric, "examples": results.examples}
            | {"mean_a": _mean_of(each.scores_a), "n_a": len(each.scores_a)}
            | {"mean_b": _mean_of(each.scores_b), "n_b": len(each.scores_b)}
            | cells_of_test(test)
        )
    are_several = len(results.comparisons) > 1  # then each sentence says which of them it is about
    sentences = [
        f"A {each.a}, B {each.b}: {sentence}" if are_several else sentence
        for each in results.comparisons
        for sentence in (each.models, each.settings)
    ]
    return ResultTable(columns, rows, results.heading, [*sentences, *(f"note: {note}" for note in results.notes)])


def cells_of_test(test: Test | None) -> dict[str, float | None]:
    """Returns the cells of a difference in CSV."""
    values = [test.difference, test.low, test.high, test.p, test.adjusted_p] if test else [None] * 5
    return dict(zip(("difference", "difference_low", "difference_high", "p", "adjusted_p"), values, strict=True))


def interval_of_test(test: Test | None) -> str:
    """Formats the interval of a difference; empty without one."""
    return "" if test is None or test.low is None else f"{test.low:+.4f} to {test.high:+.4f}"


def _mean_of(scores: Sequence[float | None]) -> float | None:
    """Returns the mean, None if a score is undefined."""
    defined = [score for score in scores if score is not None]
    return mean(defined) if len(defined) == len(scores) else None


def _format_scores(scores: Sequence[float | None]) -> str:
    average = _mean_of(scores)
    if average is None:
        return "undefined"
    defined = [score for score in scores if score is not None]
    return f"{average:.4f}" + (f" ± {stdev(defined):.4f} (n = {len(scores)})" if len(scores) > 1 else "")


def _format_examples(side: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"only {side} is right: {row['place']}, gold {shown(row['gold'])}, A {shown(row['a'])}, B {shown(row['b'])}"
        for row in rows[:_EXAMPLES]
    ]


def p_of_test(test: Test) -> str:
    """Formats the p-value of a difference, the adjusted one of several."""
    text = test.p_text if test.adjusted_p is None else test.adjusted_text
    return text.removeprefix("p ").removeprefix("= ")
