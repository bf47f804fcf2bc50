"""Charts as SVG for the page and as PNG files; the same chart gives the same bytes."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertkit.tasks.report_parts import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that readers with any kind of colour vision can tell apart (Okabe and Ito 2008), without the pale yellow.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1d2733", "#8a94a3")
_INK, _LINES = "#1d2733", "#d9dee5"
_PNG_DPI = 160  # 6.4 inches are 1,024 pixels
_IDS = re.compile(r'(\bid="|url\(#|href="#)')
_NAMESPACES = re.compile(r'\s(xmlns(:\w+)?|version)="[^"]*"')
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bertkit",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "medium",
    "axes.edgecolor": _LINES,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8ebf0",
    "grid.linewidth": 0.8,
    "text.color": _INK,
    "xtick.color": _LINES,
    "ytick.color": _LINES,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Drawn:
    """A chart with its picture.

    Attributes:
        chart: the chart.
        svg: an ``svg`` element for HTML, with a text alternative; its ids begin with the prefix of `draw`.
        png: contents of a PNG file; empty unless asked for.
    """

    chart: Chart
    svg: str
    png: bytes


@contextmanager
def style() -> Iterator[None]:
    """Context in which matplotlib draws in the style of the report and prints nothing."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # notices on its caches and fonts
    try:
        from cycler import cycler
        from matplotlib import rc_context, rcParamsDefault

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that its font lacks; browsers have them
            of_user = {key: value for key, value in rcParamsDefault.items() if key != "backend"}
            with rc_context({**of_user, **_STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
                yield
    finally:
        logger.setLevel(level)


def draw(chart: Chart, prefix: str, with_png: bool) -> Drawn:
    """Draws a chart; call it in the context of `style`.

    Args:
        chart: the chart.
        prefix: start of all ids in the SVG, unique in its page.
        with_png: make the PNG file too.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=chart.size, layout="constrained")
    FigureCanvasAgg(figure)
    chart.draw(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout stands, and takes as long as the drawing
    png = _saved(figure, "png", {"Software": None}, dpi=_PNG_DPI) if with_png else b""
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    return Drawn(chart, _embedded(_saved(figure, "svg", no_metadata).decode(), chart, prefix), png)


def _saved(figure: Figure, form: str, metadata: dict[str, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=form, metadata=metadata, **options)
    return stream.getvalue()


def _embedded(svg: str, chart: Chart, prefix: str) -> str:
    """Returns matplotlib's SVG as an element of HTML.

    HTML needs no namespaces; ids get the prefix, since all charts of a page share one space of ids; a style of
    matplotlib for all elements would apply to the page.
    """
    from markupsafe import escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = body.replace("xlink:href", "href")
    opening, _, rest = body.partition(">")
    opening = _NAMESPACES.sub("", re.sub(r'\s(width|height)="[^"]*"', "", opening))
    rest = _IDS.sub(lambda found: f"{found[0]}{prefix}-", rest)
    width = round(chart.size[0] * 96)
    return f'{opening} role="img" aria-label="{escape(chart.alt)}" style="max-width:{width}px">{rest}'
