"""Seconds until ``import bertkit`` and ``bertkit --help`` are done, beside importing transformers and torch.

    python benchmarks/start_up.py [--repeats 7]

Each command runs in a fresh process, the commands in turn, so that a busy moment of the machine meets all of them; the
first round only warms the file cache. Prints one JSON line: by command, the median seconds, and of the most memory that
was resident, in MiB (never less than this script has itself, about 17).
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    peaks: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repeats + 1):
        for name, arguments in COMMANDS.items():
            started = time.perf_counter()
            process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"failed: {name}")
            seconds[name].append(time.perf_counter() - started)
            peaks[name].append(usage.ru_maxrss / 1024)
    medians = {name: round(statistics.median(values[1:]), 3) for name, values in seconds.items()}
    memory = {name: round(statistics.median(values[1:])) for name, values in peaks.items()}
    versions = {name: version(name) for name in ("torch", "transformers", "typer")}
    where = {**versions, "python": platform.python_version(), "repeats": repeats}
    print(json.dumps({"seconds": medians, "peak_mib": memory, **where}))


if __name__ == "__main__":
    main()
