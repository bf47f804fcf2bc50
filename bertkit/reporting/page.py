"""The page of one or several reports, rendered with Jinja2; all values are escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from bertkit import __version__
from bertkit.reporting.content import Content
from bertkit.reporting.figures import Drawn, draw, style
from bertkit.reporting.texts import is_number, number, pieces
from bertkit.tasks.report_parts import Chart, Section


@dataclass(frozen=True)
class DrawnSection:
    """A section with its charts drawn; ``parts`` holds `Drawn` in place of `Chart`."""

    title: str
    note: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class DrawnRun:
    """A run's content with its charts drawn; ``prefix`` begins all ids of its part of the page."""

    content: Content
    prefix: str
    sections: tuple[DrawnSection, ...]

    @property
    def pictures(self) -> dict[str, bytes]:
        """Returns the PNG files by the name of their charts."""
        drawn = [part for section in self.sections for part in section.parts if isinstance(part, Drawn)]
        return {part.chart.name: part.png for part in drawn}


def draw_run(content: Content, prefix: str, with_png: bool = False) -> DrawnRun:
    """Draws all charts of a run."""
    return DrawnRun(content, prefix, tuple(draw_section(each, prefix, with_png) for each in content.sections))


def draw_section(section: Section, prefix: str, with_png: bool = False) -> DrawnSection:
    """Draws the charts of a section."""
    with style():
        parts = tuple(
            draw(part, f"{prefix}-{part.name}", with_png) if isinstance(part, Chart) else part for part in section.parts
        )
    return DrawnSection(section.title, section.note, parts)


def render(title: str, runs: Sequence[DrawnRun], comparison: Any = None) -> str:
    """Returns the HTML of a page.

    Args:
        title: title of the page.
        runs: the runs, one or several.
        comparison: contents of the comparison of several runs, see `bertkit.reporting.side_by_side`.
    """
    script = _file("table.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        title=title,
        runs=runs,
        comparison=comparison,
        css=_file("style.css"),
        script=script,
        script_sha256=digest,
        version=__version__,
    )


@cache
def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup((files("bertkit.reporting") / "templates" / name).read_text(encoding="utf-8"))


def _source(name: str) -> str:
    return str(_file(name))


@cache
def _template() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "pieces": pieces, "safe_svg": Markup, "is_number": is_number}
    environment.tests |= {"drawn": lambda part: isinstance(part, Drawn)}
    return environment.get_template("report.html")
