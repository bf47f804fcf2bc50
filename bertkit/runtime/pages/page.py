"""Rendering of pages of one HTML file: style and script are in it, and its policy allows nothing else.

Jinja2 escapes all values. A feature has its template and its script in its folder ``templates``; the style is shared.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bertkit.runtime.version import __version__

if TYPE_CHECKING:
    from markupsafe import Markup


def render_page(
    package: str,
    template: str,
    script: str | None,
    style: str | None = None,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    tests: Mapping[str, Callable[..., bool]] | None = None,
    **values: Any,
) -> str:
    """Returns the HTML of a page.

    Args:
        package: package whose folder ``templates`` has the files below, such as ``bertkit.features.reporting``.
        template: the template; it gets ``css``, ``script``, ``script_sha256`` for the policy, ``version``, and
            ``values``.
        script: the only script of the page; None for a page without one.
        style: CSS after the shared style.
        filters, tests: those of the template.
        values: further values of the template.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("bertkit.runtime.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters or {}
    environment.tests |= tests or {}
    code = "" if script is None else _file(package, script)
    css = _file("bertkit.runtime.pages", "style.css") + (_file(package, style) if style is not None else "")
    return environment.get_template(template).render(
        **values,
        css=css,
        script=code,
        script_sha256=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() if code else "",
        version=__version__,
    )


def frame_page(page: str, title: str) -> str:
    """Returns a page as a frame of another one, such as a notebook, whose style it does not change."""
    style = "width:100%;height:900px;border:0"
    return f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(page)}" style="{style}"></iframe>'


@cache
def _file(package: str, name: str) -> Markup:
    from markupsafe import Markup

    return Markup((files(package) / "templates" / name).read_text(encoding="utf-8"))
