"""Results that are shown: printed as a few lines, written as a page, or shown in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from bertkit.inference.facts import percent
from bertkit.runtime.formats import amount
from bertkit.runtime.pages.page import frame_page, render_page


class Result(ABC):
    """A result with lines for a terminal and a page. Subclasses are dataclasses with ``repr=False``.

    Attributes:
        template: template of its page, in the folder ``templates``; it gets the result as ``shown``.
    """

    template: ClassVar[str]

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the page."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Returns the result for a terminal."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Returns the result as plain data for JSON, without large arrays."""

    def page_values(self) -> dict[str, Any]:
        """Returns further values of the template."""
        return {}

    def html(self) -> str:
        """Returns the page: one HTML file that loads nothing."""
        filters: dict[str, Callable[..., str]] = {
            "number": amount,
            "percent": percent,
            "sentence": lambda words: f"{words[0].upper()}{words[1:]}.",
        }
        values = {"title": self.title, "shown": self, **self.page_values()}
        return render_page("bertkit.features.explain", self.template, "explain.js", "explain.css", filters, **values)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:  # without the arrays
        return str(self)

    def framed(self) -> str:
        """Returns the page as a frame of another one, whose style it does not change."""
        return frame_page(self.html(), self.title)

    def _repr_html_(self) -> str:
        return self.framed()
