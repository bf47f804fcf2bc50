"""Examples of a split, in memory and as a data set."""

from __future__ import annotations

import copy
import pickle

from datasets import Dataset

from bertkit.tasks.splits import ColumnsOf, Rows, Split


def test_rows_equal_the_data_set_of_their_columns():
    columns = {"sentence": ["a", "b", "c"], "labels": [1, None, 0]}
    rows, dataset = Rows(columns), Dataset.from_dict(columns)
    for each in (rows, pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        for _ in range(2):  # in memory, and as a data set
            assert len(each) == 3
            assert each.column_names == dataset.column_names
            assert {**ColumnsOf(each)} == columns
            assert {**ColumnsOf(each.select([2, 0]))} == {"sentence": ["c", "a"], "labels": [0, 1]}
            assert each[1] == dataset[1]
        assert each.map(lambda row: {"longer": row["sentence"] * 2})["longer"][:] == ["aa", "bb", "cc"]
        assert isinstance(each.dataset, Dataset)


def test_selected_examples_keep_their_numbers():
    split = Split(Rows({"sentence": ["a", "b", "c"]}), "a data set of the Hub", "")
    chosen = split.select([2, 0])
    assert [split.place(2), chosen.place(0), chosen.place(1), chosen.first(1).place(0)] == [
        "row 3",
        "row 3",
        "row 1",
        "row 3",
    ]


def test_rows_of_no_columns_or_no_rows():
    assert len(Rows({})) == 0
    assert len(Rows({"sentence": []})) == 0
    assert len(Rows({"sentence": ["a"]}).select([])) == 0
