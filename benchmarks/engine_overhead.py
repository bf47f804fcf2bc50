"""Rows per second of `bertkit predict --output-dir` in this process and with one worker of Ray, by turns.

    python benchmarks/engine_overhead.py CHECKPOINT [--rows 100000] [--rounds 3]

Each side predicts the same JSON lines, in a process of its own, from the start of the command's work to its end: with
the start of Ray and the loading of the model, which are also given as seconds for a single shard of one row.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from by_turns import by_turns, machine, report

WORDS = "a good bad film story the plot is lovely or awful , with much to see and little to say".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=("local", "ray"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        one_side(given.checkpoint, given.side, given.folder, given.rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "rows.jsonl", given.rows)
        write_rows(Path(folder) / "one.jsonl", 1)
        own = [__file__, given.checkpoint, "--rows", str(given.rows), "--folder", folder, "--side"]
        found = by_turns({side: [*own, side] for side in ("local", "ray")}, given.rounds)
    overhead = found["ray"]["seconds"] / found["local"]["seconds"] - 1
    print(
        json.dumps({**machine(), "rows": given.rows, **found, "overhead_percent": round(100 * overhead, 1)}, indent=2)
    )


def write_rows(path: Path, count: int) -> None:
    """Writes texts of 1 to 40 words."""
    chosen = random.Random(0)
    with path.open("w") as stream:
        for row in range(count):
            text = " ".join(chosen.choices(WORDS, k=chosen.randint(1, 40)))
            stream.write(json.dumps({"id": row, "sentence": text, "text": text}) + "\n")


def one_side(checkpoint: str, side: str, folder: Path, rows: int) -> None:
    """Predicts for one row and for all rows with one worker; reports seconds and rows per second."""
    from bertkit.scaling.folders import Workers, predict_folder

    workers = Workers(engine="ray", workers=1) if side == "ray" else Workers(num_processes=1)
    seconds = {}
    for name in ("one", "rows"):
        with tempfile.TemporaryDirectory() as out:
            started = time.perf_counter()
            predict_folder(checkpoint, str(folder / f"{name}.jsonl"), f"{out}/out", workers=workers)
            seconds[name] = time.perf_counter() - started
    report(seconds=seconds["rows"], rows_per_second=rows / seconds["rows"], seconds_to_start=seconds["one"])


if __name__ == "__main__":
    main()
