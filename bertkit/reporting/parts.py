"""Parts of a report: charts, tables, and wrong predictions. They are plain data, which the page escapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | int | float | None

MOST_MISTAKES = 100
"""Number of wrong predictions in a report."""

TRUE: Final = "true"
PREDICTED: Final = "predicted"
Side = Literal["true", "predicted"]


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        name: name of its file, of lower-case letters, digits and hyphens; unique in a report.
        title: heading.
        alt: what the figure shows, with its main numbers, for readers who do not see it.
        draw: draws on empty axes of matplotlib, with the style of the report.
        size: width and height in inches.
        note: explanation below the figure.
        for_card: whether the model card shows it.
    """

    name: str
    title: str
    alt: str
    draw: Callable[[Axes], None]
    size: tuple[float, float] = (4.4, 3.2)
    note: str = ""
    for_card: bool = False


@dataclass(frozen=True)
class DataTable:
    """A table; columns whose cells are all numbers are aligned to the right.

    Attributes:
        title: caption.
        columns: headings.
        rows: one cell per column; floats are shown with four decimals, None as a dash.
        note: explanation below the table.
        has_texts: whether cells hold texts of the data; such a table is left out with ``--no-texts``.
        for_card: whether the model card shows it.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    note: str = ""
    has_texts: bool = False
    for_card: bool = False


@dataclass(frozen=True)
class Section:
    """Charts and tables below one heading.

    Attributes:
        title: the heading.
        parts: the charts and tables.
        remarks: what a reader of the scores must know, such as classes that are never predicted; a sentence each. They
            are shown with the scores.
    """

    title: str
    parts: Sequence[Chart | DataTable]
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Mark:
    """Highlighted part of a text.

    Attributes:
        start, end: characters of the text; ``end`` is exclusive.
        side: whether it is that of the reference or of the prediction.
        label: its type, or an empty text.
    """

    start: int
    end: int
    side: Side
    label: str = ""


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction.

    Attributes:
        row: number of the example, from 0.
        confidence: number by which mistakes are ranked, the largest first: a probability, or the error of a number.
        true, predicted: the reference and the prediction in a few words.
        texts: the texts of the example by column, with their marks.
        suspect: whether the reference itself is probably wrong.
        measure: what ``confidence`` is, the heading of its column.
    """

    row: int
    confidence: float
    true: str
    predicted: str
    texts: Sequence[tuple[str, str, Sequence[Mark]]]
    suspect: bool = False
    measure: Literal["confidence", "error"] = "confidence"


def most_confident(mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Returns the first `MOST_MISTAKES` by confidence, equal ones by their row.

    Numbers that differ by rounding count as equal, so that the order is the same on all devices.
    """
    return sorted(mistakes, key=lambda each: (-round(each.confidence, 4), each.row))[:MOST_MISTAKES]


def short(text: str, most: int = 18) -> str:
    """Returns a text for an axis or a cell: one line of at most ``most`` characters."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


def upper_first(text: str) -> str:
    """Returns a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
