"""Scores beside plain transformers: the same checkpoint, data, steps and hyper-parameters.

    python benchmarks/scores.py --model CHECKPOINT --data-dir GLUE --tasks rte mrpc stsb sst2
    python benchmarks/scores.py --model CHECKPOINT --data-dir NER --tasks wnut17 conll2000-chunking
    all: [--seeds 42 43 44] [--side stock|bertkit|both] [--mixed-precision bf16|no] [--limit N]
         [--output benchmarks/SCORES.json]

Both sides: learning rate 5e-5, linear decay, no warm-up, no weight decay, bf16 autocast over
float32 weights (or float32 throughout), examples of like length grouped into a batch, which makes three seeds bearable
on a CPU. GLUE: batch 32, at most 128 tokens, three epochs, of SST-2 one; scores on the dev sets. NER: files of columns
in folders of the names of the tasks; batch 32, three epochs, at most 256 tokens (the longest sentence has fewer), the
weights of the last epoch, entities on the test set scored by the package seqeval.

The plain side is in ``plain_finetuning.py``. Each run prints one JSON line; the last line is the summary. ``--output``
adds it to a file with machine, commit and date; the tables of README and docs are made from SCORES.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plain_finetuning import GLUE, LEARNING_RATE, NER, Scores, sentences, stock_glue, stock_ner


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


def bertkit_glue(args: argparse.Namespace, name: str, seed: int) -> Scores:
    """bertkit's command."""
    task = GLUE[name]
    options = ["glue", "--task", name, "--data-dir", str(args.data_dir), "--max-seq-length", "128"]
    options += ["--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", "32"]
    options += ["--num-train-epochs", str(task.epochs)]
    options += [] if args.limit is None else [f"--max-{kind}-samples={args.limit}" for kind in ("train", "eval")]
    with tempfile.TemporaryDirectory() as folder:
        results = finetune(args, seed, Path(folder) / "run", options, eval_strategy="no")
    return {task.score: results[f"eval_{task.score}"], "train_seconds": round(results["train_runtime"], 1)}


def bertkit_ner(args: argparse.Namespace, name: str, seed: int) -> Scores:
    """bertkit's command."""
    from seqeval.metrics import f1_score

    train, test = (sentences(args, name, split) for split in ("train", "test"))
    options = ["ner", "--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", "32"]
    options += ["--num-train-epochs", "3", "--max-seq-length", "256"]
    with tempfile.TemporaryDirectory() as folder:
        for option, split in (("train", train), ("test", test), ("validation", test[:1])):  # nothing is chosen by it
            path = Path(folder) / f"{option}.conll"
            rows = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*each, strict=True)) for each in split)
            path.write_text("\n".join(rows), encoding="utf-8")
            options += [f"--{option}-file", str(path)]
        output_dir = Path(folder) / "run"
        results = finetune(args, seed, output_dir, options, eval_strategy="no", load_best_model_at_end="false")
        text = (output_dir / "predictions.conll").read_text(encoding="utf-8").strip("\n")
    columns = [[line.split(" ") for line in block.split("\n")] for block in text.split("\n\n")]
    references, predictions = ([[fields[at] for fields in block] for block in columns] for at in (1, 2))
    return {"f1": float(f1_score(references, predictions)), "train_seconds": round(results["train_runtime"], 1)}


Run = Callable[[argparse.Namespace, str, int], Scores]
TASKS: dict[str, tuple[str, Run, Run]] = {
    **{name: (task.score, stock_glue, bertkit_glue) for name, task in GLUE.items()},
    **dict.fromkeys(NER, ("f1", stock_ner, bertkit_ner)),
}
"""Task → the score of the summary, the plain side, and bertkit's."""


def record(output: Path, summary: dict[str, Any], args: argparse.Namespace) -> None:
    """Adds the summary of tasks to a JSON file, with the command, the commit and the machine that gave it."""
    from run_all import commit, this_machine

    known = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    options = {"tasks": args.tasks, "seeds": args.seeds, "mixed-precision": [args.mixed_precision]}
    options |= {} if args.limit is None else {"limit": [args.limit]}
    words = (f"--{name} {' '.join(map(str, values))}" for name, values in options.items())
    data_dir = args.data_dir.name.upper()
    facts = {
        "command": f"python benchmarks/scores.py --model MODEL --data-dir {data_dir} {' '.join(words)}",
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": this_machine(),
    }
    tasks = {name: {**task, **facts} for name, task in summary.items()}
    output.write_text(json.dumps({**known, **tasks}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--side", choices=["stock", "bertkit", "both"], default="both")
    parser.add_argument("--mixed-precision", choices=["bf16", "no"], default="bf16")
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--limit", type=int, default=None, help="examples of each file, for a quick look")
    parser.add_argument("--output", type=Path, help="JSON file to which the summary is added")
    args = parser.parse_args()

    import torch
    import transformers

    where = {
        **{"torch": torch.__version__, "transformers": transformers.__version__, "machine": platform.machine()},
        **{"threads": torch.get_num_threads(), "mixed_precision": args.mixed_precision},
    }
    summary: dict[str, Any] = {}
    for task in args.tasks:
        metric, *runs = TASKS[task]
        sides = {side: run for side, run in zip(("stock", "bertkit"), runs) if args.side in (side, "both")}  # noqa: B905
        scores: dict[str, list[float]] = {side: [] for side in sides}
        for seed in args.seeds:
            for side, run in sides.items():
                transformers.set_seed(seed)
                result = run(args, task, seed)
                scores[side].append(result[metric])
                print(json.dumps({"task": task, "side": side, "seed": seed, **result, **where}), flush=True)
        summary[task] = {"metric": metric}
        for side, values in scores.items():
            spread = round(statistics.stdev(values), 4) if len(values) > 1 else None
            each = dict(zip(map(str, args.seeds), (round(value, 4) for value in values), strict=True))
            summary[task][side] = {"scores": each, "mean": round(statistics.mean(values), 4), "sd": spread}
    print(json.dumps({"summary": summary}), flush=True)
    if args.output is not None:
        record(args.output, summary, args)


if __name__ == "__main__":
    main()
