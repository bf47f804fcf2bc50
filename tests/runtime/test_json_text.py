"""JSON that every reader takes: no NaN, no Infinity, and everything else as Python writes it."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import bertkit
from bertkit.runtime.json_text import dumps

PACKAGE = Path(bertkit.__file__).parent
# Messages only: it shows a value of the user's file as it stands there.
SHOWS_VALUES = {PACKAGE / "data" / "reading" / "row_files.py"}

contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def expected(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: expected(value) for key, value in content.items()}
    if isinstance(content, list):
        return [expected(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@settings(max_examples=100)
@given(contents, st.sampled_from([{}, {"indent": 2, "sort_keys": True, "ensure_ascii": False}]))
def test_only_numbers_that_are_not_finite_are_changed(content, options):
    assert dumps(content, **options) == json.dumps(expected(content), **options)


def test_no_other_file_writes_json():
    for path in set(PACKAGE.rglob("*.py")) - SHOWS_VALUES - {PACKAGE / "runtime" / "json_text.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            is_json = isinstance(node, ast.ImportFrom) and node.module == "json"
            is_call = isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.dump", "json.dumps")
            assert not is_call, f"{path}, line {node.lineno}: use bertkit.runtime.json_text.dumps"
            assert not (is_json and {"dump", "dumps"} & set(names)), f"{path}: use bertkit.runtime.json_text.dumps"
