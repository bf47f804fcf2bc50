r"""Tables of results as text for a terminal, LaTeX, Markdown and CSV.

>>> table = ResultTable({"run_name": ["a_b", "c"], "mean": ["0.5 ± 0.1", "-"]}, rows=[{"run_name": "a_b", "mean": 0.5}])
>>> print(table.formatted("latex"))
\begin{tabular}{ll}
\toprule
run\_name & mean \\
\midrule
a\_b & 0.5 $\pm$ 0.1 \\
c & - \\
\bottomrule
\end{tabular}
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Format = Literal["text", "latex", "markdown", "csv"]

_GAP = "  "
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "≤": r"$\leq$",
    "×": r"$\times$",
}
_TO_LATEX = str.maketrans(_LATEX)
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")  # a line ending would end a comment or a row


@dataclass(frozen=True)
class ResultTable:
    """Table of results.

    Attributes:
        columns: heading → cells as text, rounded; all of one length.
        rows: the same rows with all digits, for CSV; heading → value. All have the keys of the first one.
        heading: line above the table; empty without one.
        lines: lines below it.
        optional: headings that a narrow terminal gets no column of, in the order in which they are left out.
    """

    columns: Mapping[str, Sequence[str]]
    rows: Sequence[Mapping[str, Any]]
    heading: str = ""
    lines: Sequence[str] = ()
    optional: Sequence[str] = ()

    def formatted(self, format: Format = "text", width: int | None = None) -> str:
        """Formats the table.

        Args:
            format: ``text``; ``latex``, a tabular with the rules of the package booktabs, and the other lines as
                comments; ``markdown``, a table of GitHub's flavour; or ``csv``, the rows alone, with all digits.
            width: of ``text``, columns of the terminal; None asks the terminal.
        """
        if format == "latex":
            return _latex(self)
        if format == "markdown":
            return _markdown(self)
        if format == "csv":
            return to_csv(self.rows).rstrip("\n")
        heading = [self.heading] if self.heading else []
        return "\n".join([*heading, *_fitted(self.columns, self.optional, width), *self.lines])


def _rows(columns: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip(*columns.values(), strict=True))


def _latex(table: ResultTable) -> str:
    comments = [f"% {_SPACE.sub(' ', line)}" for line in (table.heading, *table.lines) if line]
    heading, *rows = [
        " & ".join(latex_escape(cell) for cell in row) + r" \\" for row in (tuple(table.columns), *_rows(table.columns))
    ]
    opening = rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}"
    lines = [opening, r"\toprule", heading, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*comments, *lines])


def latex_escape(text: str) -> str:
    r"""Returns text as one line that LaTeX prints unchanged.

    >>> latex_escape("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return _SPACE.sub(" ", text).strip().translate(_TO_LATEX)


def _markdown(table: ResultTable) -> str:
    from bertkit.runtime import markdown  # a feature, which the other formats do without

    heading, *rows = [[*map(markdown.escape, row)] for row in (tuple(table.columns), *_rows(table.columns))]
    above = [markdown.escape(table.heading), ""] if table.heading else []
    below = ["", *(f"- {markdown.escape(line)}" for line in table.lines)] if table.lines else []
    return "\n".join([*above, markdown.table(heading, rows), *below])


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as CSV with a line of the keys of the first one; None is an empty cell, no rows are empty text."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _fitted(columns: Mapping[str, Sequence[str]], optional: Sequence[str], width: int | None) -> list[str]:
    """Formats columns of text as `aligned` does, without those of ``optional`` for which a terminal has no room."""
    width = shutil.get_terminal_size().columns if width is None else width
    columns = dict(columns)
    for name in optional:
        if max(map(len, aligned(columns)), default=0) <= width:
            break
        columns.pop(name, None)
    return aligned(columns)


def aligned(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Formats columns of text; the words of a heading, separated by ``_``, stand below each other.

    >>> aligned({"learning_rate": ["2e-05", "5e-05"], "n": ["1", "3"]})
    ['learning', 'rate      n', '2e-05     1', '5e-05     3']
    """
    headings = [name.split("_") for name in columns]
    height = max(map(len, headings), default=0)
    parts = [[""] * (height - len(words)) + words for words in headings]
    cells = [[*words, *values] for words, values in zip(parts, columns.values(), strict=True)]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return [_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
