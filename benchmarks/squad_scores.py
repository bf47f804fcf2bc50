"""Dev scores of SQuAD, bertkit beside plain transformers: same checkpoint, same data, same steps and hyper-parameters.

    python benchmarks/squad_scores.py --model CHECKPOINT --data-dir SQUAD_FOLDER [--tasks 1.1 2.0] [--max-steps 300]
                                      [--learning-rate 5e-5] [--limit N] [--eval-limit N] [--seeds 42]
                                      [--side stock|bertkit|both] [--mixed-precision bf16|no]

The folder has the official JSON: ``train-v1.1*.json`` and ``dev-v1.1.json``, or those of 2.0. Both sides: batch 16,
a learning rate that decays linearly without warm-up, no weight decay, windows of 384 tokens of which 128 are shared,
answers of at most 30 tokens. The plain side is the tokenizer's own windows, transformers' Trainer and a loop over the
20 best starts and ends of each window; its answers, like bertkit's, are scored by ``bertkit.metrics``. Each run prints
one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from two_sides import compare, finetune, options, training_arguments

BATCH_SIZE, MAX_SEQ_LENGTH, OVERLAP, LONGEST, BEST = 16, 384, 128, 30, 20
MAIN_METRIC = {"1.1": "f1", "2.0": "best_f1"}


def files_of(data_dir: Path, version: str) -> dict[str, Path]:
    """Training and dev set of a version, the first files of their names."""
    return {split: sorted(data_dir.glob(f"{split}-v{version}*.json"))[0] for split in ("train", "dev")}


def rows_of(path: Path, limit: int | None) -> dict[str, list[Any]]:
    """The questions of an official file."""
    rows = [
        {"id": qa["id"], "question": qa["question"].lstrip(), "context": paragraph["context"], "answers": qa["answers"]}
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ][:limit]
    return {name: [row[name] for row in rows] for name in rows[0]}


def windows_of(rows: dict[str, list[Any]], tokenizer: Any) -> dict[str, Any]:
    """Windows as the tokenizer makes them, with the positions of the first answer."""
    found = tokenizer(
        rows["question"], rows["context"], truncation="only_second", max_length=MAX_SEQ_LENGTH, stride=OVERLAP,
        return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    starts, ends = [], []
    for window, (owner, offsets) in enumerate(
        zip(found["overflow_to_sample_mapping"], found["offset_mapping"], strict=True)
    ):
        inside = [position for position, part in enumerate(found.sequence_ids(window)) if part == 1]
        answers = rows["answers"][owner]
        start = end = 0
        if answers and inside:
            begin, stop = answers[0]["answer_start"], answers[0]["answer_start"] + len(answers[0]["text"])
            if offsets[inside[0]][0] <= begin and offsets[inside[-1]][1] >= stop:
                start = max(position for position in inside if offsets[position][0] <= begin)
                end = min(position for position in inside if offsets[position][1] >= stop)
        starts.append(start)
        ends.append(end)
        found["offset_mapping"][window] = [
            pair if part == 1 else None for pair, part in zip(offsets, found.sequence_ids(window), strict=True)
        ]
    return {**found, "start_positions": starts, "end_positions": ends}


def answers_of(rows: dict[str, list[Any]], windows: dict[str, Any], outputs: Any) -> list[dict[str, Any]]:
    """The best answer to each question, and by how much no answer scores more."""
    best: list[tuple[float, str]] = [(-np.inf, "")] * len(rows["id"])
    null = [np.inf] * len(rows["id"])
    for window, owner in enumerate(windows["overflow_to_sample_mapping"]):
        offsets, (starts, ends) = windows["offset_mapping"][window], (each[window] for each in outputs)
        null[owner] = min(null[owner], float(starts[0] + ends[0]))
        for start in np.argsort(-starts)[:BEST].tolist():
            for end in np.argsort(-ends)[:BEST].tolist():
                if max(start, end) >= len(offsets) or not offsets[start] or not offsets[end]:
                    continue
                if start <= end < start + LONGEST and starts[start] + ends[end] > best[owner][0]:
                    text = rows["context"][owner][offsets[start][0] : offsets[end][1]]
                    best[owner] = float(starts[start] + ends[end]), text
    return [
        {"id": key, "prediction_text": text, "no_answer_probability": lowest - score if text else 1e9}
        for key, (score, text), lowest in zip(rows["id"], best, null, strict=True)
    ]


def stock(args: argparse.Namespace, version: str, seed: int) -> dict[str, float]:
    """Plain transformers."""
    from datasets import Dataset
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        set_seed,
    )

    from bertkit import metrics

    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    limits = {"train": args.limit, "dev": args.eval_limit or args.limit}
    rows = {split: rows_of(path, limits[split]) for split, path in files_of(args.data_dir, version).items()}
    windows = {split: windows_of(each, tokenizer) for split, each in rows.items()}
    inputs = [*tokenizer.model_input_names, "start_positions", "end_positions"]
    sets = {split: Dataset.from_dict({name: each[name] for name in inputs}) for split, each in windows.items()}
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForQuestionAnswering.from_pretrained(args.model, dtype="float32"),
            args=training_arguments(
                args,
                seed,
                output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=64,
                learning_rate=args.learning_rate,
                max_steps=args.max_steps,
            ),
            train_dataset=sets["train"],
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        trainer.args.train_sampling_strategy = "random"  # what is grouped by length is predicted in another order
        predictions = answers_of(rows["dev"], windows["dev"], trainer.predict(sets["dev"]).predictions[:2])
    references = [
        {"id": key, "answers": {name: [each[name] for each in answers] for name in ("text", "answer_start")}}
        for key, answers in zip(rows["dev"]["id"], rows["dev"]["answers"], strict=True)
    ]
    if version == "1.1":
        plain = [{name: each[name] for name in ("id", "prediction_text")} for each in predictions]
        scores = metrics.load("squad").compute(predictions=plain, references=references)
    else:
        scores = metrics.load("squad_v2").compute(
            predictions=predictions, references=references, no_answer_threshold=0.0
        )
    return {**scores, "train_seconds": round(seconds, 1)}


def bertkit(args: argparse.Namespace, version: str, seed: int) -> dict[str, float]:
    """bertkit's command."""
    files = files_of(args.data_dir, version)
    given = ["squad", "--train-file", str(files["train"]), "--validation-file", str(files["dev"])]
    given += ["--max-steps", str(args.max_steps), "--learning-rate", str(args.learning_rate)]
    given += ["--global-train-batch-size", str(BATCH_SIZE)]
    given += ["--max-seq-length", str(MAX_SEQ_LENGTH), "--doc-stride", str(OVERLAP)]
    given += ["--max-answer-length", str(LONGEST), "--n-best-size", str(BEST)]
    given += ["--version-2-with-negative"] if version == "2.0" else []
    limits = {"train": args.limit, "eval": args.eval_limit or args.limit}
    given += [f"--max-{kind}-samples={limit}" for kind, limit in limits.items() if limit is not None]
    with tempfile.TemporaryDirectory() as folder:
        results = finetune(args, seed, Path(folder) / "run", given)
    no_scores = ("loss", "runtime", "samples_per_second", "steps_per_second")
    scores = {name.removeprefix("eval_"): value for name, value in results.items() if name.startswith("eval_")}
    kept = {name: value for name, value in scores.items() if name not in no_scores}
    return {**kept, "train_seconds": round(results["train_runtime"], 1)}


if __name__ == "__main__":
    parser = options(__doc__, list(MAIN_METRIC), ["1.1"])
    parser.add_argument("--max-steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--eval-limit", type=int, default=None, help="questions of dev")
    parser.set_defaults(seeds=[42])
    compare(parser.parse_args(), MAIN_METRIC, {"stock": stock, "bertkit": bertkit})
