"""Tables: columns by their names, by convention or on request, and places of missing values and of wrong numbers."""

from __future__ import annotations

import pytest

from bertkit.data.tables import Table
from bertkit.data.tables.columns import label_and_text_columns, the_text_column
from bertkit.runtime.errors import shown
from tests.data.conftest import refusal


def table(**columns) -> Table:
    rows = len(next(iter(columns.values())))
    return Table(columns, "x.jsonl", "sha256:0", lines=range(1, 2 * rows, 2))


def of_names(names) -> Table:
    return Table({name: ["x"] for name in names}, "x.csv", "")


def test_columns_and_places():
    rows = table(text=["a", ""], label=[1, 0], tags=[[None], []])  # neither an empty text nor a nested null is missing
    assert len(rows) == 2
    assert rows.column("text") == ["a", ""]
    assert rows.select("label", "tags") == {"label": [1, 0], "tags": [[None], []]}
    assert rows.place(1) == "x.jsonl, line 3"
    assert Table(rows.columns, "x.parquet", "").place(1) == "x.parquet, row 2"


def test_missing_values_and_columns_are_named_together():
    rows = table(text=["a", None, "c"], label=[None, 1, 2])
    assert refusal(rows.select, "text", "lable", "label").splitlines() == [
        "3 faults:",
        "  - x.jsonl, line 3: no value for 'text'",
        "  - x.jsonl: no column 'lable'; available: 'text', 'label'; did you mean 'label'?",
        "  - x.jsonl, line 1: no value for 'label'",
    ]
    many = refusal(table(text=[None] * 25).column, "text")
    assert many.startswith("x.jsonl, line 1: no value for 'text' (25 times, also line 3, line 5, ")
    assert "\n" not in many


def test_numbers_are_parsed_from_text():
    assert table(score=["5.000", "-1e2", " 3 ", 1, 2.5]).numbers("score") == [5.0, -100.0, 3.0, 1.0, 2.5]
    assert refusal(table(score=["1", None]).numbers, "score") == "x.jsonl, line 3: no value for 'score'"


@pytest.mark.parametrize("value", ["", "NA", "nan", "inf", "1,5", True, [1.0], float("nan")])
def test_what_is_no_finite_number_is_refused(value):
    assert refusal(table(score=["1", value]).numbers, "score") == (
        f"x.jsonl, line 3: 'score' is {value!r}; expected a number"
    )


@pytest.mark.parametrize("digits", [400, 5000])  # Python does not write numbers of more than 4300
def test_numbers_that_are_too_large_are_refused(digits):
    value = 10**digits
    assert refusal(table(score=["1", value]).numbers, "score") == (
        f"x.jsonl, line 3: 'score' is {shown(value)}; expected a number"
    )


@pytest.mark.parametrize(
    ("names", "label", "texts"),
    [
        (["text", "label"], "label", ["text"]),
        (["id", "review", "category"], "category", ["review"]),
        (["sentence2", "sentence1", "score"], "score", ["sentence1", "sentence2"]),
        (["premise", "hypothesis", "label"], "label", ["premise", "hypothesis"]),
        (["question", "sentence", "label"], "label", ["question", "sentence"]),
        # A pair wins over a column named like a text.
        (["text", "text_a", "text_b", "label"], "label", ["text_a", "text_b"]),
        # The names of the arguments of explain, and of the bodies of requests.
        (["text_b", "text", "label"], "label", ["text", "text_b"]),
        (["text", "text_pair", "label"], "label", ["text", "text_pair"]),
        # Half a pair is none.
        (["sentence1", "text", "label"], "label", ["text"]),
        # The earlier name of a label wins; the only other column is the text, whatever its name.
        (["score", "label"], "label", ["score"]),
        # In any case; a name in its own case wins.
        (["Message", "CATEGORY "], "CATEGORY ", ["Message"]),
        (["Text", "text", "label"], "label", ["text"]),
        # The usual name of all wins over others.
        (["text", "review", "class", "label"], "label", ["text"]),
        (["tweet", "class"], "class", ["tweet"]),
    ],
)
def test_columns_are_found_by_their_usual_names(names, label, texts):
    assert label_and_text_columns(of_names(names), None, []) == (label, texts)


def test_requested_columns_win_over_usual_names():
    rows = of_names(["text", "label", "body", "kind"])
    assert label_and_text_columns(rows, "kind", ["body", "text"]) == ("kind", ["body", "text"])
    # The label column is never taken as text.
    assert label_and_text_columns(of_names(["text", "comment", "id"]), "text", []) == ("text", ["comment"])
    rows = of_names(["sentence1", "sentence2", "text"])
    assert label_and_text_columns(rows, "sentence1", []) == ("sentence1", ["text"])
    # A requested text is not taken for the labels because of its name.
    assert label_and_text_columns(of_names(["topic", "category"]), None, ["Topic"]) == ("category", ["topic"])


@pytest.mark.parametrize(
    ("names", "requested", "expected"),
    [
        (["text", "label"], ["lable", []],
         "--label-column: no column 'lable'; available: 'text', 'label'; did you mean 'label'?"),
        (["text", "label"], ["label", ["txt"]],
         "--text-column: no column 'txt'; available: 'text', 'label'; did you mean 'text'?"),
        (["text", "body"], ["text", ["text"]],
         "--text-column text: this column contains the labels; give another"),
        (["a", "b", "label"], ["label", ["a", "b", "B"]],
         "--text-column b: given twice; a pair has two columns"),
    ],
)  # fmt: skip
def test_requested_columns_exist_and_differ(names, requested, expected):
    assert refusal(label_and_text_columns, of_names(names), *requested) == f"x.csv: {expected}"


ORDERS = {
    "nr": list(map(str, range(12))),
    "mail": [f"My order of last week, number {row}, has not arrived" for row in range(12)],
    "urgent": ["0", "1"] * 6,
    "dept": ["billing", "sales", "support"] * 4,
    "state": ["open"] * 12,
    "code": [f"x{row}" for row in range(12)],
    "note": [""] * 12,
}


def test_columns_that_cannot_be_told_are_described():
    first, *lines, last = refusal(label_and_text_columns, Table(ORDERS, "x.csv", ""), None, []).split("\n")
    assert first == "x.csv: cannot tell which of its columns have the text and the labels:"
    assert lines == [
        "  'nr': numbers, 12 different",
        "  'mail': texts of about 48 characters; may be the text",
        "  'urgent': numbers, 2 different; may be the labels",
        "  'dept': 3 different values: 'billing', 'sales', 'support'; may be the labels",
        "  'state': always 'open'",
        "  'code': values such as 'x0'",
        "  'note': empty",
    ]
    assert last == "give them, such as text_columns='mail', label_column='dept'"


def test_one_column_that_cannot_be_told_is_asked_for():
    rows = Table(ORDERS, "x.csv", "")
    asked = refusal(label_and_text_columns, rows, "dept", [])
    assert "which of its columns has the text:" in asked
    assert asked.endswith("give it, such as text_columns='mail'")
    assert refusal(label_and_text_columns, rows, None, ["mail"]).endswith("give it, such as label_column='dept'")
    renamed = Table({"topic": ORDERS["mail"], **ORDERS}, "x.csv", "")
    assert refusal(label_and_text_columns, renamed, None, ["topic"]).endswith("give it, such as label_column='dept'")
    assert refusal(the_text_column, rows, None).endswith("give it, such as text_column='mail'")
    rows = Table({name: values[:1] for name, values in ORDERS.items()}, "x.csv", "")
    assert refusal(the_text_column, rows, None).endswith("give it, such as text_column='mail'")


def test_a_column_of_one_value_is_described_by_it():
    rows = Table({"constant": ["1", "1"], "nr": ["1", "2"]}, "x.csv", "")
    assert "\n  'constant': always '1'\n  'nr': numbers, 2 different\n" in refusal(the_text_column, rows, None)


def test_of_several_usual_names_one_is_asked_for():
    rows = {"text": ORDERS["mail"], "class": ORDERS["code"], "Category": ORDERS["dept"], "kind": ORDERS["dept"]}
    asked = refusal(label_and_text_columns, Table(rows, "x.csv", ""), None, [])
    assert asked.count("may be") == 1
    assert asked.endswith("give it, such as label_column='Category'")
    rows = {"Body": ORDERS["code"], "review": ORDERS["code"], "label": ORDERS["dept"]}
    assert refusal(label_and_text_columns, Table(rows, "x.csv", ""), None, []).endswith("text_columns='Body'")


def test_nothing_is_proposed_where_nothing_fits():
    asked = refusal(label_and_text_columns, of_names(["a", "b", "c"]), None, [])
    assert "may be" not in asked
    assert asked.endswith("text_columns='COLUMN', label_column='COLUMN'")
    assert "… and 180 more" in refusal(the_text_column, of_names([f"c{number}" for number in range(200)]), None)
