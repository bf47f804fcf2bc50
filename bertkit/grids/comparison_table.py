"""Results of `bertkit.compare` as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from bertkit.errors import shown
from bertkit.inference.comparison import Comparison, Comparisons

_EXAMPLES = 3  # of each side


def comparison_table(results: Comparisons) -> str:
    """Formats comparisons: scores, the answers to both questions, agreement, and some examples."""
    lines = [f"{results.metric} on {results.examples:,} examples"]
    for comparison in results.comparisons:
        lines += ["", *_lines(comparison, results.examples)]
    return "\n".join([*lines, *(f"note: {note}" for note in results.notes)])


def _lines(comparison: Comparison, examples: int) -> list[str]:
    lines = [
        f"A {_scores(comparison.scores_a)}  {comparison.a}",
        f"B {_scores(comparison.scores_b)}  {comparison.b}",
        *(sentence.replace("? ", "?\n  ", 1) for sentence in (comparison.models, comparison.settings)),
    ]
    counts = comparison.agreement
    if counts is not None:
        first = " of the first runs" if max(len(comparison.scores_a), len(comparison.scores_b)) > 1 else ""
        lines += [
            f"right{first}: both {counts.both}, only A {counts.only_a}, only B {counts.only_b}, neither "
            f"{counts.neither}; same prediction: {counts.same} of {examples}",
        ]
    return [*lines, *_examples("A", comparison.only_a), *_examples("B", comparison.only_b)]


def _scores(scores: Sequence[float | None]) -> str:
    defined = [score for score in scores if score is not None]
    if len(defined) < len(scores):
        return "undefined"
    return f"{mean(defined):.4f}" + (f" ± {stdev(defined):.4f} (n = {len(scores)})" if len(scores) > 1 else "")


def _examples(side: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"only {side} is right: {row['place']}, gold {shown(row['gold'])}, A {shown(row['a'])}, B {shown(row['b'])}"
        for row in rows[:_EXAMPLES]
    ]
