"""Prediction for texts of mixed length, ``bertkit predict`` beside ``transformers.pipeline`` with its default batching.

    python benchmarks/prediction_speed.py CHECKPOINT --input TEXTS [--max-seq-length 128] [--rounds 3] [--batch-size 32]

CHECKPOINT is a run of bertkit that classifies texts, TEXTS a UTF-8 file of one a line. It is exported as stock BERT for
the pipeline, which gets its defaults (one text at a time) and, as ``pipeline_batched``, ``batch_size=32``. Each side is
a process of its own, by turns; seconds begin after loading, medians of the rounds, and the labels are compared. Prints
one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from by_turns import Result, by_turns, machine, report

SIDES = ("pipeline", "pipeline_batched", "bertkit")


def stock_pipeline(args: argparse.Namespace) -> Any:
    """transformers' pipeline for the exported checkpoint: by its defaults, or with batches."""
    from transformers import pipeline

    batches = {} if args.side == "pipeline" else {"batch_size": args.batch_size}
    limits = {"truncation": True, "max_length": args.max_seq_length}
    return pipeline("text-classification", args.stock, device="cpu", **batches, **limits)


def predict(args: argparse.Namespace) -> tuple[float, float, list[str]]:
    """Seconds of one side on the clock and of the processor, and the labels."""
    texts = args.input.read_text(encoding="utf-8").splitlines()
    if args.side == "bertkit":
        import bertkit

        predictor = bertkit.load(args.checkpoint, device="cpu")
        predictor.predict(texts[:8])
        started, before = time.perf_counter(), time.process_time()
        found = predictor.predict(texts)
    else:
        classify = stock_pipeline(args)
        classify(texts[:8])
        started, before = time.perf_counter(), time.process_time()
        found = classify(texts)
    return time.perf_counter() - started, time.process_time() - before, [row["label"] for row in found]


def options(description: str | None) -> argparse.ArgumentParser:
    """Those of a benchmark beside the pipeline."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--max-seq-length", type=int, default=128, help="of the checkpoint")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="of pipeline_batched")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    parser.add_argument("--stock", help="of that side: the exported checkpoint")
    return parser


def all_sides(script: str, args: argparse.Namespace, *given: str) -> dict[str, Result]:
    """Returns the reports of both sides, with the checkpoint exported for the pipeline."""
    import bertkit

    with tempfile.TemporaryDirectory() as folder:
        exported = str(Path(folder) / "stock")
        bertkit.export(args.checkpoint, exported)
        shared = [script, args.checkpoint, *given, "--stock", exported]
        shared += ["--max-seq-length", str(args.max_seq_length), "--batch-size", str(args.batch_size)]
        return by_turns({side: [*shared, "--side", side] for side in SIDES}, args.rounds)


def summary(found: dict[str, Result]) -> dict[str, Any]:
    """The sides, and how many times as long as bertkit the others take."""
    ours = found["bertkit"]["seconds"]
    return {
        **{side: {name: round(value, 4) for name, value in each.items()} for side, each in found.items()},
        **{f"times_{side}": round(found[side]["seconds"] / ours, 2) for side in SIDES[:2]},
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--input", type=Path, required=True)
    args = parser.parse_args()
    if args.side is not None:
        seconds, processor_seconds, labels = predict(args)
        report(seconds=seconds, processor_seconds=processor_seconds, labels=zlib.crc32("\n".join(labels).encode()))
        return

    found = all_sides(__file__, args, "--input", str(args.input))
    same = len({each.pop("labels") for each in found.values()}) == 1
    result = {
        **summary(found),
        "same_labels": same,
        "texts": len(args.input.read_text(encoding="utf-8").splitlines()),
        **machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
