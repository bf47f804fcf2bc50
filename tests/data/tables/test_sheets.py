"""Sheets of Excel: values as text, rows of the sheet as places, and the sheet named where there are several."""

from __future__ import annotations

from datetime import date, datetime

import openpyxl
import pytest

from bertkit.data.tables import read_table
from bertkit.data.tables.table_files import read_table_parts
from bertkit.recipe.files import absolute
from tests.data.conftest import refusal

ROWS = [["Text", "Label", None, "n"], ["good", "a", "dropped", 3.0], [], ["bad", None, None, 0.5], ["ok", "b", None, 7]]


@pytest.fixture
def book(tmp_path):
    def write(**sheets) -> str:
        workbook = openpyxl.Workbook()
        workbook.remove(workbook.active)
        for name, rows in sheets.items():
            sheet = workbook.create_sheet(name)
            for row in rows:
                sheet.append(row)
        workbook.save(tmp_path / "x.xlsx")
        return str(tmp_path / "x.xlsx")

    return write


def test_a_sheet_is_a_table_of_texts(book):
    path = book(Mails=ROWS, Empty=[])
    table = read_table(path)
    assert table.columns == {"Text": ["good", "bad", "ok"], "Label": ["a", "", "b"], "n": ["3", "0.5", "7"]}
    assert (table.source, table.unit, list(table.numbers_of_rows)) == (f"{path}#Mails", "row", [2, 4, 5])
    assert table.place(1) == f"{path}#Mails, row 4"
    shares = []
    parts = list(read_table_parts(path, 2, shares.append))
    assert [part.columns["Text"] for part in parts] == [["good", "bad"], ["ok"]]
    assert parts[1].place(0) == table.place(2)
    assert shares == [0.8, 1.0]


def test_a_hidden_sheet_is_read_only_if_it_is_named_or_alone(book):
    for sheets, read in (({"Mails": ROWS}, "Mails"), ({"Empty": []}, "Lists")):
        path = book(**sheets, Lists=[["class"], ["a"]])
        workbook = openpyxl.load_workbook(path)
        workbook["Lists"].sheet_state = "hidden"
        workbook.save(path)
        assert read_table(path).source == f"{path}#{read}"
        assert read_table(f"{path}#Lists").columns == {"class": ["a"]}


def test_a_line_break_of_windows_is_one(book):
    """Excel and XlsxWriter store its first half as an escape, which openpyxl leaves."""
    assert read_table(book(A=[["text"], ["a_x000D_\nb"], ["c\nd"]])).columns == {"text": ["a\nb", "c\nd"]}


def test_dates_booleans_and_titles(book):
    path = book(A=[[], ["text", "at", "day", "is"], ["a", datetime(2024, 5, 1, 9, 30), date(2024, 5, 2), True]])
    assert read_table(path).columns == {
        "text": ["a"], "at": ["2024-05-01 09:30:00"], "day": ["2024-05-02"], "is": ["TRUE"]}  # fmt: skip


@pytest.mark.parametrize("titles", [[["Reviews 2025"]], [["Reviews 2025"], [], ["of all shops"]]])
def test_titles_above_the_names_are_left_out(book, titles, capsys):
    table = read_table(book(A=[*titles, ["Text", "Stars"], ["good", 5]]))
    assert table.columns == {"Text": ["good"], "Stars": ["5"]}
    assert list(table.numbers_of_rows) == [len(titles) + 2]
    assert f"row {len(titles) + 1}: read as the names of the columns, below the title 'Reviews 2025'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([[None, "reviews"], [0, "good"], [1, "bad"]], {"reviews": ["good", "bad"]}),  # as pandas writes an index
        ([["Text", None], ["good", "yes"]], {"Text": ["good"]}),
        ([["Reviews"], ["good"], ["bad"]], {"Reviews": ["good", "bad"]}),
        ([["Reviews"], ["good", 5]], {"Reviews": ["good"]}),
        ([["Reviews"], ["good", "good"]], {"Reviews": ["good"]}),
    ],
)
def test_names_alone_in_their_row_are_no_titles(book, rows, columns, capsys):
    assert read_table(book(A=rows)).columns == columns
    assert not capsys.readouterr().err


def test_the_sheet_is_named_where_there_are_several(book, tmp_path, monkeypatch):
    path = book(May=ROWS, June=ROWS[:2])
    assert refusal(read_table, path) == f"{path}: has 2 sheets, 'May', 'June'; name one of them: '{path}#May'"
    may, june, same = (read_table(f"{path}#{name}") for name in ("May", "June", "june"))
    assert len(same) == 1
    assert same.fingerprint == june.fingerprint != may.fingerprint  # else a model of May would have learned from June
    assert refusal(read_table, f"{path}#Jule").endswith("no sheet 'Jule'; it has 'May', 'June'; did you mean 'June'?")
    monkeypatch.chdir(tmp_path)
    assert absolute("x.xlsx#May") == f"{path}#May"


@pytest.mark.parametrize(
    ("sheets", "expected"),
    [
        ({"A": [["a", "a"], [1, 2]]}, "#A, row 1: 2 columns are named 'a'; expected one of each name"),
        ({"A": [["text"]]}, "#A: no rows after the names of the columns"),
        ({"A": []}, ": none of its sheets ('A') has a row"),
    ],
)
def test_sheets_without_a_table_are_refused(book, sheets, expected):
    path = book(**sheets)
    assert refusal(read_table, path) == f"{path}{expected}"


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.xlsx").write_text("no workbook")
    assert "not an Excel workbook, damaged or encrypted" in refusal(read_table, tmp_path / "x.xlsx")
    assert refusal(read_table, tmp_path / "y.xlsx").endswith("cannot be read: No such file or directory")
    assert refusal(read_table, tmp_path / "x.xls").endswith(".xls is Excel's older format: save it as .xlsx or .csv")


def test_a_formula_without_a_stored_result_is_said_once(book, capsys):
    """openpyxl, like other programs that compute nothing, writes formulas without their results."""
    path = book(A=[["text", "n"], ["a", None], ['="b"&1', 2], ["=A2", 3]])
    expected = (
        f"{path}#A, row 3: a formula has no stored result, or an empty one, so its cell is empty; if it is to have one"
        ", open the workbook in Excel or LibreOffice and save it\n"
    )
    for read in (lambda: read_table(path), lambda: [*read_table_parts(path, 1, lambda share: None)]):
        read()
        assert capsys.readouterr().err.replace("\n  ", " ") == expected
    assert read_table(book(A=[["text", "n"], ["a", None], ["b", ""]])).columns["n"] == ["", ""]
    assert not capsys.readouterr().err
