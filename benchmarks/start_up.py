"""Seconds until ``import bertkit`` and ``bertkit --help`` are done, beside importing transformers and torch.

    python benchmarks/start_up.py [--repeats 7] [--checkpoint CHECKPOINT]

Each command runs in a fresh process, the commands in turn, so that a busy moment of the machine meets all of them; the
first round only warms the file cache. Prints one JSON line: by command, the median seconds, and of the most memory that
was resident, in MiB (never less than this script has itself, about 17).

With a CHECKPOINT that classifies texts, stock or of bertkit, the commands are ``bertkit predict CHECKPOINT TEXT``
and transformers' pipeline for the same text, beside importing torch, with the processor seconds of each: on a busy
machine those vary less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import bertkit": ["-c", "import bertkit"],
    "bertkit --help": ["-m", "bertkit", "--help"],
    "bertkit finetune glue --help": ["-m", "bertkit", "finetune", "glue", "--help"],
    "import transformers": ["-c", "import transformers"],
    "import torch": ["-c", "import torch"],
}

TEXT = "a lovely film"
PIPELINE = (
    "import sys; from transformers import pipeline; print(pipeline('text-classification', sys.argv[1])(sys.argv[2]))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--checkpoint", help="time predictions with this checkpoint instead")
    args = parser.parse_args()
    repeats, commands = args.repeats, COMMANDS
    if args.checkpoint is not None:
        commands = {
            "bertkit predict": ["-m", "bertkit", "predict", args.checkpoint, TEXT],
            "pipeline": ["-c", PIPELINE, args.checkpoint, TEXT],
            "import torch": COMMANDS["import torch"],
        }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    peaks: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, arguments in commands.items():
            started = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"failed: {name}")
            seconds[name].append(time.perf_counter() - started)
            cpu[name].append(usage.ru_utime + usage.ru_stime)
            peaks[name].append(usage.ru_maxrss / 1024)
    medians = {name: round(statistics.median(values[1:]), 3) for name, values in seconds.items()}
    processor = {name: round(statistics.median(values[1:]), 3) for name, values in cpu.items()}
    memory = {name: round(statistics.median(values[1:])) for name, values in peaks.items()}
    versions = {name: version(name) for name in ("torch", "transformers", "typer")}
    where = {**versions, "python": platform.python_version(), "repeats": repeats}
    print(json.dumps({"seconds": medians, "processor_seconds": processor, "peak_mib": memory, **where}))


if __name__ == "__main__":
    main()
