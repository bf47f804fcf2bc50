"""The page of one or several reports, rendered with Jinja2; all values are escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from bertkit import __version__
from bertkit.reporting.charts import Picture, picture
from bertkit.reporting.content import Content
from bertkit.reporting.parts import Chart, Section
from bertkit.reporting.remarks import readable
from bertkit.reporting.texts import is_number, number, pieces


class DrawnRun(NamedTuple):
    """The content of a run, the start of all ids of its part of the page, and its pictures by the name of the chart."""

    content: Content
    prefix: str
    pictures: dict[str, Picture]


def draw(sections: Iterable[Section], with_png: bool = False) -> dict[str, Picture]:
    """Draws all charts of some sections; returns the pictures by the name of their charts."""
    charts = [part for section in sections for part in section.parts if isinstance(part, Chart)]
    return {chart.name: picture(chart, with_png) for chart in charts}


def draw_run(content: Content, prefix: str, with_png: bool = False) -> DrawnRun:
    """Draws all charts of a run."""
    return DrawnRun(content, prefix, draw(content.sections, with_png))


def render(title: str, runs: Sequence[DrawnRun], comparison: Any = None) -> str:
    """Returns the HTML of a page.

    Args:
        title: title of the page.
        runs: the runs, one or several.
        comparison: the comparison of several runs, see `bertkit.reporting.comparison`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bertkit.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "pieces": pieces, "is_number": is_number, "readable": readable}
    environment.tests |= {"chart": lambda part: isinstance(part, Chart)}
    return environment.get_template("report.html").render(
        title=title,
        runs=runs,
        comparison=comparison,
        pictures={} if comparison is None or comparison.curves is None else draw([comparison.curves]),
        css=_file("style.css"),
        script=_file("table.js"),
        script_sha256=base64.b64encode(hashlib.sha256(_file("table.js").encode()).digest()).decode(),
        version=__version__,
    )


@cache
def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup((files("bertkit.reporting") / "templates" / name).read_text(encoding="utf-8"))
