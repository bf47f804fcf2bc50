"""Seconds to get the answers to SQuAD 1.1's 10,570 questions of dev out of scores, on one core.

    python benchmarks/squad_decoding.py --model CHECKPOINT --data-file dev-v1.1.json [--repeats 3]

The windows are the real ones (384 tokens, 128 shared), the scores random: decoding takes the same
number of spans for any scores. Prints one JSON line: median wall and processor seconds for encoding and decoding.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.checkpoint.load import load_tokenizer
from bertkit.tasks.question_answering.decoding import decode_spans
from bertkit.tasks.question_answering.nested import read_nested
from bertkit.tasks.question_answering.windows import WindowSizes, encode_windows


def timed(work: Callable[[], Any], repeats: int) -> tuple[Any, dict[str, float]]:
    """Returns the result of the work, and the medians of its wall and processor times in seconds."""
    seconds = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        given = work()
        seconds.append((time.perf_counter() - wall, time.process_time() - processor))
    walls, processors = zip(*seconds, strict=True)
    return given, {"wall": round(statistics.median(walls), 2), "processor": round(statistics.median(processors), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="its tokenizer is used")
    parser.add_argument("--data-file", required=True, type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    tokenizer, table = load_tokenizer(args.model), read_nested(args.data_file)
    questions, contexts = table.column("question"), table.column("context")
    features, encoding = timed(
        lambda: encode_windows(questions, contexts, None, tokenizer, WindowSizes(384, 128, 64)), args.repeats
    )
    shape = (len(features["length"]), max(features["length"]))
    generator = np.random.default_rng(0)
    starts, ends = (generator.normal(scale=3, size=shape).astype(np.float32) for _ in range(2))
    options = {"max_answer_length": 30, "n_best_size": 20, "may_be_unanswerable": True}
    _, decoding = timed(lambda: decode_spans(starts, ends, features, contexts, **options), args.repeats)
    found = {"questions": len(questions), "windows": shape[0], "encoding": encoding, "decoding": decoding}
    print(json.dumps({**found, "numpy": np.__version__, "machine": platform.machine()}))


if __name__ == "__main__":
    main()
