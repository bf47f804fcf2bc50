"""Tables: columns by their names, by convention or on request, and places of missing values and of wrong numbers."""

from __future__ import annotations

import pytest

from bertkit.errors import DataError
from bertkit.tables import Table
from bertkit.tables.table import label_column, text_columns


def table(**columns) -> Table:
    rows = len(next(iter(columns.values())))
    return Table(columns, "x.jsonl", "sha256:0", lines=range(1, 2 * rows, 2))


def message(call, *arguments) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments)
    return str(caught.value)


def test_columns_and_places():
    rows = table(text=["a", ""], label=[1, 0], tags=[[None], []])  # neither an empty text nor a nested null is missing
    assert len(rows) == 2
    assert rows.column("text") == ["a", ""]
    assert rows.select("label", "tags") == {"label": [1, 0], "tags": [[None], []]}
    assert rows.place(1) == "x.jsonl, line 3"
    assert Table(rows.columns, "x.parquet", "").place(1) == "x.parquet, row 2"


def test_missing_values_and_columns_are_named_together():
    rows = table(text=["a", None, "c"], label=[None, 1, 2])
    assert message(rows.select, "text", "lable", "label").splitlines() == [
        "3 faults:",
        "  - x.jsonl, line 3: no value for 'text'",
        "  - x.jsonl: no column 'lable'; available: 'text', 'label'; did you mean 'label'?",
        "  - x.jsonl, line 1: no value for 'label'",
    ]
    many = message(table(text=[None] * 25).column, "text")
    assert many.startswith("x.jsonl, line 1: no value for 'text' (25 times, also line 3, line 5, ")
    assert "\n" not in many


def test_numbers_are_parsed_from_text():
    assert table(score=["5.000", "-1e2", " 3 ", 1, 2.5]).numbers("score") == [5.0, -100.0, 3.0, 1.0, 2.5]
    assert message(table(score=["1", None]).numbers, "score") == "x.jsonl, line 3: no value for 'score'"


@pytest.mark.parametrize("value", ["", "NA", "nan", "inf", "1,5", True, [1.0], float("nan"), 10**400])
def test_what_is_no_finite_number_is_refused(value):
    assert message(table(score=["1", value]).numbers, "score") == (
        f"x.jsonl, line 3: 'score' is {value!r}; expected a number"
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
    assert label_column(names, None, "x.csv") == label
    assert text_columns(names, [], label, "x.csv") == texts


def test_requested_columns_win_over_usual_names():
    names = ["text", "label", "body", "kind"]
    assert label_column(names, "kind", "x.csv") == "kind"
    assert text_columns(names, ["body", "text"], "kind", "x.csv") == ["body", "text"]
    # The label column is never taken as text.
    assert text_columns(["text", "comment", "id"], [], "text", "x.csv") == ["comment"]
    assert text_columns(["sentence1", "sentence2", "text"], [], "sentence1", "x.csv") == ["text"]


@pytest.mark.parametrize(
    ("find", "names", "requested", "expected"),
    [
        (label_column, ["text", "label"], ["lable"],
         "--label-column: no column 'lable'; available: 'text', 'label'; did you mean 'label'?"),
        (label_column, ["a", "b"], [None],
         "none of its columns (a, b) is named label, labels, class, category, target, sentiment, topic, intent, "
         "score, rating, stars, accept; give the column of the labels with --label-column"),
        (text_columns, ["text", "label"], [["txt"], "label"],
         "--text-column: no column 'txt'; available: 'text', 'label'; did you mean 'text'?"),
        (text_columns, ["text", "body"], [["text"], "text"],
         "--text-column text: this column contains the labels; give another"),
        *[(text_columns, names, [[], "label"],
           f"cannot determine which of its columns ({', '.join(names)}) contain the text; give --text-column, twice "
           "for a pair") for names in (["a", "b", "label"], ["label"])],
        (label_column, ["text", "class", "Category"], [None],
         "the labels may be in 'class', 'Category'; give --label-column class or --label-column Category"),
        (text_columns, ["Body", "review", "label"], [[], "label"],
         "the text may be in 'Body', 'review'; give --text-column Body or --text-column review"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_found_are_asked(find, names, requested, expected):
    assert message(find, names, *requested, "x.csv") == f"x.csv: {expected}"
