"""How well `bertkit choose` predicts which checkpoint is best after fine-tuning, and how much less it takes.

    python benchmarks/choose.py --model CHECKPOINT --data-dir DATA [--tables sst2 stsb sick wnut17 …] [--limit 1000]
                                [--examples 500] [--eval-limit 500] [--epochs 3] [--learning-rate 1e-4]
                                [--pretraining-steps 300]

Five encoders are compared: the checkpoint, its first half and its first layer, one of its shape with new weights, and
one of four layers that is pre-trained here on the books of the data. On each table all are fine-tuned on the first
``--limit`` rows with the same settings and scored on validation rows; `bertkit.choose` scores them on ``--examples``
of the training rows. For each table a JSON line on stderr has both scores of each encoder, Spearman's correlation of
them, and the CPU seconds of both in this process. The last line is the summary: the mean correlation, and the share of
the seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from by_turns import machine, note_round

SICK = {
    "data.train_file": "nli/sick/SICK_train.txt",
    "data.validation_file": "nli/sick/SICK_trial.txt",
    "task.text_columns": ["sentence_A", "sentence_B"],
    "task.label_column": "entailment_judgment",
}
# Table → task of `bertkit.choose`, and settings; values that are paths are below the data folder.
TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "sst2": ("sst2", {"data.data_dir": "glue"}),
    "mrpc": ("mrpc", {"data.data_dir": "glue"}),
    "stsb": ("stsb", {"data.data_dir": "glue"}),
    "sick": ("classification", SICK),
    "wnut17": (
        "ner",
        {"data.train_file": "ner/wnut17/train.conll", "data.validation_file": "ner/wnut17/dev.conll"},
    ),
    "conll2000-chunking": ("ner", {"data.train_file": "ner/conll2000-chunking/train.txt"}),
}


def encoders(args: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Name → folder of the five encoders; writes all but the first one."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    import bertkit

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    layers = AutoConfig.from_pretrained(args.model).num_hidden_layers
    found = {"whole": args.model}
    for name, kept in (("first half", layers // 2), ("first layer", 1)):
        model = AutoModel.from_pretrained(args.model, num_hidden_layers=kept)
        found[name] = str(folder / name.replace(" ", "-"))
        model.save_pretrained(found[name])
        tokenizer.save_pretrained(found[name])
    torch.manual_seed(0)
    found["new weights"] = str(folder / "new-weights")
    AutoModel.from_config(AutoConfig.from_pretrained(args.model)).save_pretrained(found["new weights"])
    tokenizer.save_pretrained(found["new weights"])
    settings = {
        "data.max_seq_length": 64,
        "data.vocab_size": 8000,
        "task.pair_objective": "none",
        "train.max_steps": args.pretraining_steps,
        "train.global_train_batch_size": 32,
        "train.learning_rate": 5e-4,
        "train.report": False,
        "placement.device": "cpu",
        "placement.mixed_precision": "no",
    }
    found["pre-trained here"] = str(folder / "pre-trained")
    bertkit.pretrain(
        "pretrain/bert-mini",
        corpus=[str(args.data_dir / "text" / "books")],
        output_dir=found["pre-trained here"],
        overrides=settings,
    )
    return found


def fine_tuned(args: argparse.Namespace, model: str, table: str, folder: Path) -> float:
    """Fine-tunes an encoder on a table and returns its score on the validation rows."""
    import bertkit

    task, settings = values_of(args, table)
    recipe = f"finetune/{task}" if task in ("classification", "ner") else f"finetune/glue/{task}"
    run = bertkit.finetune(
        recipe,
        model=model,
        output_dir=folder,
        overrides={
            **settings,
            "data.max_train_samples": args.limit,
            "data.max_eval_samples": args.eval_limit,
            "train.num_train_epochs": args.epochs,
            "train.global_train_batch_size": 16,
            "train.learning_rate": args.learning_rate,
            "train.save_total_limit": 1,
            "train.report": False,
            "placement.device": "cpu",
            "placement.mixed_precision": "no",
        },
    )
    return float(run.metrics[f"eval_{METRICS[table]}"])


METRICS = {
    "sst2": "accuracy",
    "mrpc": "combined_score",
    "stsb": "combined_score",
    "sick": "accuracy",
    "wnut17": "overall_f1",
    "conll2000-chunking": "overall_f1",
}


def values_of(args: argparse.Namespace, table: str) -> tuple[str, dict[str, Any]]:
    """The task of a table and its settings, with whole paths."""
    task, settings = TABLES[table]
    whole = {
        key: str(args.data_dir / value) if key.endswith(("_file", "_dir")) else value for key, value in settings.items()
    }
    return task, {**whole, "data.max_seq_length": 64}


def of_table(args: argparse.Namespace, found: dict[str, str], table: str, folder: Path) -> dict[str, Any]:
    """Both scores of each encoder on a table, their rank correlation, and the seconds."""
    from scipy.stats import spearmanr

    import bertkit

    task, settings = values_of(args, table)
    chosen_from = {key: value for key, value in settings.items() if key != "data.validation_file"}
    chosen_from["data.max_train_samples"] = args.limit
    start = time.process_time()
    choice = bertkit.choose(
        list(found.values()), task=task, examples=args.examples, overrides=chosen_from, device="cpu"
    )
    seconds_of_choose = time.process_time() - start
    frozen = [each.frozen.score if each.frozen is not None else None for each in choice.candidates]
    start = time.process_time()
    tuned = [fine_tuned(args, model, table, folder / f"{table}-{n}") for n, model in enumerate(found.values())]
    seconds = time.process_time() - start
    return {
        "frozen": dict(zip(found, frozen, strict=True)),
        "fine-tuned": dict(zip(found, tuned, strict=True)),
        "spearman": float(spearmanr([value or 0.0 for value in frozen], tuned).statistic),
        "choose_seconds": seconds_of_choose,
        "finetune_seconds": seconds,
        "sentences": choice.sentences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--eval-limit", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--pretraining-steps", type=int, default=300)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = encoders(args, Path(scratch))
        results = {}
        for number, table in enumerate(args.tables):
            results[table] = of_table(args, found, table, Path(scratch))
            note_round(number, table, results[table])
    correlations = [each["spearman"] for each in results.values()]
    spent, saved = (sum(each[f"{name}_seconds"] for each in results.values()) for name in ("choose", "finetune"))
    print(
        json.dumps(
            {
                "spearman": {table: round(each["spearman"], 3) for table, each in results.items()},
                "mean_spearman": sum(correlations) / len(correlations),
                "share_of_the_time": spent / saved,
                **machine(),
            }
        ),
        file=sys.stdout,
    )


if __name__ == "__main__":
    main()
