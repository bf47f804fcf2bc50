"""Serialization to JSON, in one place, so that no file or output holds NaN or Infinity.

Python writes these as bare words, which are not JSON: other readers refuse the whole file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(content: Any, **options: Any) -> str:
    """Serializes as `json.dumps` with the same options; NaN and infinities become ``null``.

    >>> dumps({"pearson": float("nan"), "accuracy": 0.5})
    '{"pearson": null, "accuracy": 0.5}'
    >>> dumps({1j}, default=lambda value: [float("inf")])
    '[null]'
    """
    try:
        return json.dumps(content, allow_nan=False, **options)
    except ValueError:  # rare, so that other content is walked through only once
        if default := options.get("default"):
            options["default"] = lambda value: _replace_non_finite(default(value))
        return json.dumps(_replace_non_finite(content), allow_nan=False, **options)


def _replace_non_finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_replace_non_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
