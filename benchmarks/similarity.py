"""Sentence similarity beside sentence-transformers: the same checkpoint, pairs, loss, steps and hyper-parameters.

    python benchmarks/similarity.py --model CHECKPOINT --data-dir DATA [--data stsb sick] [--seeds 42 43 44]
                                    [--epochs 4] [--limit N] [--text-steps 90]
                                    [--precision bf16|no] [--device cpu|cuda|auto]

``library`` is sentence-transformers' example of STS-B: its Trainer, CoSENT, mean pooling, batch 16, learning rate 5e-5,
a tenth of the steps as warm-up. ``bertkit`` is the command with the same values, whose batches have pairs of like
length. With ``--text-steps`` there is a third side, ``domain``: ``bertkit`` after this many steps of masked language
modelling on the sentences of the training pairs, at most 1,024 tokens each. STS-B is scored on its development set,
SICK on its test set, by Spearman's correlation of cosines and scores in float32. Seconds are those of the training
without evaluation and checkpoints, and processor seconds those of the whole side. Each run is a process of its own, by
turns; it prints a JSON line on stderr, and the last line is the summary: means and ranges over the seeds, and the ratio
of the median seconds of the first two.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from by_turns import DEVICES, device_of, machine, measured, note_round, placement_of, report

Rows = list[tuple[str, str, float]]
FILES = {
    "stsb": ("glue/STS-B/train.tsv", "glue/STS-B/dev.tsv", ("sentence1", "sentence2", "score")),
    "sick": (
        "nli/sick/SICK_train.txt",
        "nli/sick/SICK_test_annotated.txt",
        ("sentence_A", "sentence_B", "relatedness_score"),
    ),
}
BATCH, LEARNING_RATE, LENGTH, WARM_UP = 16, 5e-5, 128, 0.1


def rows_of(path: Path, columns: tuple[str, ...], limit: int | None) -> Rows:
    """Pairs of a TSV file with their scores."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    first, second, score = columns
    return [(row[first], row[second], float(row[score])) for row in rows[:limit]]


def splits_of(args: argparse.Namespace) -> tuple[Rows, Rows]:
    """The pairs to train on and to score."""
    train, scored, columns = FILES[args.data[0]]
    return rows_of(args.data_dir / train, columns, args.limit), rows_of(args.data_dir / scored, columns, None)


def library(args: argparse.Namespace, train: Rows, scored: Rows) -> dict[str, float]:
    """Trains and scores with sentence-transformers."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses, modules
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    encoder = modules.Transformer(args.model, max_seq_length=LENGTH)
    pooling = modules.Pooling(encoder.get_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[encoder, pooling], device=device_of(args.device))
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=BATCH,
            learning_rate=LEARNING_RATE,
            warmup_steps=WARM_UP,
            bf16=args.precision == "bf16",
            use_cpu=args.device == "cpu",
            seed=args.seeds[0],
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        columns = dict(zip(("sentence1", "sentence2", "score"), map(list, zip(*train, strict=True)), strict=True))
        trainer = SentenceTransformerTrainer(
            model, arguments, Dataset.from_dict(columns), loss=losses.CoSENTLoss(model)
        )
        seconds = trainer.train().metrics["train_runtime"]
    evaluator = EmbeddingSimilarityEvaluator(*map(list, zip(*scored, strict=True)), main_similarity="cosine")
    return {"spearman": evaluator(model)["spearman_cosine"], "seconds": seconds}


def bertkit(args: argparse.Namespace, train: Rows, scored: Rows) -> dict[str, float]:
    """Trains and scores with bertkit's command."""
    import bertkit

    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, rows in (("train", train), ("validation", scored)):
            files[name] = Path(folder) / f"{name}.jsonl"
            keys = ("sentence1", "sentence2", "score")
            files[name].write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
        overrides = {
            **{f"data.{name}_file": str(file) for name, file in files.items()},
            "data.max_seq_length": LENGTH,
            "train.global_train_batch_size": BATCH,
            "train.learning_rate": LEARNING_RATE,
            "train.num_train_epochs": args.epochs,
            "train.warmup_steps": WARM_UP,
            "train.eval_strategy": "no",
            "train.save_strategy": "no",
            "train.report": False,
            "train.seed": args.seeds[0],
            "placement.mixed_precision": args.precision,
            **placement_of(args.device),
        }
        run = bertkit.finetune(
            "finetune/similarity", model=args.model, output_dir=Path(folder) / "run", overrides=overrides
        )
    return {"spearman": run.metrics["eval_spearmanr"], "seconds": run.metrics["train_runtime"]}


def domain(args: argparse.Namespace, train: Rows, scored: Rows) -> dict[str, float]:
    """Pre-trains on the sentences, then trains and scores as `bertkit`."""
    from bertkit import pretrain

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "sentences.txt"
        text.write_text("\n".join(dict.fromkeys(sentence for *pair, _ in train for sentence in pair)), encoding="utf-8")
        overrides = {
            "task.pair_objective": "none",
            "data.max_seq_length": 64,
            "data.validation_fraction": 0.0,
            "train.max_steps": args.text_steps,
            "train.global_train_batch_size": 16,
            "train.learning_rate": LEARNING_RATE,
            "train.save_strategy": "no",
            "train.report": False,
            "train.seed": args.seeds[0],
            **placement_of(args.device),
        }
        adapted = Path(folder) / "adapted"
        pretrain(model=args.model, corpus=[text], output_dir=adapted, overrides=overrides)
        return bertkit(argparse.Namespace(**{**vars(args), "model": str(adapted)}), train, scored)


SIDES = {"library": library, "bertkit": bertkit, "domain": domain}


def compare(args: argparse.Namespace, data: str) -> dict[str, Any]:
    """The summary of a data set: of each side the mean and the range of Spearman's correlation, and the ratio of the
    seconds."""
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES if side != "domain" or args.text_steps}
    for number, seed in enumerate(args.seeds):
        for side, of_side in results.items():
            command = [__file__, "--model", args.model, "--data-dir", str(args.data_dir), "--data", data]
            command += ["--seeds", str(seed), "--epochs", str(args.epochs), "--precision", args.precision]
            command += ["--device", args.device, "--side", side, "--text-steps", str(args.text_steps)]
            command += [] if args.limit is None else ["--limit", str(args.limit)]
            of_side.append(measured(command))
            note_round(number + 1, f"{data} {side}", of_side[-1])
    summary: dict[str, Any] = {"data": data}
    for side, of_side in results.items():
        scores = [each["spearman"] for each in of_side]
        summary[side] = {
            "spearman": round(statistics.mean(scores), 4),
            "range": [round(min(scores), 4), round(max(scores), 4)],
            "seconds": round(statistics.median(each["seconds"] for each in of_side), 1),
        }
    summary["time"] = round(summary["bertkit"]["seconds"] / summary["library"]["seconds"], 3)
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--data", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--limit", type=int, help="pairs to train on, the first ones")
    parser.add_argument("--text-steps", type=int, default=0, help="steps of pre-training on the sentences first")
    parser.add_argument("--precision", choices=["bf16", "no"], default="no")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    args = parser.parse_args()
    if args.side is not None:
        report(**SIDES[args.side](args, *splits_of(args)), processor_seconds=time.process_time())
        return
    for data in args.data:
        print(json.dumps({**compare(args, data), "epochs": args.epochs, "precision": args.precision, **machine()}))


if __name__ == "__main__":
    main()
