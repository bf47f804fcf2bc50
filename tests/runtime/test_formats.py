"""Tables of results as text, LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io

import pytest

from bertkit.runtime.formats import ResultTable, interval_text, latex_escape

NAME = "a_b & 50 % | {x}"
TABLE = ResultTable(
    {"run_name": [NAME, "c"], "mean ± sd": ["0.3333 ± 0.1", "-"], "median": ["0.3", "-"]},
    [{"run": NAME, "mean": 1 / 3}, {"run": "c", "mean": None}],
    "accuracy of a_b",
    ["note: 50 %\nof it"],
    ("median",),
)


def test_text_leaves_out_what_does_not_fit():
    assert TABLE.formatted(width=80).splitlines()[:3] == [
        "accuracy of a_b",
        "run",
        "name              mean ± sd     median",
    ]
    assert "median" not in TABLE.formatted(width=32)
    assert TABLE.formatted(width=32).endswith("note: 50 %\nof it")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_files_and_pipes_have_room_for_all(is_terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "32")
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    assert ("median" in TABLE.formatted()) == (not is_terminal)


def test_text_keeps_cells_as_they_are():
    """Brackets are no markup, an empty last row is a row, and wide characters take two columns."""
    table = ResultTable({"name": ["[red]東京[/red]", ""], "n": ["1", ""]})
    assert table.formatted().split("\n") == ["name             n", "[red]東京[/red]  1", ""]


def test_latex_by_eye():
    assert TABLE.formatted("latex").splitlines() == [
        "% accuracy of a_b",
        "% note: 50 % of it",
        r"\begin{tabular}{lll}",
        r"\toprule",
        r"run\_name & mean $\pm$ sd & median \\",
        r"\midrule",
        r"a\_b \& 50 \% \textbar{} \{x\} & 0.3333 $\pm$ 0.1 & 0.3 \\",
        r"c & - & - \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_by_eye():
    assert TABLE.formatted("markdown").splitlines() == [
        "accuracy of a_b",
        "",
        "| run_name | mean ± sd | median |",
        "| --- | --- | --- |",
        r"| a_b \& 50 % \| {x} | 0.3333 ± 0.1 | 0.3 |",
        r"| c | \- | \- |",
        "",
        "- note: 50 % of it",
    ]


def test_csv_has_all_digits():
    rows = list(csv.DictReader(io.StringIO(TABLE.formatted("csv"))))
    assert rows == [{"run": NAME, "mean": str(1 / 3)}, {"run": "c", "mean": ""}]


@pytest.mark.parametrize("character", "&%$#_{}\\~^<>")
def test_latex_escapes_what_it_reads(character):
    escaped = latex_escape(f"a{character}b")
    assert escaped != f"a{character}b"
    assert escaped.startswith("a\\")
    assert latex_escape("a\n\tb") == "a b"


def test_latex_keeps_what_begins_a_row_and_minus_signs():
    """LaTeX reads a star or a bracket after the end of a row as its argument, and several hyphens as one dash."""
    table = ResultTable({"": ["", " *", "[x]"], "interval": ["", interval_text(-0.5, -0.25), ""]})
    *_, best, bracket, _, _ = table.formatted("latex").splitlines()
    assert best == r"{*} & -0.5000\textendash{}-0.2500 \\"
    assert bracket == r"{[}x] &  \\"
    assert latex_escape("my---run") == "my-{}-{}-run"
