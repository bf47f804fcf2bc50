"""Rows of JSON: halves of surrogate pairs are refused by every reader, with their place."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from bertkit.data.reading.row_files import json_texts, lone_surrogate
from bertkit.data.tables.typed_rows import json_parts
from bertkit.runtime.errors import DataError
from bertkit.tasks.question_answering.questions import read_nested

HALVES = ["\ud800", "\udbff", "\udc00", "\udfff", "\ude00\ud83d", "a\ud83d b", "\ud83d\\ude00"]
WHOLE = ["", "a", "é", "\U0001f600", "\\ud800", "\\", "北京", "\\\\ud83d"]


def value(draw: random.Random, half: str | None, depth: int = 0) -> Any:
    """A JSON value; with ``half``, that text stands somewhere in it."""
    if depth == 3 or draw.random() < 0.4:
        return draw.choice(WHOLE) + (half or "")
    values = [value(draw, None, depth + 1) for _ in range(draw.randint(0, 3))]
    values.insert(draw.randint(0, len(values)), value(draw, half, depth + 1))
    if draw.random() < 0.5:
        return values
    names = [f"key{number}" for number in range(len(values))]
    if half and draw.random() < 0.3:
        return {**dict(zip(names, values, strict=True)), f"x{half}": 1}
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("seed", range(50))
def test_half_of_a_surrogate_pair_is_found_anywhere(seed):
    draw = random.Random(seed)
    half = draw.choice(HALVES)
    for written in (value(draw, half), value(draw, None)):
        text = json.dumps(written)
        if draw.random() < 0.5:
            text = text.replace("\\ud", "\\uD")
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
        with pytest.raises(DataError) as caught:
            read_nested(path)
        assert str(caught.value).startswith(f"{path}: data[0].paragraphs[1].qas[0] (id ")
        assert f"): {name} contains an unpaired surrogate, \\ud" in str(caught.value)
        assert str(caught.value).isascii()
