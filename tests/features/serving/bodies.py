"""Generated bodies of requests, and the routes that they are sent to."""

from __future__ import annotations

import json
import random
from typing import Any

KEYS = "inputs parameters truncate options model normalize question context source_sentence sentences query".split()
KEYS += "texts raw_scores return_text input encoding_format dimensions text text_pair top_k targets".split()
KEYS += "function_to_apply aggregation_strategy ignore_labels max_answer_len handle_impossible_answer".split()
PATHS = ["/", "/", "/", "/predict", "/embed", "/rerank", "/similarity", "/v1/embeddings"]


def random_body(source: random.Random) -> bytes:
    """JSON that is close to a request, with faults of all kinds, or bytes."""
    texts = ["", "a film", "\x00", "\t", "😀" * 9, "film " * 40, "\u202e", "[MASK]", "a" * 3000, "\n\r"]

    def value(depth: int) -> Any:
        kinds = ["text", "text", "text", "number", "list", "object", "other"]
        kind = source.choice(kinds[:4] if depth > 3 else kinds)
        if kind == "text":
            return source.choice(texts)
        if kind == "number":
            return source.choice([0, -1, 1, 5, 10**9, 10**30, 1.5, float("nan"), float("inf"), 1e308])
        if kind == "list":
            return [value(depth + 1) for _ in range(source.randrange(5))]
        if kind == "object":
            return {source.choice([*KEYS, "x"]): value(depth + 1) for _ in range(source.randrange(5))}
        return source.choice([None, True, False])

    body = {source.choice(KEYS): value(1) for _ in range(source.randrange(4))}
    if source.random() < 0.7:
        body["inputs"] = value(0)
    data = json.dumps(body, ensure_ascii=source.random() < 0.5).encode()
    if source.random() < 0.3:
        data = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data[: source.randrange(len(data) + 1)] if source.random() < 0.1 else data)
