"""Memory and speed of ``bertkit predict`` and ``bertkit embed`` on ever more lines.

    python benchmarks/stream_memory.py [--lines 10000 100000 1000000] [--commands predict embed]

Builds a tiny classifier with random weights (2 layers of 32) and a file of short lines, and lets the commands read it
in processes of their own: predictions go to ``.jsonl``, vectors to ``.parquet``. Prints one JSON line for each: the
largest resident memory of the process in MiB, and the lines a second with start and loading in them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bertkit.tasks.classification.task import ClassificationTask, DataSettings, TaskSettings

OUTPUTS = {"predict": "labels.jsonl", "embed": "vectors.parquet"}
WORDS = "a good bad film story the plot is lovely or awful".split()
TASK = ClassificationTask(
    TaskSettings(problem="single_label", text_columns=["text"], label_column="label", label_names=["bad", "good"]),
    DataSettings(max_seq_length=128),
).describe()


def make_classifier(folder: Path) -> None:
    from bertkit import BertConfig, BertForSequenceClassification
    from bertkit.corpus.vocabulary.tokenizer import train_tokenizer

    tokenizer = train_tokenizer([" ".join(WORDS)] * 3, 90, model_max_length=128)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes)
    config.bertkit_task, config.id2label = TASK, {0: "bad", 1: "good"}
    BertForSequenceClassification(config).save_pretrained(folder)


def write_lines(path: Path, count: int) -> None:
    """Lines of 1 to 12 words, the same for the same number of lines."""
    generator = np.random.default_rng(count)
    with path.open("w") as file:
        for length in generator.integers(1, 13, count):
            file.write(" ".join(generator.choice(WORDS, length)) + "\n")


def measure(command: str, classifier: Path, lines: Path, output: Path) -> tuple[float, float]:
    """The largest resident memory of the command in MiB, and its seconds."""
    began = time.perf_counter()
    arguments = [command, str(classifier), "--input", str(lines), "--output", str(output)]
    process = subprocess.Popen([sys.executable, "-m", "bertkit", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"bertkit {' '.join(arguments)}: ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--commands", nargs="+", choices=list(OUTPUTS), default=list(OUTPUTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # In a process of its own: what the system counts for a child begins with the peak of the one that starts it.
        maker = get_context("spawn").Process(target=make_classifier, args=(folder / "classifier",))
        maker.start()
        maker.join()
        for count in options.lines:
            write_lines(folder / "lines.txt", count)
            for command in options.commands:
                output = folder / OUTPUTS[command]
                memory, seconds = measure(command, folder / "classifier", folder / "lines.txt", output)
                output.unlink()
                line = {"command": command, "lines": count, "resident": round(memory), "seconds": round(seconds)}
                print(json.dumps({**line, "lines_a_second": round(count / seconds)}), flush=True)


if __name__ == "__main__":
    main()
