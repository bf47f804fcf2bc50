"""Order of checkpoints by `bertkit choose` beside their order after fine-tuning, and the time of both.

    python benchmarks/choose.py --model CHECKPOINT --data-dir DATA [--work FOLDER] [--tables sst2 stsb sick …]

Five encoders: the checkpoint, its first half, its first layer, one of four layers that is pre-trained here on the books
of the data, and that one with new weights. On each table each is fine-tuned on the same training rows and scored on
other rows; `bertkit.choose` scores them on some of the training rows. Spearman's correlation of both scores is computed
for each table, then its mean over the tables with a 95 % interval (t); the time is CPU seconds of one process. Writes
``CHOICE.json`` and the pages. Tables that are not measured keep their results. With ``--work`` encoders and fine-tuned
scores are kept there, and a run that goes on computes the others only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("CHOICE.json")
EXAMPLES, TRAINED, SCORED = 300, 800, 600  # rows: of `choose`, of the training, of its scores
BATCH = 16
EPOCHS, EPOCHS_OF_PAIRS = 3, 6  # 150 and 300 steps; in 150 no encoder leaves the most frequent class of SICK
LEARNING_RATE = 3e-4  # at 1e-4 the first layers, whose [CLS] hardly differs between texts, learn nothing in these steps
PRETRAINING_STEPS = 1000

# Table → task, settings whose paths are below the data folder, metric.
TABLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "sst2": (
        "classification",
        {"data.train_file": "glue/SST-2/train.tsv", "data.validation_file": "glue/SST-2/dev.tsv"},
        "accuracy",
    ),
    "wnut17": (
        "ner",
        {"data.train_file": "ner/wnut17/train.conll", "data.validation_file": "ner/wnut17/dev.conll"},
        "overall_f1",
    ),
    "stsb": (
        "classification",
        {
            "data.train_file": "glue/STS-B/train.tsv",
            "data.validation_file": "glue/STS-B/dev.tsv",
            "task.text_columns": ["sentence1", "sentence2"],
            "task.label_column": "score",
            "task.problem": "regression",
        },
        "pearson",
    ),
    "sick": (
        "classification",
        {
            "data.train_file": "nli/sick/SICK_train.txt",
            "data.validation_file": "nli/sick/SICK_trial.txt",
            "task.text_columns": ["sentence_A", "sentence_B"],
            "task.label_column": "entailment_judgment",
        },
        "accuracy",
    ),
    "conll2000-chunking": (
        "ner",
        {
            "data.train_file": "ner/conll2000-chunking/train.txt",
            "data.validation_file": "ner/conll2000-chunking/test.txt",
        },
        "overall_f1",
    ),
    "mrpc": (
        "classification",
        {
            "data.train_file": "glue/MRPC/train.tsv",
            "data.validation_file": "glue/MRPC/dev.tsv",
            "task.text_columns": ["#1 String", "#2 String"],
            "task.label_column": "Quality",
        },
        "accuracy",
    ),
}


def pretrained(folder: Path, data: Path) -> None:
    """Pre-trains an encoder of 4 layers, 256 wide, with a vocabulary of its own."""
    import bertkit

    settings = {
        "data.max_seq_length": 64,
        "data.vocab_size": 8000,
        "task.pair_objective": "none",
        "train.max_steps": PRETRAINING_STEPS,
        "train.global_train_batch_size": 32,
        "train.learning_rate": 5e-4,
        "train.report": False,
    }
    bertkit.pretrain("pretrain/bert-mini", corpus=[data / "text" / "books"], output_dir=folder, overrides=settings)


def encoders(model: str, data: Path, work: Path) -> dict[str, str]:
    """Name → folder of the five encoders; writes those that are missing."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from bertkit import BertConfig, BertModel

    config = AutoConfig.from_pretrained(model)

    def first(layers: int) -> Callable[[Path], None]:
        return lambda folder: AutoModel.from_pretrained(model, num_hidden_layers=layers).save_pretrained(folder)

    def new(folder: Path) -> None:
        torch.manual_seed(0)
        BertModel(BertConfig.from_pretrained(work / "pre-trained-here")).save_pretrained(folder)

    written: dict[str, Callable[[Path], None]] = {
        "first half": first(config.num_hidden_layers // 2),
        "first layer": first(1),
        "pre-trained here": lambda folder: pretrained(folder, data),
        "new weights": new,
    }
    found = {"whole": model}
    for name, write in written.items():
        folder = work / name.replace(" ", "-")
        found[name] = str(folder)
        if not folder.exists():
            write(folder)
            if name != "pre-trained here":
                of = work / "pre-trained-here" if name == "new weights" else model
                AutoTokenizer.from_pretrained(of).save_pretrained(folder)
    return found


def settings_of(table: str, data: Path, work: Path) -> dict[str, Any]:
    """The settings of a table, with whole paths; of all for `choose` and the training."""
    task, settings, _ = TABLES[table]
    whole = dict(settings)
    for key in ("data.train_file", "data.validation_file"):
        file = data / settings[key]
        if task == "classification" and file.suffix == ".txt":  # tables of tabs under another name
            file = Path(shutil.copyfile(file, work / f"{file.stem}.tsv"))
        whole[key] = str(file)
    return {**whole, "data.max_seq_length": 64, "data.max_train_samples": TRAINED}


def fine_tuned(model: str, table: str, data: Path, work: Path) -> tuple[float, float]:
    """Fine-tunes an encoder on a table; returns its score on other rows, and the CPU seconds; both are kept."""
    record = work / f"{table}-{Path(model).name}.json"
    if record.exists():
        score, seconds = json.loads(record.read_text())
        return score, seconds
    import bertkit

    task, settings, metric = TABLES[table]
    pairs = len(settings.get("task.text_columns", ())) == 2
    training = {
        "data.max_eval_samples": SCORED,
        "train.num_train_epochs": EPOCHS_OF_PAIRS if pairs else EPOCHS,
        "train.global_train_batch_size": BATCH,
        "train.learning_rate": LEARNING_RATE,
        "train.load_best_model_at_end": False,
        "train.eval_strategy": "no",
        "train.save_strategy": "no",
        "train.report": False,
    }
    overrides = {**settings_of(table, data, work), **training}
    start = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        run = bertkit.finetune(f"finetune/{task}", model=model, output_dir=f"{scratch}/run", overrides=overrides)
    score, seconds = float(run.metrics[f"eval_{metric}"]), time.process_time() - start
    record.write_text(json.dumps([score, seconds]))
    return score, seconds


def of_table(found: dict[str, str], table: str, data: Path, work: Path) -> dict[str, Any]:
    """Both scores of each encoder on a table, their rank correlation, and the CPU seconds of both."""
    from run_all import commit
    from scipy.stats import spearmanr

    import bertkit

    settings = {key: value for key, value in settings_of(table, data, work).items() if key != "data.validation_file"}
    start = time.process_time()
    choice = bertkit.choose(list(found.values()), task=TABLES[table][0], examples=EXAMPLES, overrides=settings)
    seconds = time.process_time() - start
    frozen = [-1.0 if (score := each.frozen.score) is None else score for each in choice.candidates]
    tuned = {name: fine_tuned(model, table, data, work) for name, model in found.items()}
    scores = [score for score, _ in tuned.values()]
    return {
        "frozen": dict(zip(found, (round(score, 4) for score in frozen), strict=True)),
        "fine_tuned": dict(zip(found, (round(score, 4) for score in scores), strict=True)),
        "spearman": round(float(spearmanr(frozen, scores).statistic), 3),
        "cpu_seconds": {"choose": round(seconds, 1), "fine_tuning": round(sum(each for _, each in tuned.values()), 1)},
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def section(tables: dict[str, dict[str, Any]]) -> str:
    """The part of docs/guides/choose.md."""
    from bertkit.metrics.intervals import t_interval

    names = list(next(iter(tables.values()))["frozen"])
    lines = [
        f"| | {' | '.join(names)} | Spearman | CPU seconds |",
        f"| --- | {' | '.join(['---'] * (len(names) + 2))} |",
    ]
    for table, each in tables.items():
        pairs = (f"{each['frozen'][name]:.3f}, {each['fine_tuned'][name]:.3f}" for name in names)
        spent = each["cpu_seconds"]
        seconds = f"{spent['choose']:.0f}, {spent['fine_tuning']:.0f}"
        lines.append(f"| {table} | {' | '.join(pairs)} | {each['spearman']:.2f} | {seconds} |")
    correlations = np.array([each["spearman"] for each in tables.values()])
    interval = t_interval(correlations)
    ends = (
        ""
        if interval is None
        else f" (95 % interval over tables {max(interval[0], -1):.2f} to {min(interval[1], 1):.2f})"
    )
    choose, training = (
        sum(each["cpu_seconds"][side] for each in tables.values()) for side in ("choose", "fine_tuning")
    )
    commits = sorted({f"{each['commit']}, {each['date']}" for each in tables.values()})
    parts = [
        f"Of each encoder the score of `choose` on {EXAMPLES} examples, then that after fine-tuning on {TRAINED} rows;",
        "of both the CPU seconds for all encoders:",
        "",
        *lines,
        "",
        f"Mean Spearman over {len(tables)} of the script's {len(TABLES)} tables: {correlations.mean():.2f}{ends}.",
        f"`choose` took {choose / training:.0%} of the time of these trainings; it does not grow with their rows.",
        f"Commits: {'; '.join(commits)}.",
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--work", type=Path, help="a folder that keeps encoders and fine-tuned scores")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        found = encoders(args.model, args.data_dir, work)
        tables = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        for table in args.tables:
            tables[table] = of_table(found, table, args.data_dir, work)
            FILE.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
            print(json.dumps({table: tables[table]}), flush=True)
    from render import write_pages

    write_pages()


if __name__ == "__main__":
    main()
