"""SST-2 dev on the CPU: a checkpoint as int8 ONNX, and transformers' own pipeline on the same weights.

    python benchmarks/int8_speed.py CHECKPOINT --data-dir GLUE_FOLDER [--max-samples N] [--repeats 3]

CHECKPOINT is fine-tuned on SST-2. It is exported twice: as stock BERT for ``transformers.pipeline``, and with
``--to onnx --int8``. All sides then read the same sentences in the same process, by turns, after a short warm-up: the
pipeline as it is by default, which is one sentence at a time; the pipeline in batches of 32; and bertkit as it is.
OMP_NUM_THREADS sets the threads of all. Prints one JSON line: accuracies in percent, the median seconds of each, and
how many times as fast as either pipeline the int8 model is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import pipeline

import bertkit
from bertkit.inference.predictor import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--max-samples", type=int, help="only the first so many sentences")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        stock, int8 = Path(temporary) / "stock", Path(temporary) / "int8"
        bertkit.export(options.checkpoint, stock)
        bertkit.export(options.checkpoint, int8, to="onnx", int8=True, data_dir=options.data_dir, max_samples=64)
        ours = load(int8, device="cpu", data_dir=options.data_dir)
        examples = ours.task.load(["validation"])[1]["validation"].first(options.max_samples).examples
        sentences, labels = examples["sentence"][:], examples["labels"][:]
        names = ours.task.config()["id2label"]
        theirs = pipeline("text-classification", str(stock), device="cpu")

        def piped(texts: Sequence[str], batch_size: int) -> list[str]:
            found = theirs(list(texts), truncation=True, max_length=128, batch_size=batch_size)
            return [each["label"] for each in found]

        sides: dict[str, Callable[[Sequence[str]], list[str]]] = {
            "pipeline": lambda texts: piped(texts, 1),
            "pipeline of 32": lambda texts: piped(texts, 32),
            "int8": lambda texts: [each["label"] for each in ours.predict(texts)],
        }
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        accuracy = {}
        for side in sides.values():
            side(sentences[:32])
        for _ in range(options.repeats):
            for name, side in sides.items():
                began = time.perf_counter()
                found = side(sentences)
                seconds[name].append(time.perf_counter() - began)
                right = sum(label == names[truth] for label, truth in zip(found, labels, strict=True))
                accuracy[name] = round(100 * right / len(labels), 2)
    median = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    line = {
        "sentences": len(sentences),
        "threads": torch.get_num_threads(),
        "accuracy": accuracy,
        "seconds": median,
        "times_as_fast": {name: round(median[name] / median["int8"], 2) for name in sides if name != "int8"},
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
