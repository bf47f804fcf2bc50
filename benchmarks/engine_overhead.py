"""Rows per second of `bertkit predict --output-dir` in processes of this machine and with workers of Ray, by turns.

    python benchmarks/engine_overhead.py CHECKPOINT [--rows 100000] [--workers 1] [--rounds 3]

Each side, such as ``ray 1``, predicts the same JSON lines, in a process of its own, from the start of the command's
work to its end: with the start of Ray and the loading of the model, which are also given as seconds for a single shard
of one row. The files of all sides must be identical.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
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
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="numbers of workers of each engine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        one_side(given.checkpoint, given.side, given.folder, given.rows)
        return
    os.environ.setdefault("MKL_CBWR", "AUTO")  # as the command does: otherwise last digits depend on addresses
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "rows.jsonl", given.rows)
        write_rows(Path(folder) / "one.jsonl", 1)
        own = [__file__, given.checkpoint, "--rows", str(given.rows), "--folder", folder, "--side"]
        sides = [f"{engine} {count}" for count in given.workers for engine in ("local", "ray")]
        found = by_turns({side: [*own, side] for side in sides}, given.rounds)
    if len({each["digest"] for each in found.values()}) > 1:
        raise SystemExit(f"the files differ: {found}")
    overheads = {
        count: round(100 * (found[f"ray {count}"]["seconds"] / found[f"local {count}"]["seconds"] - 1), 1)
        for count in given.workers
    }
    print(json.dumps({**machine(), "rows": given.rows, **found, "overhead_percent": overheads}, indent=2))


def write_rows(path: Path, count: int) -> None:
    """Writes texts of 1 to 40 words."""
    chosen = random.Random(0)
    with path.open("w") as stream:
        for row in range(count):
            text = " ".join(chosen.choices(WORDS, k=chosen.randint(1, 40)))
            stream.write(json.dumps({"id": row, "sentence": text, "text": text}) + "\n")


def one_side(checkpoint: str, side: str, folder: Path, rows: int) -> None:
    """Predicts for one row and for all rows; reports seconds, rows per second and a digest of the files."""
    from bertkit.scaling.folders import Workers, predict_folder

    engine, count = side.split()
    workers = Workers(engine="ray", workers=int(count)) if engine == "ray" else Workers(num_processes=int(count))
    seconds, digest = {}, hashlib.sha256()
    for name in ("one", "rows"):
        with tempfile.TemporaryDirectory() as out:
            started = time.perf_counter()
            predict_folder(checkpoint, str(folder / f"{name}.jsonl"), f"{out}/out", workers=workers)
            seconds[name] = time.perf_counter() - started
            for path in sorted(Path(out, "out").rglob(f"{name}.jsonl.*.jsonl")):
                digest.update(path.name.encode() + path.read_bytes())
    report(
        seconds=seconds["rows"],
        rows_per_second=rows / seconds["rows"],
        seconds_to_start=seconds["one"],
        digest=int(digest.hexdigest()[:12], 16),
    )


if __name__ == "__main__":
    main()
