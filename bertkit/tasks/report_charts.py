"""Charts that several tasks draw, on axes of matplotlib.

Colours come from the cycle that `bertkit.reporting.figures` sets, so that all charts of a report are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.progress import counted
from bertkit.tasks.report_parts import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CLASSES_DRAWN = 20
"""Number of classes up to which a confusion matrix is drawn."""

_LONGEST_NAME = 18  # characters of a class on an axis
SHADES = "Blues"
GREY = "#8a94a3"


def short(name: str, most: int = _LONGEST_NAME) -> str:
    """Returns a name for an axis: one line of at most ``most`` characters."""
    line = " ".join(name.split()) or "(empty)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


def confusion_charts(
    name: str,
    title: str,
    counts: np.ndarray,
    names: Sequence[str],
    *,
    unit: tuple[str, str] = ("example", "examples"),
    for_card: bool = False,
) -> list[Chart]:
    """Returns two confusion matrices: the shares of each true class, and the counts.

    Args:
        name, title: of the first chart.
        counts: (C, C), true classes by predicted ones.
        names: the C classes.
        unit: singular and plural of what is counted.
        for_card: whether the model card shows the first one.
    """
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    right, number = int(np.trace(counts)), int(counts.sum())
    classes = counted(len(names), "class", "classes")
    alt = f"Confusion matrix of {classes}: {right:,} of {counted(number, *unit, form=',')} on the diagonal."
    side = min(2.7 + 0.34 * max(len(names) - 3, 0), 8.0)
    size = (side + 1.0, side + 0.5)
    return [
        Chart(
            name, f"{title}, share of each true class", alt, _matrix(shares, names, "{:.2f}"), size, for_card=for_card
        ),
        Chart(f"{name}-counts", f"{title}, number of {unit[1]}", alt, _matrix(counts, names, "{:,d}"), size),
    ]


def _matrix(values: np.ndarray, names: Sequence[str], form: str) -> Callable[[Figure], None]:
    fontsize = 10 if len(names) <= 6 else 8 if len(names) <= 12 else 6.5

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.imshow(values, cmap=SHADES, vmin=0, vmax=max(float(values.max()), 1e-9))
        axes.set(xlabel="predicted", ylabel="true")
        axes.set_xticks(range(len(names)), [short(each) for each in names], rotation=45, ha="right")
        axes.set_yticks(range(len(names)), [short(each) for each in names])
        axes.grid(False)
        for row, column in np.ndindex(values.shape):
            value = values[row, column]
            if value or len(names) <= 6:
                colour = "white" if value > 0.6 * values.max() else "#1d2733"
                axes.text(column, row, form.format(value), ha="center", va="center", color=colour, fontsize=fontsize)

    return draw


def curve_chart(
    name: str,
    title: str,
    curves: Sequence[tuple[str, Any, Any]],
    *,
    labels: tuple[str, str],
    alt: str,
    note: str = "",
    diagonal: bool = False,
    steps: bool = False,
) -> Chart:
    """Returns a chart of curves between 0 and 1 in both directions.

    Args:
        name, title, alt, note: of the chart.
        curves: name, x and y of each.
        labels: of both axes.
        diagonal: draw the line from (0, 0) to (1, 1).
        steps: draw steps, the value of the right end of each.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if diagonal:
            axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
        for number, (label, x, y) in enumerate(curves):
            axes.plot(
                *(x, y),
                label=short(label, 40),
                linestyle=("-", "--", "-.", ":")[number // 8 % 4],
                drawstyle="steps-post" if steps else "default",
            )
        axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
        axes.legend(fontsize=8, loc="best")

    return Chart(name, title, alt, draw, (4.3, 3.8), note)


def reliability_chart(stated: np.ndarray, is_right: np.ndarray, ece: float, bins: int, counts_of: str) -> Chart:
    """Returns a reliability diagram: the accuracy by stated probability, and the number of probabilities below it.

    Args:
        stated: (N,), probabilities.
        is_right: (N,), whether the prediction with this probability is right.
        ece: expected calibration error of these values.
        bins: number of bins of equal width.
        counts_of: what has one of these probabilities each, in the plural.
    """
    places = np.minimum((stated * bins).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins)
    filled = counts > 0
    mean_stated = np.bincount(places, weights=stated, minlength=bins)[filled] / counts[filled]
    observed = np.bincount(places, weights=is_right, minlength=bins)[filled] / counts[filled]
    centres = (np.arange(bins) + 0.5) / bins

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1, label="perfect calibration")
        above.bar(centres[filled], observed, width=0.9 / bins, color="C0", alpha=0.25)
        above.plot(mean_stated, observed, marker="o", markersize=4, color="C0", label=f"model, ECE {ece:.4f}")
        above.set(ylabel="observed frequency", ylim=(0, 1.02), xlim=(0, 1))
        above.legend(fontsize=8, loc="upper left")
        below.bar(centres, counts, width=0.9 / bins, color="C0", alpha=0.6)
        below.set(xlabel="stated probability", ylabel=counts_of)

    alt = f"Reliability diagram with {bins} bins; expected calibration error {ece:.4f}."
    return Chart("reliability", "Reliability of the probabilities", alt, draw, (4.3, 3.8))


def bar_chart(
    name: str,
    title: str,
    bars: Sequence[tuple[str, float, int]],
    *,
    labels: tuple[str, str],
    note: str = "",
    highest: float | None = 1.0,
) -> Chart:
    """Returns a bar for each group, labelled with its score and its number of examples.

    Args:
        name, title, note: of the chart.
        bars: name, score and number of examples of each group.
        labels: of the groups, and of the score.
        highest: upper end of the axis; None fits it to the bars.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        values = [value for _, value, _ in bars]
        places = range(len(bars))
        axes.bar(places, values, color="C0", width=0.72)
        axes.set_xticks(places, [f"{short(each)}\nn = {number:,}" for each, _, number in bars], fontsize=8)
        top = highest if highest is not None else 1.12 * max([*values, 1e-9])
        low = min([*values, 0.0])
        axes.set(xlabel=labels[0], ylabel=labels[1], ylim=(1.12 * low, 1.08 * top))
        axes.grid(axis="x", visible=False)
        digits = 2 if top <= 1.5 else 1
        for place, value in zip(places, values, strict=True):
            axes.text(place, max(value, 0), f"{value:.{digits}f}", ha="center", va="bottom", fontsize=8)

    listed = "; ".join(f"{each} {value:.3f} ({number:,})" for each, value, number in bars)
    size = (min(max(4.4, 0.72 * len(bars)), 6.4), 3.1)
    return Chart(name, title, f"{labels[1]} by {labels[0]}: {listed}.", draw, size, note)


def scatter(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Draws points whose density can be seen where they overlap."""
    axes.scatter(x, y, s=12, alpha=0.35, linewidths=0, color="C0", rasterized=len(x) > 2_000)
