"""Tables in sheets of Excel workbooks (``.xlsx``), read with openpyxl."""

from __future__ import annotations

import re
import sys
import warnings
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import IO, Any

from bertkit.data.tables.table import Row, Table, repeated_names, with_names_first
from bertkit.runtime.errors import DataError, did_you_mean, quoted, raise_listed
from bertkit.runtime.progress import say
from bertkit.runtime.reading.paths import workbook_and_sheet
from bertkit.runtime.reading.text import iterating

_LINE_BREAK = re.compile(r"(?:_x000D_|\r)\n?")  # of Windows, as Excel stores it; openpyxl leaves its escape


def sheet_parts(
    path: str | Path,
    size: int = sys.maxsize,
    on_progress: Callable[[float], None] = lambda share: None,
    *,
    may_be_empty: bool = False,
    stored: IO[bytes] | None = None,
) -> Iterator[Table]:
    """Yields a sheet in parts of ``size`` rows. Its first row that is not blank has the names of the columns, or the
    first one below titles, see `with_names_first`.

    All values are text, as in a CSV file: an empty cell is an empty text, 3 and 3.0 are ``3``, a date is
    ``2024-05-01``, a formula its last result, a line break ``"\\n"``. Blank rows are skipped, and columns without a
    name dropped. The places of rows are those of the sheet, and the source is ``FILE#SHEET``. A formula that a program
    has written without a result is an empty cell; that is printed. A row of such formulas alone is blank, which is not
    printed.

    Args:
        path: a workbook, or ``FILE#SHEET``, where several of its sheets are neither empty nor hidden.
        size: rows of a part.
        on_progress: called with the share of the rows that has been read, in [0, 1], by the size that the workbook has
            for the sheet.
        may_be_empty: a sheet with names of columns and no rows gives no parts; one without names is refused.
        stored: the bytes of the workbook; None reads its file.

    Raises:
        DataError: the workbook cannot be read; its sheet does not exist, is not named, or has no columns or rows, or
            two columns of one name.
    """
    file, name = workbook_and_sheet(path)
    with _open_workbook(file, stored) as book:
        # Read before `_choose_sheet`, which forgets the sizes.
        rows_of_sheets = {sheet.title: sheet.max_row or 1 for sheet in book.worksheets}
        sheet = _choose_sheet(book, name, file)
        source, total = f"{file}#{sheet.title}", rows_of_sheets[sheet.title]

        def formulas() -> Iterator[tuple[int, Any]]:
            with _open_workbook(file, stored, formulas=True) as written:
                written[sheet.title].reset_dimensions()
                yield from enumerate(written[sheet.title].iter_rows(values_only=True), 1)

        with iterating(_note_formulas(_read_rows(sheet), formulas(), source)) as filled:
            rows = with_names_first(filled, f"{source}, row")
            first, names = next(rows, (1, []))
            faults = repeated_names([each for each in names if each], f"{source}, row {first}")
            if not any(names):
                faults.append(f"{source}: empty; expected a row with the names of the columns")
            raise_listed(faults)
            is_empty = True
            while part := list(islice(rows, size)):
                is_empty = False
                on_progress(min(1.0, part[-1][0] / total))
                columns = {
                    each: [row[at] if at < len(row) else "" for _, row in part] for at, each in enumerate(names) if each
                }
                yield Table(columns, source, "", array("q", [number for number, _ in part]), unit="row")
        if is_empty and not may_be_empty:
            raise DataError(f"{source}: no rows after the names of the columns")


@contextmanager
def _open_workbook(file: str, stored: IO[bytes] | None, *, formulas: bool = False) -> Iterator[Any]:
    """Yields a workbook, of which nothing is read yet: its values, or its formulas where there are any."""
    from openpyxl import load_workbook

    try:
        with Path(file).open("rb") if stored is None else nullcontext(stored) as content:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of styles and validations, which are not read
                book = load_workbook(content, read_only=True, data_only=not formulas)
            yield book
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of zipfile, the XML parser and openpyxl, for damaged files
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise DataError(f"{file}: not an Excel workbook, damaged or encrypted ({reason}); save it again") from error


def _choose_sheet(book: Any, name: str | None, source: str) -> Any:
    """Returns the named sheet, ignoring case, or the only one that is neither empty nor hidden."""
    sheets = book.worksheets
    for sheet in sheets:
        sheet.reset_dimensions()  # those that other programs store may be wrong
    if name is None:
        filled = []
        for sheet in sheets:
            with iterating(_read_rows(sheet)) as rows:
                if next(rows, None) is not None:
                    filled.append(sheet)
        filled = [each for each in filled if each.sheet_state == "visible"] or filled
        if len(filled) == 1:
            return filled[0]
        if not filled:
            raise DataError(f"{source}: none of its sheets ({quoted(book.sheetnames)}) has a row")
        names = [sheet.title for sheet in filled]
        raise DataError(f"{source}: has {len(filled)} sheets, {quoted(names)}; name one of them: '{source}#{names[0]}'")
    for sheet in sheets:
        if name == sheet.title or name.casefold() == sheet.title.casefold():
            return sheet
    names = [sheet.title for sheet in sheets]
    raise DataError(f"{source}: no sheet {name!r}; it has {quoted(names)}{did_you_mean(name, names)}")


def _read_rows(sheet: Any) -> Iterator[Row]:
    """Yields the number and the texts of each row that is not blank."""
    with iterating(sheet.iter_rows(values_only=True)) as rows:
        for number, cells in enumerate(rows, 1):
            texts = [_format_cell(cell) for cell in cells]
            if any(texts):
                yield number, texts


def _note_formulas(rows: Iterator[Row], formulas: Iterator[tuple[int, Any]], source: str) -> Iterator[Row]:
    """Yields the rows of a sheet; says once if an empty cell is that of a formula, which programs write without result.

    Args:
        formulas: number and cells of each row, formulas as they are written; they are read, and the workbook opened
            once more, from the first empty cell to the first such one, or the last.
    """
    with iterating(rows) as texts_of_rows, iterating(formulas) as remaining:
        is_said = False
        for number, texts in texts_of_rows:
            if not is_said and "" in texts:
                cells = next((cells for at, cells in remaining if at == number), ())
                is_said = any(cell not in (None, "") and not text for cell, text in zip(cells, texts, strict=False))
                if is_said:
                    say(
                        f"{source}, row {number}: a formula has no stored result, or an empty one, so its cell is "
                        "empty; if it is to have one, open the workbook in Excel or LibreOffice and save it"
                    )
            yield number, texts


def _format_cell(cell: Any) -> str:
    """Returns the value of a cell as text.

    >>> [_format_cell(cell) for cell in (None, 3.0, 0.5, True, datetime(2024, 5, 1), "a ", "a_x000D_\\nb")]
    ['', '3', '0.5', 'TRUE', '2024-05-01', 'a ', 'a\\nb']
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    return _LINE_BREAK.sub("\n", str(cell))
