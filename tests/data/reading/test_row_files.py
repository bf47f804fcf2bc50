"""Rows of JSON: halves of surrogate pairs are refused by every reader, with their place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.reading.row_files import json_texts, lone_surrogate
from bertkit.data.tables.typed_rows import json_parts
from bertkit.runtime.errors import DataError
from bertkit.tasks.question_answering.questions import read_nested
from tests.data.conftest import refusal

HALVES = ["\ud800", "\udbff", "\udc00", "\udfff", "\ude00\ud83d", "a\ud83d b", "\ud83d\\ude00"]
WHOLE = ["", "a", "é", "\U0001f600", "\\ud800", "\\", "北京", "\\\\ud83d"]
TEXTS = st.sampled_from([*HALVES, *WHOLE])
VALUES = st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(VALUES, st.sampled_from(["\\ud", "\\uD"]))
def test_half_of_a_surrogate_pair_is_found_anywhere(value, escape):
    text = json.dumps(value).replace("\\ud", escape)
    parsed = json.loads(text)
    holds = any("\ud800" <= sign <= "\udfff" for sign in json.dumps(parsed, ensure_ascii=False))
    assert bool(lone_surrogate(parsed, text)) == holds


@pytest.mark.parametrize("half", HALVES)
def test_json_readers_refuse_it_with_its_place(tmp_path, half):
    row = json.dumps({"text": f"a {half} b", "label": "x"})
    with pytest.raises(DataError, match=r"^x\.jsonl, line 2: it contains an unpaired surrogate, \\ud[89a-f]..,"):
        list(json_parts(['{"text": "fine", "label": "y"}', row], "x.jsonl"))
    with pytest.raises(DataError, match=r"^x\.jsonl: line 2: 'text' contains an unpaired surrogate, \\ud[89a-f]..,"):
        list(json_texts(['{"text": "fine"}', row], "text", "x.jsonl"))
    path = tmp_path / "squad.json"
    for name in ("id", "question", "context", "answers"):
        fine = {"id": "one", "question": "q", "answers": [{"text": "a", "answer_start": 0}]}
        wrong = {**fine, "id": "two"}
        context = "a b"
        if name == "answers":
            wrong["answers"] = [{"text": f"a{half}", "answer_start": 0}]
        elif name == "context":
            context = f"a b {half}"
        else:
            wrong[name] = f"q{half}"
        paragraphs = [{"context": "a b", "qas": [fine]}, {"context": context, "qas": [wrong]}]
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        fault = refusal(read_nested, path)
        assert fault.startswith(f"{path}: data[0].paragraphs[1].qas[0] (id ")
        assert f"): {name} contains an unpaired surrogate, \\ud" in fault
        assert fault.isascii()
