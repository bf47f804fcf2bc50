"""Charts that several kinds of tasks have, drawn by scikit-learn and matplotlib, and their pictures."""

from __future__ import annotations

import base64
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bertkit.progress import counted
from bertkit.reporting.parts import Chart, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLASSES_DRAWN = 20
"""Number of classes up to which a confusion matrix is drawn."""

GREY = "#8a94a3"
_PNG_DPI = 160  # 6.4 inches are 1,024 pixels


class Picture(NamedTuple):
    """A drawn chart: the URL of an SVG image, with the image in it; the contents of a PNG file; the width in pixels."""

    svg: str
    png: bytes
    width: int


def picture(chart: Chart, with_png: bool) -> Picture:
    """Draws a chart; the same chart gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=chart.size, layout="constrained")
        FigureCanvasAgg(figure)
        chart.draw(figure.subplots())
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout stands, and takes as long as the drawing
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        if with_png:
            figure.savefig(png, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    url = f"data:image/svg+xml;base64,{base64.b64encode(svg.getvalue()).decode()}"
    return Picture(url, png.getvalue(), round(chart.size[0] * 96))


@contextmanager
def _style() -> Iterator[None]:
    """Context in which matplotlib draws in the style of the report, whatever the user's, and prints nothing."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # notices on its caches and fonts
    try:
        from matplotlib import rc_context, rcParamsDefault

        with warnings.catch_warnings(), as_file(files("bertkit.reporting") / "templates" / "report.mplstyle") as path:
            warnings.simplefilter("ignore")  # characters that its font lacks; browsers have them
            defaults = {key: value for key, value in rcParamsDefault.items() if key != "backend"}
            with rc_context(defaults), rc_context(fname=path):
                yield
    finally:
        logger.setLevel(level)


def confusion_chart(
    title: str, counts: np.ndarray, names: Sequence[str], unit: tuple[str, str] = ("example", "examples")
) -> Chart:
    """Returns a confusion matrix for page and card: colours are shares of the true class, numbers are counts.

    Args:
        title: of the chart.
        counts: (C, C), true classes by predicted ones.
        names: the C classes.
        unit: singular and plural of what is counted.
    """
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    fontsize = 10 if len(names) <= 6 else 8 if len(names) <= 12 else 6.5

    def draw(axes: Axes) -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        labels = [short(each) for each in names]
        axes.set_xticks(range(len(names)), labels, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), labels)
        axes.set(xlabel="predicted", ylabel="true")
        axes.grid(False)
        for row, column in np.argwhere(counts) if len(names) > 6 else np.ndindex(counts.shape):
            colour = "white" if shares[row, column] > 0.6 else "#1d2733"
            text = f"{counts[row, column]:,}"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=fontsize)

    correct, number = int(np.trace(counts)), int(counts.sum())
    classes = counted(len(names), "class", "classes")
    alt = f"Confusion matrix of {classes}: {correct:,} of {counted(number, *unit, form=',')} on the diagonal."
    note = f"Numbers: {unit[1]}. The colour is the share of the true class."
    side = min(3.2 + 0.34 * max(len(names) - 3, 0), 8.5)
    return Chart("confusion", title, alt, draw, (side + 0.5, side), note, for_card=True)


def reliability_chart(stated: np.ndarray, is_right: np.ndarray, ece: float, bins: int, counts_of: str) -> Chart:
    """Returns a reliability diagram: the accuracy by stated probability, with the number of probabilities of each bin.

    Args:
        stated: (N,), probabilities.
        is_right: (N,), whether the prediction with this probability is right.
        ece: expected calibration error of these values.
        bins: number of bins of equal width.
        counts_of: what has one of these probabilities each, in the plural.
    """

    def draw(axes: Axes) -> None:
        from sklearn.calibration import CalibrationDisplay

        share = np.full(len(stated), 1 / len(stated))
        axes.hist(stated, bins, range=(0, 1), weights=share, rwidth=0.9, alpha=0.25, label=f"share of the {counts_of}")
        CalibrationDisplay.from_predictions(is_right, stated, n_bins=bins, ax=axes, name=f"model, ECE {ece:.4f}")
        axes.set(xlabel="stated probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="upper left")

    alt = f"Reliability diagram with {bins} bins; expected calibration error {ece:.4f}."
    return Chart("reliability", "Reliability of the probabilities", alt, draw, (4.3, 3.8))
