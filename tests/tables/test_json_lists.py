"""Lists of JSON objects: rows with the lines in which they begin, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.tables.json_rows import read_json_list


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "x.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_json_list(path)

    return of


def test_objects_are_rows_with_their_lines(read):
    table = read('\ufeff[\n {"a": 1,\n  "b": "x\\ny"}, {"a": [2]},\n\n {"c": null}\n]\n')
    assert table.columns == {"a": [1, [2], None], "b": ["x\ny", None, None], "c": [None, None, None]}
    assert list(table.lines) == [2, 3, 5]


@pytest.mark.parametrize("indent", [None, 2])
@given(rows=st.lists(st.dictionaries(st.text(max_size=3), st.text() | st.integers(), min_size=1), min_size=1))
def test_it_reads_what_json_writes(tmp_path_factory, indent, rows):
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(rows, indent=indent), encoding="utf-8")
    table = read_json_list(path)
    assert [{name: values[row] for name, values in table.columns.items()} for row in range(len(table))] == [
        {name: row.get(name) for name in table.columns} for row in rows
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.json: expected a list of objects"),
        (
            '{"text": "a"}\n{"text": "b"}\n',
            "x.json: expected a list of objects, [{…}, {…}]; if it has one object per line",
        ),
        ("[]", "x.json: no rows; expected a list"),
        ("[{}]", "x.json: no rows; expected a list"),
        ('[{"a": 1},\n 3]', "x.json, line 2: 3 is not an object; expected a list"),
        ('[{"a": 1}\n {"a": 2}]', "x.json, line 2: not valid JSON (Expecting ',' or ']'); expected"),
        ('[{"a": 1},\n{"a": }]', "x.json, line 2: not valid JSON (Expecting value); expected"),
        ('[{"a": 1}', "x.json, line 1: not valid JSON (Expecting ',' or ']')"),
        ('[{"a": 1},', "x.json, line 1: not valid JSON (Expecting value)"),
        ('[{"a": "\\ud83d"}]', "x.json, line 1: it contains an unpaired surrogate"),
        ('[{"a": ' + "1" * 5000 + "}]", "x.json, line 1: not valid JSON (Exceeds the limit"),
        ("[" * 100_000, "x.json, line 1: not valid JSON ("),
        (b'[{"a": "\xff"}]', "x.json"),
    ],
)
def test_what_is_not_such_a_list_is_refused(read, tmp_path, text, expected):
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(expected)
