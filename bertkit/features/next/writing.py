"""Files of rows to label: the rows as they came, with an empty label, and those that are labelled below them."""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.data.tables.annotated import GUESS, PROBABILITY
from bertkit.data.tables.table import Table
from bertkit.inference.row_files import ROW_FILES, flat, plain, writing_rows
from bertkit.inference.writing import check_growing_file
from bertkit.runtime.errors import OutputError, shown
from bertkit.runtime.files import into_folder, write_whole

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

_XLSX = ".xlsx"
_FORMS = (*ROW_FILES, _XLSX)
_WIDTHS = {"text": 80, "reason": 40, "others": 16}  # characters of columns of a sheet
_CLASSES = "classes"  # sheet with the list
_LONGEST, _LARGEST = 32_767, 2**53  # characters of a cell; integers that a workbook's numbers hold
_MOST_ROWS = 1_048_576  # of a sheet
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_FREE_ROWS = 100  # below the rows, in which more can be added with the same list


def check_output(path: Path) -> None:
    """Checks that a file can be written; OutputError if it exists, in part too, or its ending is not that of a form."""
    check_growing_file(path, f"--output {path}")
    check_form(path, f"--output {path}")


def check_form(path: Path, name: str) -> None:
    """Checks that the ending of a file, which messages call ``name``, is that of a form; OutputError if not."""
    if path.suffix.lower() not in _FORMS:
        raise OutputError(f"{name}: expected a name that ends in {', '.join(_FORMS)}")


def write_rows(
    path: Path, rows: Sequence[Mapping[str, Any]], label: str, texts: Sequence[str], names: Sequence[str]
) -> None:
    """Writes rows to a new file, whose ending says the form.

    Args:
        path: the file.
        rows: all with the same columns.
        label: column of the labels, of which a workbook has a list to choose from.
        texts: columns of texts, which are wide in a workbook.
        names: the classes.

    Raises:
        OutputError: the file cannot be written; a text has half of a surrogate pair; or a workbook cannot hold the
            rows: they are too many, or a text is too long, or has a character that none can have.
    """
    if path.suffix.lower() == _XLSX:
        if len(rows) >= _MOST_ROWS:  # the names of the columns are a row too
            raise OutputError(f"{path}: a sheet cannot hold {len(rows):,} rows and their names; give --output FILE.csv")
        write_whole(path, _make_workbook([flat(row) for row in rows], path, label, texts, names))
        return
    with writing_rows(path, csv_safe=False, leaves_out_labels=True) as add:
        add([dict(row) for row in rows])


def write_label(path: Path, table: Table, row: int, label: str) -> None:
    """Writes a file of rows again after one label has changed; it has its old or its complete new content.

    A workbook keeps its other cells and sheets.

    Args:
        path: the file.
        table: its rows, with the new label.
        row: the row of the label, from 0.
        label: column of the labels.

    Raises:
        OutputError: the file cannot be written, or the label has a character that a workbook cannot have.
    """
    path = path.resolve()  # a link to the file stays one
    mode = stat.S_IMODE(path.stat().st_mode)
    with into_folder(path.parent) as folder:
        draft = folder / path.name
        if path.suffix.lower() == _XLSX:
            draft.write_bytes(_with_label(path, int(table.numbers_of_rows[row]), label, table.columns[label][row]))
        else:
            columns = zip(*table.columns.values(), strict=True)
            write_rows(draft, [dict(zip(table.columns, values, strict=True)) for values in columns], label, (), ())
    path.chmod(mode)  # `into_folder` gives the permissions of new files


def _with_label(path: Path, row: int, column: str, label: Any) -> bytes:
    """Returns a workbook with a label, or none, in a row of the sheet with the columns of a proposal."""
    from openpyxl import load_workbook

    if _NOT_IN_XML.search(label or ""):
        raise OutputError(f"{path}: {label!r} has a character that a workbook cannot have")
    book = load_workbook(path)
    for sheet in book.worksheets:
        for cells in sheet.iter_rows(max_row=row):
            names = [cell.value for cell in cells]
            if sheet.sheet_state == "visible" and {column, GUESS} <= {*names}:
                cell = sheet.cell(row, names.index(column) + 1)
                cell.value = label or None
                if label:
                    cell.data_type = "s"  # also if it begins with =
                stream = io.BytesIO()
                book.save(stream)
                return stream.getvalue()
    raise OutputError(f"{path}: no sheet has the columns {column!r} and {GUESS!r}")


def _make_workbook(
    rows: Sequence[Mapping[str, Any]], path: Path, label: str, texts: Sequence[str], names: Sequence[str]
) -> bytes:
    """Returns a workbook with a sheet of the rows, whose labels are chosen from a list of the classes."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "rows"
    columns = list(rows[0])
    for number, values in enumerate([dict(zip(columns, columns, strict=True)), *rows], 1):
        for place, name in enumerate(columns, 1):
            value = values[name]
            is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) <= _LARGEST)
            if isinstance(value, bool) or not (is_number or value is None):  # a cell TRUE would be the class TRUE
                value = str(plain(value))
            if isinstance(value, str):
                _check_text(value, repr(name), path)
            cell = sheet.cell(number, place, value)
            if isinstance(value, str):
                cell.data_type = "s"  # else a text that begins with = would be a formula
            if number == 1:
                cell.font = Font(bold=True)
            elif name in texts:
                cell.alignment = Alignment(wrap_text=True, vertical="top")
            elif name == PROBABILITY:
                cell.number_format = "0.00"
    for place, name in enumerate(columns, 1):
        kind = "text" if name in texts else name if name in _WIDTHS else "others"
        sheet.column_dimensions[get_column_letter(place)].width = _WIDTHS[kind]
    sheet.freeze_panes = "A2"
    for name in names:  # those of rows that are not written too
        _check_text(name, "a class", path)
    _add_list(book.create_sheet(_CLASSES), sheet, columns.index(label) + 1, len(rows), names)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _check_text(text: str, what: str, path: Path) -> None:
    """Checks that a cell can hold a text, which the message calls ``what``; OutputError if not."""
    wrong = "with a character that a workbook cannot have" if _NOT_IN_XML.search(text) else ""
    if len(text) > _LONGEST:
        wrong = f"longer than the {_LONGEST:,} characters of a cell"
    if wrong:
        raise OutputError(f"{path}: {what} is {shown(text)}, {wrong}; give --output FILE.csv")


def _add_list(hidden: Worksheet, sheet: Worksheet, column: int, rows: int, names: Sequence[str]) -> None:
    """Adds the list of the classes, from a hidden sheet, to the labels; other labels are asked about, and possible."""
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    for number, name in enumerate(names, 1):
        cell = hidden.cell(number, 1, name)
        cell.data_type = "s"
    hidden.sheet_state = "hidden"
    letter = get_column_letter(column)
    rule = DataValidation("list", formula1=f"{_CLASSES}!$A$1:$A${len(names)}", allow_blank=True)
    rule.errorStyle, rule.errorTitle, rule.error = "warning", "A new class?", "No labelled row has this class."
    rule.showErrorMessage = True
    rule.add(f"{letter}2:{letter}{min(rows + 1 + _FREE_ROWS, _MOST_ROWS)}")
    sheet.add_data_validation(rule)
