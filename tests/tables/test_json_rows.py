"""JSON lines: a column for every key, None where it is not there, a line for every fault."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import DataError
from bertkit.reading.utf8 import decode_lines
from bertkit.tables import Table
from bertkit.tables.json_rows import read_json_lines


def read(text: str) -> Table:
    return read_json_lines(decode_lines([text.encode()], "x"), "x", "")


def refusal(text: str) -> str:
    with pytest.raises(DataError) as caught:
        read(text)
    return str(caught.value)


def test_by_eye():
    table = read('{"text": "a", "tags": ["x", "y"]}\n\n{"label": 1, "text": "b"}\r\n{"text": null}\n')
    assert table.columns == {"text": ["a", "b", None], "tags": [["x", "y"], None, None], "label": [None, 1, None]}
    assert list(table.lines) == [1, 3, 4]
    with pytest.raises(DataError, match=r"\A2 faults:\n  - x, line 1: no value for 'label'\n  - x, line 4: no"):
        table.column("label")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.lists(TEXTS, max_size=3)


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=6), st.booleans())
def test_what_json_writes_is_read_as_it_was(objects, escaped):
    table = read("".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in objects))
    assert list(table.columns) == list({name: None for row in objects for name in row})
    assert list(table.lines) == list(range(1, len(objects) + 1))
    for name, values in table.columns.items():
        expected = [row.get(name) for row in objects]
        assert values == expected
        assert list(map(type, values)) == list(map(type, expected))


def test_faults_are_collected_with_their_lines():
    shown = refusal('{"text": "a"}\n[1]\n{"text": \n{"text": "\\ud83d"}\n{"\\ud83d\\ude00": 1}\n').splitlines()
    assert shown[0] == "3 faults:"
    assert shown[1].startswith("  - x, line 2: [1] is not a JSON object; expected one object per line")
    assert shown[2].startswith("  - x, line 3: not valid JSON (Expecting value")
    assert (
        shown[3]
        == "  - x, line 4: it contains an unpaired surrogate, \\ud83d, which is not a character; write the text again"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "{}\n"])
def test_a_row_is_expected(text):
    assert refusal(text) == "x: no rows; expected one JSON object per line, such as {'text': …, 'label': …}"
