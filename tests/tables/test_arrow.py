"""Arrow batches: Parquet files and data sets give the same columns, with their missing values and class names."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.tables import Table, read_table
from bertkit.tables.typed_rows import read_batches


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """``parquet(arrow_table, row_group_size=…)`` writes it and reads the file as a table."""
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"

    def round_trip(arrow, **options) -> Table:
        pq.write_table(arrow, path, **options)
        return read_table(path)

    return round_trip


def test_by_eye(parquet):
    table = parquet(
        pa.table({"text": ["a", None, ""], "label": [1, 0, None], "choices": [["x", "y"], [], None]}), row_group_size=2
    )
    assert table.columns == {"text": ["a", None, ""], "label": [1, 0, None], "choices": [["x", "y"], [], None]}
    assert table.place(2).endswith("x.parquet, row 3")
    assert table.class_names == {}
    with pytest.raises(DataError, match=r"x\.parquet, row 2: no value for 'text'"):
        table.column("text")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(
        st.tuples(st.none() | TEXTS, st.none() | st.integers(-9, 9), st.none() | st.lists(TEXTS, max_size=3)),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 7),
    st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]),
)
def test_what_is_written_is_read_as_it_was(parquet, rows, row_group_size, kind):
    texts, numbers, lists = map(list, zip(*rows, strict=True))
    arrow = pa.table(
        {
            "text": pa.array(texts, pa.string()).cast(kind),
            "number": pa.array(numbers, pa.int64()),
            "tags": pa.array(lists, pa.list_(pa.string())),
        }
    )
    table = parquet(arrow, row_group_size=row_group_size)
    assert table.columns == {"text": texts, "number": numbers, "tags": lists}


def test_many_batches_are_one_table(parquet):
    """1024 rows are the most of a batch."""
    texts = [f"text {number}" for number in range(3000)]
    assert parquet(pa.table({"text": texts})).columns == {"text": texts}


def test_class_names_come_from_the_schema_of_datasets(parquet):
    from datasets import ClassLabel, Dataset, Features, List, Value

    features = Features(
        {
            "text": Value("string"),
            "label": ClassLabel(names=["bad", "good"]),
            "tags": List(ClassLabel(names=["O", "B"])),
        }
    )
    rows = Dataset.from_dict({"text": ["a", "b"], "label": [1, -1], "tags": [[0, 1], []]}, features=features)
    batches = list(rows.with_format("arrow").iter(1))
    for table in (read_batches(batches, "org/set"), parquet(pa.concat_tables(batches))):
        assert table.columns == {"text": ["a", "b"], "label": [1, -1], "tags": [[0, 1], []]}
        assert table.class_names == {"label": ["bad", "good"], "tags": ["O", "B"]}


@pytest.mark.parametrize("metadata", [b"{}", b'{"info": null}', b'{"info": {"features": {"text": [1]}}}'])
def test_a_schema_without_classes(parquet, metadata):
    schema = pa.schema([("text", pa.string())], metadata={"huggingface": metadata})
    assert parquet(pa.table({"text": ["a"]}, schema=schema)).class_names == {}


def test_invalid_utf8_is_named_by_row_and_column(parquet):
    values = [b"fine", b"caf\xe9", None, b"\xff"]
    arrow = pa.table({"id": range(4), "text": pa.array(values, pa.binary()).view(pa.string())})
    with pytest.raises(DataError) as caught:
        parquet(arrow)
    first, second = str(caught.value).splitlines()[1:]
    assert "x.parquet, row 2: 'text' cannot be read ('utf-8' codec can't decode byte 0xe9 in position 3" in first
    assert "x.parquet, row 4: 'text' cannot be read (" in second


def test_no_rows(parquet):
    for arrow in (pa.table({"text": pa.array([], pa.string())}), pa.table({})):
        with pytest.raises(DataError, match=r"x\.parquet: no rows\Z"):
            parquet(arrow)


def test_columns_of_the_same_name(parquet):
    with pytest.raises(DataError, match=r"x\.parquet: 2 columns are named 'a'; expected one of each name"):
        parquet(pa.table([[1], [2]], names=["a", "a"]))
