"""Columns by their names, and the places of what is missing or no number."""

from __future__ import annotations

import pytest

from bertkit.errors import DataError
from bertkit.tables import Table


def table(**columns) -> Table:
    rows = len(next(iter(columns.values())))
    return Table(columns, "x.jsonl", "sha256:0", lines=range(1, 2 * rows, 2))


def message(call, *names) -> str:
    with pytest.raises(DataError) as caught:
        call(*names)
    return str(caught.value)


def test_columns_and_places():
    given = table(text=["a", "b"], label=[1, 0])
    assert len(given) == 2
    assert given.column("text") == ["a", "b"]
    assert given.select("label", "text") == {"label": [1, 0], "text": ["a", "b"]}
    assert given.place(1) == "x.jsonl, line 3"
    assert Table(given.columns, "x.parquet", "").place(1) == "x.parquet, row 2"


def test_empty_text_and_nested_nulls_are_not_missing():
    assert table(text=[""], tags=[[None]]).select("text", "tags") == {"text": [""], "tags": [[None]]}


def test_missing_values_and_columns_are_named_together():
    given = table(text=["a", None, "c"], label=[None, 1, 2])
    assert message(given.select, "text", "lable", "label").splitlines() == [
        "3 faults:",
        "  - x.jsonl, line 3: no value for 'text'",
        "  - x.jsonl: no column 'lable'; available: 'text', 'label'; did you mean 'label'?",
        "  - x.jsonl, line 1: no value for 'label'",
    ]


def test_at_most_ten_places_are_shown():
    shown = message(table(text=[None] * 25).column, "text")
    assert shown.startswith("25 faults:")
    assert shown.count("no value for 'text'") == 10
    assert shown.endswith("… and 15 more")


def test_numbers_are_parsed_from_text():
    assert table(score=["5.000", "-1e2", " 3 "]).numbers("score") == [5.0, -100.0, 3.0]
    assert table(score=[1, 2.5]).numbers("score") == [1.0, 2.5]


@pytest.mark.parametrize("value", ["", "NA", "nan", "inf", "1,5", True, [1.0], float("nan"), 10**400])
def test_what_is_no_finite_number_is_refused(value):
    shown = message(table(score=["1", value]).numbers, "score")
    assert shown == f"x.jsonl, line 3: 'score' is {value!r}; expected a number"


def test_a_missing_number_is_a_missing_value():
    assert message(table(score=["1", None]).numbers, "score") == "x.jsonl, line 3: no value for 'score'"
