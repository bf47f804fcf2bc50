"""Parts of a report that a kind of task determines: charts, tables, and wrong predictions.

The parts are plain data, which the page escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from bertkit.inference.outcome import Outcome
from bertkit.runtime.errors import DataError
from bertkit.tasks.base import Task, texts_of
from bertkit.tasks.registry import by_kind_of_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | int | float | None
Side = Literal["true", "predicted"]
TRUE: Final = "true"
PREDICTED: Final = "predicted"

MOST_MISTAKES = 100
"""Number of wrong predictions in a report."""

_MOST_PREDICTIONS = 20
_LONGEST_CELL = 200  # characters
_LONGEST_TEXT = 700  # characters of a text in the page
_BEFORE = 150  # characters before the first mark of a longer text


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
        rows: one cell per column, shown as `number` formats it.
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
        row: index of the example, from 0.
        confidence: number by which mistakes are ranked, the largest first: a probability, or the error of a number.
        true, predicted: the reference and the prediction in a few words.
        texts: the texts of the example by column, with their marks.
        suspect: whether the reference itself is probably wrong.
        measure: what ``confidence`` is, the heading of its column.
        words: words of the texts, each with what it adds to ``words_of``, as a part of the largest such value: -1 to 1.
            Empty if it is not explained.
        words_of: the label or the name of the number that the words are explained for.
        warnings: doubts about the values of the words.
        number: number of the example in the source of the data, from 1, or the path of its file.
    """

    row: int
    confidence: float
    true: str
    predicted: str
    texts: Sequence[tuple[str, str, Sequence[Mark]]]
    suspect: bool = False
    measure: Literal["confidence", "error"] = "confidence"
    words: Sequence[tuple[str, float]] = ()
    words_of: str = ""
    warnings: Sequence[str] = ()
    number: int | str = 0


@dataclass(frozen=True)
class Reported:
    """Sections of a task in a report; the defaults suit any task."""

    task: Any

    def sections(self, outcome: Outcome) -> list[Section]:
        """Returns the sections of the task; by default a table of its first predictions."""
        texts = texts_of(self.task, outcome.examples)
        decoded = outcome.decoded()[:_MOST_PREDICTIONS]
        if not decoded:
            return []
        names = [name for name in decoded[0] if not isinstance(decoded[0][name], dict)]
        rows = [
            (
                outcome.number(row),
                *(short(values[row], _LONGEST_CELL) for values in texts.values()),
                *(
                    value if value is None or isinstance(value, (int, float)) else short(str(value), _LONGEST_CELL)
                    for value in map(prediction.get, names)
                ),
            )
            for row, prediction in enumerate(decoded)
        ]
        table = DataTable("First predictions", (outcome.unit, *texts, *names), rows, has_texts=True)
        return [Section("Predictions", [table])]

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        """Returns the most confident wrong predictions; by default those that are not the reference.

        They are ranked by the ``probability`` of `bertkit.tasks.base.Task.decode`. A task that does not set predictions
        beside references has none.
        """
        sides = sides_of(outcome)
        if sides is None:
            return []
        predicted, true = map(self.task.to_labels, sides)
        decoded = outcome.decoded()
        rows = (
            (row, decoded[row].get("probability", 0.0), str(true[row]), str(predicted[row]))
            for row in range(len(true))
            if predicted[row] != true[row]
        )
        return self.mistakes_of(outcome, rows)

    def mistakes_of(
        self,
        outcome: Outcome,
        rows: Iterable[tuple[int, float, str, str]],
        suspects: np.ndarray | None = None,
        measure: Literal["confidence", "error"] = "confidence",
    ) -> list[Mistake]:
        """Returns mistakes with the texts of their examples.

        Args:
            outcome: the outputs.
            rows: ``row``, ``confidence``, ``true`` and ``predicted`` of each `Mistake`.
            suspects: whether the reference of each example is probably wrong.
            measure: as in `Mistake`.
        """
        texts = texts_of(self.task, outcome.examples)
        mistakes = []
        for row, confidence, true, predicted in rows:
            of_row = [(name, values[row], ()) for name, values in texts.items()]
            is_suspect = suspects is not None and bool(suspects[row])
            mistakes.append(Mistake(int(row), float(confidence), true, predicted, of_row, is_suspect, measure))
        return most_confident(mistakes)


@by_kind_of_task
def reported(task: Task) -> Reported:
    """Returns what the report of a run shows of a task."""
    return Reported(task)


def sides_of(outcome: Outcome) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Returns predictions and references in the form of the metric; None if the task does not define them."""
    try:
        return outcome.predictions_and_references()
    except DataError:
        return None


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


class Piece(NamedTuple):
    """Part of a text with the same marks, its style (empty, ``true``, ``predicted`` or ``both``), and the types of the
    marks that end with it."""

    text: str
    style: str
    label: str


def pieces(text: str, marks: Sequence[Mark]) -> list[Piece]:
    """Divides a text at the ends of its marks; a long text is cut around the first mark.

    >>> marks = [Mark(3, 11, "true"), Mark(7, 11, "predicted")]
    >>> [(piece.text, piece.style) for piece in pieces("to New York now", marks)]
    [('to ', ''), ('New ', 'true'), ('York', 'both'), (' now', '')]
    """
    begin, end = 0, len(text)
    if len(text) > _LONGEST_TEXT:
        begin = max(min((mark.start for mark in marks), default=0) - _BEFORE, 0)
        end = min(begin + _LONGEST_TEXT, len(text))
    borders = {begin, end, *(place for mark in marks for place in (mark.start, mark.end) if begin < place < end)}
    places = sorted(borders)
    parts = []
    for first, last in pairwise(places):
        covering = [mark for mark in marks if mark.start <= first and mark.end >= last]
        sides = {mark.side for mark in covering}
        style = "both" if sides == {TRUE, PREDICTED} else next(iter(sides), "")
        ending = [mark for mark in covering if mark.end == last and mark.label]
        labels = dict.fromkeys(mark.label for mark in ending)
        parts.append(Piece(text[first:last], style, " / ".join(labels)))
    if begin:
        parts.insert(0, Piece("… ", "", ""))
    if end < len(text):
        parts.append(Piece(f" … ({len(text) - (end - begin):,} more characters)", "", ""))
    return parts


def is_number(value: Cell) -> bool:
    """Returns whether a cell holds a number or nothing."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def number(value: Cell) -> str:
    """Formats a cell: four decimals for floats from 0.001 to 10,000 and for 0, None as a dash.

    >>> [number(value) for value in (0.91234, 12345, 2.0, 123456.5, 1e-6, None, "PER", True, 61253104.0)]
    ['0.9123', '12,345', '2.0000', '123,456.5', '1.000e-06', '–', 'PER', 'True', '61,253,104']
    """
    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value and abs(value) < 1e-3:
        return f"{value:.3e}"
    if abs(value) >= 1e4:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.4f}"
