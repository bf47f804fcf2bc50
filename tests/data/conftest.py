"""Files of texts and tables, and the messages that refuse them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertkit.runtime.errors import DataError


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """The message of the `DataError` that a call raises."""
    with pytest.raises(DataError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def written(path: Path, data: bytes | str = "x") -> Path:
    """Writes a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def packed(data: bytes, packing: str) -> bytes:
    """The data as they are in a file that ends in ``""``, ``".gz"`` or ``".zst"``."""
    if packing == ".zst":
        return pa.Codec("zstd").compress(data, asbytes=True)
    return gzip.compress(data) if packing == ".gz" else data


def parquet(table: pa.Table | Mapping[str, Sequence[Any]], **options: Any) -> bytes:
    """A Parquet file; options are those of pyarrow."""
    stream = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), stream, **options)
    return stream.getvalue()


def json_lines(texts: Sequence[str | None]) -> bytes:
    """A file of rows with an ``id``, 1, and a ``text``."""
    return "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()


_CARD = """---
configs:
- config_name: english
  data_files: [{split: train, path: en/train.jsonl}, {split: test, path: en/test.jsonl}]
- config_name: german
  data_files: de/*.jsonl
---
"""
LANGUAGES = {
    "README.md": _CARD.encode(),
    "en/train.jsonl": json_lines(["An English row.", "Two."]),
    "en/test.jsonl": json_lines(["Another.", "Row."]),
    "de/train.jsonl": json_lines(["Eine Zeile.", "Zwei."]),
}
"""Files of a data set of the Hub with two configurations."""
