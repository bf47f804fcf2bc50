r"""Tables of results: drawn by rich for a terminal, and as LaTeX, Markdown, CSV and HTML.

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
import html
import io
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from bertkit.runtime import markdown
from bertkit.runtime.progress import printable, wants_colours

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Format = Literal["text", "latex", "markdown", "csv"]

WIDEST = 10_000  # characters of a line in files and pipes
_TO_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "−": "$-$",
        "–": r"\textendash{}",  # as hyphens it would join the minus sign of a number after it
        "*": "{*}",  # first in a row, it would belong to the end of the row before
        "[": "{[}",  # the same, and to a rule
        "≤": r"$\leq$",
        "×": r"$\times$",
    }
)
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")  # a line ending would end a comment or a row


def amount(value: float, digits: int = 3) -> str:
    """Formats a number in so many digits, a larger one without decimals, and one from ten millions with an exponent.

    >>> amount(12.3456), amount(999.7), amount(-105_800.2), amount(1.2e12), amount(1234.56, digits=4)
    ('12.3', '1,000', '-105,800', '1.2e+12', '1,235')
    """
    is_large = 10**digits - 0.5 <= abs(value) < 1e7
    return f"{value:,.0f}" if is_large else f"{value:,.{digits}g}"


@dataclass(frozen=True)
class ResultTable:
    """Table of results.

    Attributes:
        columns: heading → cells as text, rounded; all of one length.
        rows: the same rows with all digits, for CSV; heading → value. All have the keys of the first one.
        heading: line above the table; empty without one.
        lines: lines below it.
        optional: headings that a narrow terminal gets no column of, in the order in which they are left out.
        styles: heading → style of each cell, such as ``red``, in terminals with colours.
        is_ruled: with a line below the headings; what is too wide is folded in the first column and cut in others.
    """

    columns: Mapping[str, Sequence[str]]
    rows: Sequence[Mapping[str, Any]] = ()
    heading: str = ""
    lines: Sequence[str] = ()
    optional: Sequence[str] = ()
    styles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_ruled: bool = False

    def formatted(self, format: Format = "text", width: int | None = None) -> str:
        """Formats the table.

        Args:
            format: ``text``; ``latex``, a tabular with the rules of the package booktabs, and the other lines as
                comments; ``markdown``, a table of GitHub's flavour; or ``csv``, the rows alone, with all digits.
            width: of ``text``, as for `drawn`.
        """
        if format == "csv":
            return to_csv(self.rows).rstrip("\n")
        if format == "text":
            return "\n".join([*([self.heading] if self.heading else []), *self.drawn(width)[0], *self.lines])
        names, *rows = [list(self.columns), *map(list, zip(*self.columns.values(), strict=True))]
        if format == "markdown":
            above = [markdown.escape(self.heading), ""] if self.heading else []
            below = ["", *(f"- {markdown.escape(line)}" for line in self.lines)] if self.lines else []
            cells = [[*map(markdown.escape, row)] for row in rows]
            return "\n".join([*above, markdown.table(list(map(markdown.escape, names)), cells), *below])
        comments = [f"% {_SPACE.sub(' ', line)}" for line in (self.heading, *self.lines) if line]
        opening = rf"\begin{{tabular}}{{{'l' * len(names)}}}"
        first, *others = [" & ".join(map(latex_escape, row)) + r" \\" for row in (names, *rows)]
        return "\n".join(
            [*comments, opening, r"\toprule", first, r"\midrule", *others, r"\bottomrule", r"\end{tabular}"]
        )

    def drawn(self, width: int | None = None) -> tuple[list[str], list[str]]:
        """Draws the table for a terminal, without those of the columns ``optional`` for which there is no room.

        Args:
            width: columns of the terminal; None asks the terminal. Files and pipes have room for all.

        Returns:
            The lines, and the headings of the columns that are left out.
        """
        if width is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST
        columns, left_out, screen = dict(self.columns), [], console(WIDEST)
        for name in self.optional:
            if screen.measure(self._of_rich(columns)).maximum <= width:
                break
            if columns.pop(name, None) is not None:
                left_out.append(name)
        return draw(self._of_rich(columns), width if self.is_ruled else WIDEST), left_out

    def _of_rich(self, columns: Mapping[str, Sequence[str]]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if self.is_ruled:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        else:
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for number, name in enumerate(columns):
            folds = self.is_ruled and number == 0
            words = name if self.is_ruled else name.replace("_", "\n")
            table.add_column(Text(words), overflow="fold" if folds else "ellipsis", no_wrap=not folds)
        styled = (zip_longest(column, self.styles.get(name, ()), fillvalue="") for name, column in columns.items())
        for row in zip(*styled, strict=True):
            # rich measures a cell before it expands the tabs in it.
            table.add_row(*(Text(printable(cell).expandtabs(4), style) for cell, style in row))
        return table


def console(width: int | None = None) -> Console:
    """Returns a console of rich that writes to a string, for `draw`; None is the width of the terminal, or 80."""
    from rich.console import Console

    coloured = wants_colours()
    return Console(file=io.StringIO(), force_terminal=coloured, no_color=not coloured, highlight=False, width=width)


def draw(table: Table, width: int | None = None) -> list[str]:
    """Draws a table of rich, and returns its lines; they have colours if stdout is a terminal that wants them."""
    screen = console(width)
    screen.print(table)
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    # With a box there are blank lines below; without one the last may be a row of empty cells.
    return [line.rstrip() for line in (text.removesuffix("\n") if table.box is None else text.rstrip()).split("\n")]


def align_columns(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Formats columns of text; the words of a heading, separated by ``_``, stand below each other.

    >>> align_columns({"learning_rate": ["2e-05", "5e-05"], "n": ["1", "3"]})
    ['learning', 'rate      n', '2e-05     1', '5e-05     3']
    """
    return ResultTable(columns).drawn(WIDEST)[0]


def name_value_lines(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Formats names with their values beside them, one pair a line.

    >>> name_value_lines([("accuracy", "0.5"), ("n", "2")])
    ['accuracy  0.5', 'n         2']
    """
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"{name:{width}}  {value}" for name, value in pairs]


def name_value_html(rows: Iterable[tuple[str, str]]) -> str:
    """Formats names and values as an HTML table; no rows are empty text."""
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>" if cells else ""


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as CSV with a line of the keys of the first one; None is an empty cell, no rows are empty text."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def latex_escape(text: str) -> str:
    r"""Returns text as one line that LaTeX prints unchanged.

    >>> latex_escape("50 % of a_b|c")
    '50 \\% of a\\_b\\textbar{}c'
    """
    one_line = _SPACE.sub(" ", text).strip().translate(_TO_LATEX)
    return re.sub("-(?=-)", "-{}", one_line)  # two hyphens would be printed as a dash


def score_text(mean: float | None, sd: float | None = None, *, digits: int = 4) -> str:
    """Formats a score with its standard deviation over runs.

    >>> score_text(0.5), score_text(81.25, 0.5, digits=1), score_text(None)
    ('0.5000', '81.2 ± 0.5', '-')
    """
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


def interval_text(low: float | None, high: float | None, *, digits: int = 4, unknown: str = "-") -> str:
    """Formats the ends of an interval.

    >>> interval_text(0.25, 0.75), interval_text(None, None)
    ('0.2500–0.7500', '-')
    """
    return unknown if low is None or high is None else f"{low:.{digits}f}–{high:.{digits}f}"
