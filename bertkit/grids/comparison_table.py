"""Results of `bertkit.compare` as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from bertkit.errors import shown
from bertkit.grids.compare import Comparison, Comparisons
from bertkit.metrics.statistics import Test

_EXAMPLES = 3  # of each side


def comparison_table(results: Comparisons) -> str:
    """Formats comparisons: scores, difference with interval and p-values, agreement, and some examples."""
    lines = [f"{results.metric} on {results.examples} examples"]
    for comparison in results.comparisons:
        lines += ["", *_lines(comparison, results.examples)]
    return "\n".join([*lines, *(f"note: {note}" for note in results.notes)])


def _lines(found: Comparison, examples: int) -> list[str]:
    counts = found.agreement
    first = " of the first runs" if max(len(found.scores_a), len(found.scores_b)) > 1 else ""
    lines = [
        f"A {_scores(found.scores_a)}  {found.a}",
        f"B {_scores(found.scores_b)}  {found.b}",
        f"B − A by example  {_test(found.by_example)}",
    ]
    if found.by_run.p is not None:
        lines.append(f"B − A by run      {_test(found.by_run)}, {' and '.join(map(str, found.by_run.units))} runs")
    lines += [
        f"right{first}: both {counts.both}, only A {counts.only_a}, only B {counts.only_b}, neither {counts.neither}; "
        f"McNemar p = {counts.mcnemar_p:.3g}",
        f"same prediction: {counts.same} of {examples}",
    ]
    lines += [*_examples("A", found.only_a), *_examples("B", found.only_b)]
    return [*lines, found.verdict]


def _scores(scores: Sequence[float]) -> str:
    return f"{mean(scores):.4f}" + (f" ± {stdev(scores):.4f} (n = {len(scores)})" if len(scores) > 1 else "")


def _test(test: Test) -> str:
    interval = "" if test.low is None else f"  95 % interval {test.low:+.4f} to {test.high:+.4f}"
    p = "" if test.p is None else f"  p = {test.p:.3g}"
    return f"{test.difference:+.4f}{interval}{p}"


def _examples(side: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"only {side} is right: example {row['index']}, gold {shown(row['gold'])}, "
        f"A {shown(row['a'])}, B {shown(row['b'])}"
        for row in rows[:_EXAMPLES]
    ]
