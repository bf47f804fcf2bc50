"""Table objects of Python as tables and as files: names, missing values, and what Parquet cannot hold."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas
import pytest

from bertkit.data.tables import read_table
from bertkit.data.tables.objects import store_table, table_of
from bertkit.runtime.errors import DataError, OutputError


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ([{1: "a"}, {1: "b", "c": 2}], {"1": ["a", "b"], "c": [None, 2]}),
        (pandas.DataFrame({"l": [np.array(["a", "b"]), None]}), {"l": [["a", "b"], None]}),  # as read_parquet gives
        (pandas.DataFrame({"l": [1.5, None]}), {"l": [1.5, None]}),
    ],
)
def test_values_of_table_objects(given, columns):
    assert dict(table_of(given).columns) == columns


@pytest.mark.parametrize("given", [[{}], pandas.DataFrame(index=[0, 1])])
def test_rows_without_columns_are_refused(given):
    with pytest.raises(DataError, match="no columns"):
        table_of(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (pandas.DataFrame([["a", "b"]], columns=["text", "text"]), "Duplicate column names"),
        ([{"text": "a", "meta": {}}], "'meta'"),
        ([{"text": "a\ud83d"}], "surrogates not allowed"),
        ([{"text": "a"}, {"text": 1}], "values of one type"),
        (pandas.DataFrame({"text": []}), "no rows"),
    ],
)
def test_tables_that_cannot_be_stored_are_refused(tmp_path, given, reason):
    with pytest.raises(DataError, match=f"train_file: the .*{reason}"):
        store_table(given, tmp_path, "train_file")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        store_table([{"text": "a"}], Path(os.devnull) / "tables", "train_file")


def test_a_stored_table_is_read_as_it_was(tmp_path):
    rows = [{"text": "a", "labels": ["x"]}, {"text": "b", "labels": []}]
    assert dict(read_table(store_table(rows, tmp_path, "rows")).columns) == dict(table_of(rows).columns)
