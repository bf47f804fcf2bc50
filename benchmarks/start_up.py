"""Seconds until ``import bertkit`` and ``bertkit --help`` are done, beside importing transformers and torch.

    python benchmarks/start_up.py [--repeats 7] [--checkpoint CHECKPOINT]

Each command runs in a fresh process, the commands in turn, so that a busy moment of the machine meets all of them; the
first round only warms the file cache. Prints one JSON line: by command, the median seconds on the clock and of the
processor, which vary less on a busy machine, and of the most memory that was resident, in MiB (never less than this
script has itself, about 17). With a CHECKPOINT that classifies texts, stock or of bertkit, the commands are ``bertkit
predict CHECKPOINT TEXT``, transformers' pipeline and its Auto classes for the same text, beside importing torch.
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

from by_turns import note_round

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
AUTO_MODEL = """
import sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
tokenizer, model = (kind.from_pretrained(sys.argv[1]) for kind in (AutoTokenizer, AutoModelForSequenceClassification))
with torch.inference_mode():
    print(model.config.id2label[model(**tokenizer(sys.argv[2], return_tensors="pt")).logits.argmax().item()])
"""


def run(arguments: list[str]) -> dict[str, float]:
    """Runs Python once: seconds on the clock and of the processor, and MiB.

    Raises:
        SystemExit: it failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(arguments)}")
    seconds = {"seconds": time.perf_counter() - started, "processor_seconds": usage.ru_utime + usage.ru_stime}
    return {**seconds, "peak_mib": usage.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--checkpoint", help="time predictions with this checkpoint instead")
    args = parser.parse_args()
    commands = COMMANDS
    if args.checkpoint is not None:
        commands = {
            "bertkit": ["-m", "bertkit", "predict", args.checkpoint, TEXT],
            "pipeline": ["-c", PIPELINE, args.checkpoint, TEXT],
            "auto classes": ["-c", AUTO_MODEL, args.checkpoint, TEXT],
            "import torch": COMMANDS["import torch"],
        }
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(args.repeats + 1):  # the first round warms the file cache
        rounds.append({name: run(arguments) for name, arguments in commands.items()})
        for name, result in rounds[-1].items() if number else ():
            note_round(number, name, result)
    del rounds[0]
    medians = {
        kind: {name: round(statistics.median(each[name][kind] for each in rounds), digits) for name in commands}
        for kind, digits in {"seconds": 3, "processor_seconds": 3, "peak_mib": 0}.items()
    }
    versions = {name: version(name) for name in ("torch", "transformers", "typer")}
    print(json.dumps({**medians, **versions, "python": platform.python_version(), "repeats": args.repeats}))


if __name__ == "__main__":
    main()
