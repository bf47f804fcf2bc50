"""Time of the parts of `bertkit explain` after loading, on texts of a number of words.

    python benchmarks/explain_speed.py CHECKPOINT [CHECKPOINT ...] --text FILE [--words 30] [--count 10]

The texts are the first words of FILE, cut every ``--words`` words. The first text is a warm-up and does not count. Each
line is one checkpoint as JSON: the median and the largest seconds of every part that fits it, of all of them together
with the page, and the largest number of steps of an integral.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from by_turns import machine

from bertkit.features.explain.attention import attention_of
from bertkit.features.explain.attribution import attribution_of, explained_subject
from bertkit.features.explain.explain import Explanation
from bertkit.features.explain.filling import filling_of
from bertkit.features.explain.network import Network, load_network
from bertkit.features.explain.pieces import pieces_of, with_summands
from bertkit.runtime.errors import BertkitError


def seconds_of(network: Network, text: str) -> tuple[dict[str, float], int]:
    """Explains a text; returns the seconds of each part, and the steps of the integrals."""
    seconds: dict[str, float] = {}

    def timed(name: str, compute: Any) -> Any:
        start = time.perf_counter()
        try:
            return compute()
        except BertkitError:  # a part that does not fit
            return None
        finally:
            seconds[name] = time.perf_counter() - start

    shown = Explanation(network.name, network.family, pieces_of(network, [text]))
    if network.task is not None:
        subject = timed("prediction", lambda: explained_subject(network, [text]))
        shown.attributions = timed("attribution", lambda: attribution_of(network, subject))
    else:
        shown.masked = timed("masked", lambda: filling_of(network, shown.pieces))
    shown.pieces = timed("pieces", lambda: with_summands(network, shown.pieces))
    shown.heads = timed("attention", lambda: attention_of(network, shown.pieces))
    timed("page", shown.html)
    steps = [reason.steps for reason in shown.attributions.reasons] if shown.attributions is not None else [0]
    return {**seconds, "all": sum(seconds.values())}, max(steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--text", type=Path, required=True, help="a text file")
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()
    words = args.text.read_text(encoding="utf-8").split()[: args.words * (args.count + 1)]
    texts = [" ".join(words[start : start + args.words]) for start in range(0, len(words), args.words)]
    for checkpoint in args.checkpoints:
        network = load_network(checkpoint, "cpu")
        seconds_of(network, texts[0])
        of_parts: dict[str, list[float]] = defaultdict(list)
        most = 0
        for text in texts[1:]:
            seconds, steps = seconds_of(network, text)
            most = max(most, steps)
            for name, value in seconds.items():
                of_parts[name].append(value)
        parts = {
            name: {"median": round(statistics.median(values), 3), "largest": round(max(values), 3)}
            for name, values in of_parts.items()
        }
        print(json.dumps({"checkpoint": checkpoint, "words": args.words, "steps": most, **parts, **machine()}))


if __name__ == "__main__":
    main()
