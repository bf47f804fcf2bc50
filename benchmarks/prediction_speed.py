"""Prediction on the CPU beside ``transformers.pipeline``.

    python benchmarks/prediction_speed.py predict CHECKPOINT --input TEXTS [--rounds 3] [--count N]
    python benchmarks/prediction_speed.py evaluate CHECKPOINT --data-dir GLUE [--rounds 3]
    python benchmarks/prediction_speed.py int8 CHECKPOINT --data-dir GLUE [--rounds 3]

CHECKPOINT is a run of bertkit that classifies texts, for ``evaluate`` and ``int8`` of SST-2; TEXTS is a UTF-8 file of
one a line. Each side is a process of its own, by turns; medians of the rounds. Prints one JSON line.

The pipeline gets the checkpoint exported as stock BERT: by its defaults (one text at a time), and as ``sorted_N`` the
texts sorted by length in batches of N, the fastest that it can be told; the strongest peer is the fastest N. In
``predict`` the seconds begin after loading, and the labels of all sides are compared; ``rate`` is the share of
bertkit's seconds that the products of the real tokens take at the rate of products alone. In ``evaluate`` they are
those of the whole process, imports, reading and loading among them, and the result is the accuracy on SST-2's dev set,
for the pipeline by counting its labels; ``trainer`` is ``Trainer.predict`` on sorted sentences in batches of 32.
``int8`` is ``predict`` on that dev set with the checkpoint as int8 ONNX (``bertkit``) and as it is (``float32``), and
gives the accuracies. ``processor_seconds`` vary less than the clock on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from by_turns import by_turns, machine, of_layers, rate_alone, report, rounded

SIDES = {
    "predict": ("pipeline", "sorted_8", "sorted_32", "sorted_128", "bertkit"),
    "evaluate": ("sorted_8", "sorted_32", "trainer", "bertkit"),
    "int8": ("sorted_8", "sorted_32", "float32", "bertkit"),
}


def stock_labels(args: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    """transformers' pipeline for the exported checkpoint, by its defaults or with batches: texts → labels."""
    from transformers import pipeline

    limits = {"truncation": True, "max_length": args.max_seq_length}
    classify = pipeline("text-classification", args.stock, device="cpu", **limits)
    if args.side == "pipeline":
        return lambda texts: [row["label"] for row in classify(texts)]
    batch_size = int(args.side.removeprefix("sorted_"))

    def labels(texts: list[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        rows = classify([texts[at] for at in order], batch_size=batch_size)
        of_text = {at: row["label"] for at, row in zip(order, rows, strict=True)}
        return [of_text[at] for at in range(len(texts))]

    return labels


def trainer_labels(args: argparse.Namespace, texts: list[str]) -> list[int]:
    """The classes that transformers' Trainer predicts."""
    import transformers
    from datasets import Dataset

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.stock)
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    rows = tokenizer([texts[at] for at in order], truncation=True, max_length=args.max_seq_length)
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            transformers.AutoModelForSequenceClassification.from_pretrained(args.stock),
            transformers.TrainingArguments(folder, per_device_eval_batch_size=32, use_cpu=True, report_to="none"),
            transformers.DataCollatorWithPadding(tokenizer),
        )
        predictions = trainer.predict(Dataset.from_dict(dict(rows))).predictions.argmax(-1).tolist()
    of_text = dict(zip(order, predictions, strict=True))
    return [of_text[at] for at in range(len(texts))]


def dev_set(data_dir: Path) -> tuple[list[str], list[int]]:
    """The sentences of SST-2's dev set, and their labels."""
    lines = (data_dir / "SST-2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts, labels = zip(*(line.rsplit("\t", 1) for line in lines), strict=True)
    return list(texts), list(map(int, labels))


def predict(args: argparse.Namespace) -> None:
    """Times a side after loading; reports a digest of its labels, and their accuracy where the truth is known."""
    import bertkit

    if args.data_dir is not None:
        texts, truths = dev_set(args.data_dir)
    else:
        texts, truths = args.input.read_text(encoding="utf-8").splitlines(), []
    texts, truths = texts[: args.count], truths[: args.count]
    if args.side in ("bertkit", "float32"):
        model = bertkit.load(args.int8 or args.checkpoint, device="cpu")
        classify: Any = lambda texts: [row["label"] for row in model.predict(texts)]  # noqa: E731
    else:
        classify = stock_labels(args)
    classify(texts[:32])
    started, before = time.perf_counter(), time.process_time()
    labels = classify(texts)
    seconds = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - before}
    if truths:
        names = json.loads(Path(args.stock, "config.json").read_text())["id2label"]
        correct = sum(label == names[str(truth)] for label, truth in zip(labels, truths, strict=True))
        report(**seconds, accuracy=100 * correct / len(truths))
    else:
        report(**seconds, labels=zlib.crc32("\n".join(labels).encode()))


def products_alone(args: argparse.Namespace, stock: str) -> dict[str, float]:
    """GFLOP/s of float32 products alone, and the seconds that those of the real tokens take at this rate."""
    from transformers import AutoConfig, AutoTokenizer

    config, tokenizer = AutoConfig.from_pretrained(stock), AutoTokenizer.from_pretrained(stock)
    texts = args.input.read_text(encoding="utf-8").splitlines()[: args.count]
    ids = tokenizer(texts, truncation=True, max_length=args.max_seq_length)["input_ids"]
    operations = of_layers(config.num_hidden_layers, config.hidden_size, map(len, ids), read=1)
    rate = rate_alone("no", "cpu", config.hidden_size, 1024)
    return {"gflops_alone": round(rate / 1e9, 1), "least_seconds": operations / rate}


def evaluate(args: argparse.Namespace) -> None:
    """Times a side from its imports on; reports the accuracy."""
    started = time.perf_counter()
    if args.side == "bertkit":
        import bertkit

        accuracy = float(bertkit.evaluate(args.checkpoint, data_dir=args.data_dir).metrics["eval_accuracy"])
    else:
        texts, labels = dev_set(args.data_dir)
        if args.side == "trainer":
            predictions = trainer_labels(args, texts)
        else:
            ids = json.loads(Path(args.stock, "config.json").read_text())["label2id"]
            predictions = [ids[label] for label in stock_labels(args)(texts)]
        accuracy = sum(map(int.__eq__, predictions, labels)) / len(labels)
    report(seconds=time.perf_counter() - started, processor_seconds=time.process_time(), accuracy=accuracy)


def beside_pipeline(args: argparse.Namespace) -> dict[str, Any]:
    """Runs all sides; returns their results, and how many times as long as bertkit the others take."""
    import bertkit

    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # all sides on the CPU
    shared = [__file__, args.what, args.checkpoint, "--max-seq-length", str(args.max_seq_length)]
    shared += ["--count", str(args.count)] if args.count else []
    shared += ["--input", str(args.input)] if args.data_dir is None else ["--data-dir", str(args.data_dir)]
    with tempfile.TemporaryDirectory() as folder:
        stock, int8 = str(Path(folder) / "stock"), str(Path(folder) / "int8")
        bertkit.export(args.checkpoint, stock)
        shared += ["--stock", stock]
        if args.what == "int8":
            bertkit.export(args.checkpoint, int8, to="onnx", int8=True, data_dir=args.data_dir, max_samples=64)
        sides = {side: [*shared, "--side", side] for side in SIDES[args.what]}
        sides["bertkit"] += ["--int8", int8] if args.what == "int8" else []
        results = by_turns(sides, args.rounds)
        alone = products_alone(args, stock) if args.what == "predict" else {}
    if alone:
        alone["rate"] = round(alone.pop("least_seconds") / results["bertkit"]["seconds"], 3)
    same = {"same_labels": len({each.pop("labels") for each in results.values()}) == 1} if args.data_dir is None else {}
    own = results["bertkit"]["seconds"]
    times = {f"times_{side}": round(each["seconds"] / own, 2) for side, each in results.items() if side != "bertkit"}
    return {**rounded(results, 4), **times, **same, **alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SIDES)
    parser.add_argument("checkpoint")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--max-seq-length", type=int, default=128, help="of the checkpoint")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, help="predict only the first texts")
    parser.add_argument("--side", help="this side alone, in this process")
    parser.add_argument("--stock", help="of that side: the exported checkpoint")
    parser.add_argument("--int8", help="of that side: the int8 model")
    args = parser.parse_args()
    if (args.input is None) == (args.data_dir is None):
        parser.error("predict needs --input; evaluate and int8 need --data-dir")
    if args.side is not None:
        (evaluate if args.what == "evaluate" else predict)(args)
        return
    print(json.dumps({**beside_pipeline(args), **machine()}))


if __name__ == "__main__":
    main()
