"""Speed of ``bertkit corpus build`` by the number of workers.

    python benchmarks/corpus_speed.py [--megabytes 96] [--workers 1 2] [--forms txt jsonl] [--rounds 2]

The corpus is the synthetic text of ``memory.py``: documents of about 19 sentences, separated by a line or one in each
row of JSON lines, tokenized with a WordPiece vocabulary of 8,000 that is trained on its first documents. Each build
runs in a process of its own, by turns; ``seconds`` are those of the whole command, ``cpu_seconds`` those of all its
processes. The last lines are the speed-ups, by the medians of the rounds, and the machine. All stores of a form have to
have the same fingerprint.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from by_turns import machine
from memory import SEPARATOR, cpu_seconds, in_own_process, make_tokenizer, write_corpus


def build(work: Path, form: str, workers: int) -> dict[str, float | str]:
    """Builds a store and removes it."""
    output = work / "store"
    options = ["--corpus", str(work / f"corpus.{form}"), "--tokenizer", str(work / "tokenizer")]
    options += ["--output-dir", str(output), "--workers", str(workers)]
    options += ["--document-separator", SEPARATOR] if form == "txt" else []
    started, before = time.perf_counter(), cpu_seconds()
    subprocess.run(
        [sys.executable, "-m", "bertkit", "corpus", "build", *options],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    manifest = json.loads((output / "store.json").read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in output.iterdir())
    tokens = sum(part["tokens"] for part in manifest["parts"])
    shutil.rmtree(output)
    return {
        **{
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds() - before, 1),
            "store_bytes": size,
            "tokens": tokens,
            "parts": len(manifest["parts"]),
        },
        "fingerprint": manifest["fingerprint"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=96)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--forms", nargs="+", choices=["txt", "jsonl"], default=["txt", "jsonl"])
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        in_own_process(make_tokenizer, work / "tokenizer", 0)
        for form in args.forms:
            in_own_process(write_corpus, work / f"corpus.{form}", args.megabytes, 0)
            size = (work / f"corpus.{form}").stat().st_size
            seconds: dict[int, list[float]] = {workers: [] for workers in args.workers}
            fingerprints = set()
            for _ in range(args.rounds):
                for workers in args.workers:
                    result = build(work, form, workers)
                    fingerprints.add(result.pop("fingerprint"))
                    seconds[workers].append(float(result["seconds"]))
                    rate = round(size / 1e6 / float(result["seconds"]), 2)
                    line = {"form": form, "workers": workers, "megabytes": round(size / 1e6, 1), "mb_a_second": rate}
                    print(json.dumps({**line, **result}), flush=True)
            assert len(fingerprints) == 1, fingerprints
            medians = {workers: statistics.median(each) for workers, each in seconds.items()}
            ratios = {str(workers): round(medians[args.workers[0]] / each, 2) for workers, each in medians.items()}
            print(json.dumps({"form": form, "times_as_fast_as_the_first": ratios}), flush=True)
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
