"""Which columns are the texts and the labels: by convention, as named, or a question back."""

from __future__ import annotations

import pytest

from bertkit.errors import DataError
from bertkit.tables.table import label_column, text_columns


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
        (["tweet", "class"], "class", ["tweet"]),
    ],
)
def test_columns_are_found_by_their_usual_names(names, label, texts):
    assert label_column(names, None, "x.csv") == label
    assert text_columns(names, [], label, "x.csv") == texts


def test_columns_that_are_named_win_over_usual_names():
    names = ["text", "label", "body", "kind"]
    assert label_column(names, "kind", "x.csv") == "kind"
    assert text_columns(names, ["body"], "kind", "x.csv") == ["body"]
    assert text_columns(names, ["body", "text"], "kind", "x.csv") == ["body", "text"]


def test_the_label_column_is_never_taken_as_text():
    assert text_columns(["text", "comment", "id"], [], "text", "x.csv") == ["comment"]
    assert text_columns(["sentence1", "sentence2", "text"], [], "sentence1", "x.csv") == ["text"]
    with pytest.raises(DataError, match=r"^x\.csv: --text-column text: this column contains the labels; give another$"):
        text_columns(["text", "comment"], ["text"], "text", "x.csv")


def test_unknown_column_lists_columns_and_a_similar_one():
    with pytest.raises(DataError) as caught:
        label_column(["text", "label"], "lable", "x.csv")
    assert str(caught.value) == (
        "x.csv: --label-column: no column 'lable'; available: 'text', 'label'; did you mean 'label'?"
    )
    with pytest.raises(DataError, match=r"x\.csv: --text-column: no column 'txt'; .*; did you mean 'text'\?"):
        text_columns(["text", "label"], ["txt"], "label", "x.csv")


def test_what_cannot_be_told_is_asked():
    with pytest.raises(
        DataError,
        match=r"none of its columns \(a, b\) is named label, .*; give the column of the labels with --label-column",
    ):
        label_column(["a", "b"], None, "x.csv")
    with pytest.raises(DataError, match=r"which of its columns \(a, b, label\) contain the text; give --text-column"):
        text_columns(["a", "b", "label"], [], "label", "x.csv")
    with pytest.raises(DataError, match="contain the text"):
        text_columns(["label"], [], "label", "x.csv")
