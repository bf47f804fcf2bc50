"""Options, runs and summary of the benchmarks that compare scores of bertkit and plain transformers."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Callable[[argparse.Namespace, str, int], dict[str, float]]
"""One side: of the options, a task and a seed, its scores and ``train_seconds``."""


def options(description: str | None, tasks: Sequence[str], chosen: Sequence[str]) -> argparse.ArgumentParser:
    """The options that all of them take; ``chosen`` are the tasks that are run unless others are named."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=chosen)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--side", choices=["stock", "bertkit", "both"], default="both")
    parser.add_argument("--mixed-precision", choices=["bf16", "no"], default="bf16")
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--limit", type=int, default=None, help="examples of each file, for a quick look")
    return parser


def training_arguments(args: argparse.Namespace, seed: int, output_dir: str, **values: Any) -> Any:
    """Those of transformers that a plain run needs, beside its own: batches of like length, nothing saved."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=output_dir,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        bf16=args.mixed_precision == "bf16",
        logging_steps=500,
        seed=seed,
        use_cpu=args.device == "cpu",
        **values,
    )


def finetune(args: argparse.Namespace, seed: int, output_dir: Path, options: Sequence[str], **settings: Any) -> Any:
    """Runs ``bertkit finetune``, the command that a user types, in a process of its own; returns its results.

    Args:
        options: what follows ``finetune``, the task first.
        settings: values of the recipe's ``train`` block.
    """
    command = [sys.executable, "-m", "bertkit", "finetune", *options, "--model", args.model, "--seed", str(seed)]
    command += ["--output-dir", str(output_dir)]
    values = {f"train.{name}": value for name, value in settings.items()}
    # As transformers has them; recipes have the paper's.
    values |= {"train.warmup_steps": 0, "train.weight_decay": 0, "train.adam_epsilon": 1e-8}
    values |= {"train.save_strategy": "no", "train.train_sampling_strategy": "group_by_length"}
    values |= {"placement.mixed_precision": args.mixed_precision, "placement.device": args.device}
    for key, value in values.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((output_dir / "all_results.json").read_text())


def compare(args: argparse.Namespace, metrics: Mapping[str, str], sides: Mapping[str, Run]) -> None:
    """Runs every side of every task with every seed; prints a JSON line for each run, and then the summary.

    Args:
        args: from `options`.
        metrics: task → the score that the summary is of.
        sides: ``stock`` and ``bertkit``.
    """
    import torch
    import transformers

    where = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "mixed_precision": args.mixed_precision,
    }
    chosen = sides if args.side == "both" else {args.side: sides[args.side]}
    summary: dict[str, Any] = {}
    for task in args.tasks:
        scores: dict[str, list[float]] = {side: [] for side in chosen}
        for seed in args.seeds:
            for side, run in chosen.items():
                result = run(args, task, seed)
                scores[side].append(result[metrics[task]])
                print(json.dumps({"task": task, "side": side, "seed": seed, **result, **where}), flush=True)
        summary[task] = {
            side: {
                "metric": metrics[task],
                "scores": dict(zip(map(str, args.seeds), (round(value, 4) for value in values), strict=True)),
                "mean": round(statistics.mean(values), 4),
                "sd": round(statistics.stdev(values), 4) if len(values) > 1 else None,
            }
            for side, values in scores.items()
        }
    print(json.dumps({"summary": summary}), flush=True)
