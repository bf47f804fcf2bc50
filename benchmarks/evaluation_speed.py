"""Scoring SST-2's dev set, ``bertkit evaluate`` beside the labels of ``transformers.pipeline``.

    python benchmarks/evaluation_speed.py CHECKPOINT --data-dir GLUE_FOLDER [--rounds 3]

CHECKPOINT is a run of ``bertkit finetune glue --task sst2``. It is exported as stock BERT for the pipeline, which gets
its defaults (one text at a time) and, as ``pipeline_batched``, ``batch_size=32``; its labels are counted, since the
evaluate library's ``evaluator`` does not run with transformers 5. Each side is a process of its own, by turns, and
seconds are the whole of it: importing the libraries, reading the file, loading the checkpoint, tokenizing, the model,
the score; ``processor_seconds`` vary less on a busy machine. Medians of the rounds. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from by_turns import machine, report
from prediction_speed import all_sides, options, stock_pipeline, summary


def by_bertkit(args: argparse.Namespace) -> float:
    """Accuracy."""
    import bertkit

    return float(bertkit.evaluate(args.checkpoint, data_dir=args.data_dir).metrics["eval_accuracy"])


def by_pipeline(args: argparse.Namespace) -> float:
    """Accuracy."""
    lines = (args.data_dir / "SST-2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts, labels = zip(*(line.rsplit("\t", 1) for line in lines), strict=True)
    classify = stock_pipeline(args)
    found, ids = classify(list(texts)), classify.model.config.label2id
    return sum(ids[row["label"]] == int(label) for row, label in zip(found, labels, strict=True)) / len(labels)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    args = parser.parse_args()
    if args.side is not None:
        started = time.perf_counter()
        accuracy = (by_bertkit if args.side == "bertkit" else by_pipeline)(args)
        report(seconds=time.perf_counter() - started, processor_seconds=time.process_time(), accuracy=accuracy)
        return

    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # both sides on the CPU
    found = all_sides(__file__, args, "--data-dir", str(args.data_dir))
    print(json.dumps({**summary(found), **machine()}))


if __name__ == "__main__":
    main()
