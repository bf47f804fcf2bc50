"""JSON lines, lists of objects and Arrow: a column for every key, None where it is missing, a place for every fault."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import Table, read_table
from bertkit.data.tables.typed_rows import json_parts, read_batches, read_json_list
from bertkit.runtime.errors import DataError
from tests.data.conftest import refusal, written


def read(folder: Path, name: str, text: str | bytes) -> Table:
    path = written(folder / name, text)
    return read_table(path) if name == "x.jsonl" else read_json_list(path)


def message(folder: Path, name: str, text: str | bytes) -> str:
    return refusal(read, folder, name, text).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("x.jsonl", '{"text": "a", "tags": ["x"]}\n\n{"label": 1, "text": "b"}\r\n{"text": null}\n', [1, 3, 4]),
        ("x.json", '\ufeff[\n {"text": "a",\n  "tags": ["x"]}, {"label": 1, "text": "b"},\n\n {"text": null}\n]\n',
         [2, 3, 5]),
    ],
)  # fmt: skip
def test_objects_are_rows_with_their_lines(tmp_path, name, text, lines):
    table = read(tmp_path, name, text)
    assert table.columns == {"text": ["a", "b", None], "tags": [["x"], None, None], "label": [None, 1, None]}
    assert list(table.lines) == lines
    with pytest.raises(DataError) as caught:
        table.column("label")
    fault = f"{tmp_path}/{name}, line {lines[0]}: no value for 'label' (2 times, also line {lines[2]})"
    assert str(caught.value) == fault


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.lists(TEXTS, max_size=3)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("x.jsonl", lambda rows, escaped: "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows)),
        ("x.json", lambda rows, escaped: json.dumps(rows, ensure_ascii=escaped)),
        ("x.json", lambda rows, escaped: json.dumps(rows, ensure_ascii=escaped, indent=2)),
    ],
    ids=["lines", "list", "indented"],
)
@given(
    rows=st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=6), escaped=st.booleans()
)
def test_written_json_is_read_unchanged(tmp_path_factory, name, write, rows, escaped):
    table = read(tmp_path_factory.mktemp("json"), name, write(rows, escaped))
    assert list(table.columns) == list({name: None for row in rows for name in row})
    if name == "x.jsonl":
        assert list(table.lines) == list(range(1, len(rows) + 1))
    for key, values in table.columns.items():
        expected = [row.get(key) for row in rows]
        assert values == expected
        assert list(map(type, values)) == list(map(type, expected))


def test_faults_are_collected_with_their_lines(tmp_path):
    text = '{"text": "a"}\n[1]\n{"text": \n{"text": "\\ud83d"}\n{"\\ud83d\\ude00": 1}\n'
    count, first, second, third = message(tmp_path, "x.jsonl", text).splitlines()
    assert count == "3 faults:"
    assert first == '  - x.jsonl, line 2: [1] is not a JSON object; expected one object per line, such as {"text": …}'
    assert second.startswith("  - x.jsonl, line 3: not valid JSON (Expecting value")
    assert third == (
        "  - x.jsonl, line 4: it contains an unpaired surrogate, \\ud83d, which is not a character; write the text "
        "again"
    )


NO_ROWS = 'x.jsonl: no rows; expected one JSON object per line, such as {"text": …, "label": …}'
NO_LIST = "x.json: expected a list of objects, [{…}, {…}]; if it has one object per line"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x.jsonl", "", NO_ROWS),
        ("x.jsonl", "{}\n", NO_ROWS.replace("no rows", "objects without keys")),
        ("x.json", "", NO_LIST),
        ("x.json", '{"text": "a"}\n{"text": "b"}\n', NO_LIST),
        ("x.json", '{"count": 1, "tickets": [{"a": 1}]}', "x.json: an object, whose 'tickets' is a list of objects"),
        (
            "x.json",
            '{"it\'s": [{"a": 1}]}',
            """x.json: an object, whose "it's" is a list of objects; save the list: jq '.["it'"'"'s"]' O""",
        ),
        ("x.json", '[{"a": 1}]\n[{"a": 2}]', "x.json, line 2: more than one list, or other text behind it; expected"),
        ("x.json", '{"tickets": [1]}', NO_LIST),
        ("x.json", "[]", "x.json: no rows; expected a list"),
        ("x.json", '[{"a": 1},\n 3]', "x.json, line 2: 3 is not an object; expected a list"),
        ("x.json", '[{"a": 1}\n {"a": 2}]', "x.json, line 2: not valid JSON (Expecting ',' or ']'); expected"),
        ("x.json", '[{"a": 1},\n{"a": }]', "x.json, line 2: not valid JSON (Expecting value); expected"),
        ("x.json", '[{"a": 1}', "x.json, line 1: not valid JSON (Expecting ',' or ']')"),
        ("x.json", '[{"a": "\\ud83d"}]', "x.json, line 1: it contains an unpaired surrogate"),
        ("x.json", '[{"a": ' + "1" * 5000 + "}]", "x.json, line 1: not valid JSON (Exceeds the limit"),
        ("x.json", "[" * 100_000, "x.json, line 1: not valid JSON ("),
        ("x.json", '[{"a": 1},\n{"a": {"b": 1, "b": 2}}]', "x.json, line 2: the key 'b' occurs twice in an object"),
        ("x.jsonl", '{"a": 1}\n{"a": 1, "a": 2}\n', "x.jsonl, line 2: the key 'a' occurs twice in an object; keep one"),
        ("x.json", b'[{"a": "\xff"}]', "x.json, line 1: not UTF-8"),
    ],
)
def test_other_content_is_refused(tmp_path, name, text, expected):
    assert message(tmp_path, name, text).startswith(expected)


def test_objects_without_keys_are_not_left_out_of_parts():
    """The columns of a part would be those of no object, and its rows would be missing among those of the file."""
    lines = ["{}", "{}", '{"a": 1}']
    assert [table.columns for table in json_parts(lines, "x.jsonl")] == [{"a": [None, None, 1]}]
    with pytest.raises(DataError, match=r"x\.jsonl: objects without keys; expected one JSON object per line"):
        list(json_parts(lines, "x.jsonl", 2))


# ---- Arrow ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """``parquet(arrow_table, row_group_size=…)`` writes it and reads the file as a table."""
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"

    def round_trip(arrow, **options) -> Table:
        pq.write_table(arrow, path, **options)
        return read_table(path)

    return round_trip


def test_values_of_parquet_keep_their_types(parquet):
    columns = {"text": ["a", None, ""], "label": [1, 0, None], "choices": [["x", "y"], [], None]}
    table = parquet(pa.table(columns), row_group_size=2)
    assert table.columns == columns
    assert table.place(2).endswith("x.parquet, row 3")
    assert table.class_names == {}
    with pytest.raises(DataError, match=r"x\.parquet, row 2: no value for 'text'"):
        table.column("text")


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


def test_class_names_of_lists_as_older_datasets_describes_them(parquet):
    tag, kind = ({"names": names, "_type": "ClassLabel"} for names in (["O", "B"], ["PER", "ORG"]))
    described = {"info": {"features": {"tags": [tag], "entities": [{"type": kind}], "none": []}}}
    rows = pa.table({"tags": [[0, 1]], "entities": [[{"type": 1}]], "none": [[]]})
    found = parquet(rows.replace_schema_metadata({"huggingface": json.dumps(described)})).class_names
    assert found == {"tags": ["O", "B"], "entities.type": ["PER", "ORG"]}


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


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (pa.table({"text": pa.array([], pa.string())}), "no rows"),
        (pa.table({}), "no rows"),
        (pa.table([[1], [2]], names=["a", "a"]), "2 columns are named 'a'; expected one of each name"),
    ],
)
def test_parquet_without_rows_or_names_is_refused(parquet, table, expected):
    with pytest.raises(DataError, match=rf"x\.parquet: {expected}\Z"):
        parquet(table)


def test_a_list_in_utf_16_is_read(tmp_path, capsys):
    """As PowerShell writes it."""
    assert read(tmp_path, "x.json", '[{"text": "für"}]'.encode("utf-16")).columns == {"text": ["für"]}
    assert "x.json: not UTF-8; read as UTF-16" in capsys.readouterr().err


def test_objects_of_one_line_are_told_by_their_numbers(tmp_path):
    (tmp_path / "x.json").write_text('[{"text": "a"}, {"text": "b"}]')
    assert read_json_list(tmp_path / "x.json").place(1) == f"{tmp_path}/x.json, row 2"
