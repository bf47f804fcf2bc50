"""Results that are shown by a title, sentences and a table: in notebooks as HTML, by `print` as lines."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from bertkit.runtime.formats import name_value_html, name_value_lines


class Summary(NamedTuple):
    """Title, sentences and table of a result.

    Attributes:
        title: heading.
        values: rows of the table: name and value; floats are shown with four decimals.
        sentences: shown above the table.
    """

    title: str
    values: Iterable[tuple[str, object]]
    sentences: Iterable[str] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Returns the rows of the table as texts."""
        return [(name, f"{value:.4f}" if isinstance(value, float) else str(value)) for name, value in self.values]


class Summarized:
    """Base class of results that are shown by a summary.

    >>> class Half(Summarized):
    ...     def summary(self):
    ...         return Summary("a <b>", [("accuracy", 0.5), ("n", 2)], ["1 of 2 is right."])
    >>> print(Half())
    a <b>
    1 of 2 is right.
    accuracy  0.5000
    n         2
    >>> Half()._repr_html_()[:75]
    '<b>a &lt;b&gt;</b><p>1 of 2 is right.</p><table><tr><th>accuracy</th><td>0.'
    """

    def summary(self) -> Summary:
        """Returns what is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        summary = self.summary()
        return "\n".join([summary.title, *summary.sentences, *name_value_lines(summary.rows())])

    def _repr_html_(self) -> str:
        summary = self.summary()
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in summary.sentences)
        return f"<b>{escape(summary.title)}</b>{sentences}{name_value_html(summary.rows())}"
