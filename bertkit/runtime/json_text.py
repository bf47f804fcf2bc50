"""Serialization to JSON, in one place, so that no file or output holds NaN or Infinity.

Python writes these as bare words, which are not JSON: other readers refuse the whole file.
"""

from __future__ import annotations

import json
from typing import Any


def dumps(content: Any, **options: Any) -> str:
    """Serializes as `json.dumps` with the same options; NaN and infinities become ``null``.

    >>> dumps({"pearson": float("nan"), "accuracy": 0.5, "runs": {float("nan")}}, default=list)
    '{"pearson": null, "accuracy": 0.5, "runs": [null]}'
    """
    try:
        return json.dumps(content, allow_nan=False, **options)
    except ValueError:  # rare, so that other content is converted only once
        words = json.dumps(content, **options)
        return json.dumps(json.loads(words, parse_constant=lambda word: None), **options)
