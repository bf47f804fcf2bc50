"""HTML of results in notebooks: a heading, sentences and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape


def notebook_html(title: str, values: Mapping[str, object], sentences: Iterable[str] = ()) -> str:
    r"""Returns a part of a page, for ``_repr_html_``; all texts are escaped.

    Args:
        title: heading.
        values: rows of the table, name → value; floats have four decimals.
        sentences: shown above the table.

    >>> notebook_html("a <b>", {"accuracy": 0.5}, ["1 of 2 is right."])
    '<b>a &lt;b&gt;</b><p>1 of 2 is right.</p><table><tr><th>accuracy</th><td>0.5000</td></tr></table>'
    """
    shown = {name: f"{value:.4f}" if isinstance(value, float) else str(value) for name, value in values.items()}
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in shown.items())
    lines = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f"<b>{escape(title)}</b>{lines}" + (f"<table>{rows}</table>" if rows else "")
