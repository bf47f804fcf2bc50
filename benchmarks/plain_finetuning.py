"""The plain side of ``scores.py``: what transformers' examples do with the same checkpoint, data and settings.

That is the Trainer with the collators of transformers.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from typing import Any, NamedTuple

LEARNING_RATE = 5e-5
Scores = dict[str, float]


class Glue(NamedTuple):
    """Format of a task's TSV files, for plain transformers."""

    folder: str
    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...]  # none for a number
    score: str
    epochs: int


GLUE = {
    "rte": Glue("RTE", ("sentence1", "sentence2"), "label", ("entailment", "not_entailment"), "accuracy", 3),
    "mrpc": Glue("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), "combined_score", 3),
    "stsb": Glue("STS-B", ("sentence1", "sentence2"), "score", (), "combined_score", 3),
    "sst2": Glue("SST-2", ("sentence",), "label", ("0", "1"), "accuracy", 1),
}
NER = {"wnut17": "conll", "conll2000-chunking": "txt"}


def training_arguments(args: argparse.Namespace, seed: int, output_dir: str, **values: Any) -> Any:
    """Those of transformers that a plain run needs, beside its own: batches of like length, nothing saved."""
    from transformers import TrainingArguments

    common: dict[str, Any] = {
        "output_dir": output_dir,
        "train_sampling_strategy": "group_by_length",
        "save_strategy": "no",
        "bf16": args.mixed_precision == "bf16",
        "logging_steps": 500,
        "seed": seed,
        "use_cpu": args.device == "cpu",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return TrainingArguments(**{**common, **values})


def trained(args: argparse.Namespace, seed: int, model: Any, data: Any, collator: Any, **values: Any) -> Any:
    """Trains a model of transformers; returns its Trainer, and the seconds."""
    from transformers import Trainer

    with tempfile.TemporaryDirectory() as output_dir:
        arguments = training_arguments(args, seed, output_dir, **values)
        trainer = Trainer(model=model, args=arguments, train_dataset=data, data_collator=collator)
        started = time.perf_counter()
        trainer.train()
        seconds = round(time.perf_counter() - started, 1)
    trainer.args.train_sampling_strategy = "random"  # what is grouped by length is predicted in another order
    return trainer, seconds


def stock_glue(args: argparse.Namespace, name: str, seed: int) -> Scores:
    """transformers' text-classification example."""
    import csv

    from datasets import load_dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

    task = GLUE[name]
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    files = {split: str(args.data_dir / task.folder / f"{split}.tsv") for split in ("train", "dev")}
    # As text, and with quotes as plain characters: the library's defaults lose rows of these files.
    form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "keep_default_na": False, "encoding": "utf-8-sig"}

    def encode(rows: dict[str, list[str]]) -> dict[str, Any]:
        features = tokenizer(*(rows[column] for column in task.texts), truncation=True, max_length=128)
        labels = [task.classes.index(str(label)) if task.classes else float(label) for label in rows[task.label]]
        return {**features, "labels": labels}  # not "label": that column would stay text

    splits = {}
    for split, rows in load_dataset("csv", data_files=files, **form).items():
        first = rows.select(range(min(args.limit or len(rows), len(rows))))
        splits[split] = first.map(encode, batched=True, remove_columns=rows.column_names)
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model, num_labels=len(task.classes) or 1, dtype="float32", ignore_mismatched_sizes=True
    )
    sizes = {"per_device_train_batch_size": 32, "per_device_eval_batch_size": 32, "num_train_epochs": task.epochs}
    collator = DataCollatorWithPadding(tokenizer)
    trainer, seconds = trained(args, seed, model, splits["train"], collator, learning_rate=LEARNING_RATE, **sizes)
    return {task.score: glue_score(trainer.predict(splits["dev"]), task.score), "train_seconds": seconds}


def glue_score(outcome: Any, score: str) -> float:
    """A score by scikit-learn and scipy."""
    import numpy as np
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import f1_score

    logits, labels = outcome.predictions, outcome.label_ids
    if logits.shape[-1] == 1:
        return float(pearsonr(logits[:, 0], labels)[0] + spearmanr(logits[:, 0], labels)[0]) / 2
    predictions = np.argmax(logits, -1)
    accuracy = float((predictions == labels).mean())
    return accuracy if score == "accuracy" else (accuracy + float(f1_score(labels, predictions))) / 2


def sentences(args: argparse.Namespace, name: str, split: str) -> list[list[list[str]]]:
    """The words and tags of the sentences of a file: the first and the last column of its lines."""
    text = (args.data_dir / name / f"{split}.{NER[name]}").read_text(encoding="utf-8")
    blocks = re.split(r"\n\s*\n", text)
    lines = [[line.split() for line in block.split("\n") if line.split()] for block in blocks]
    return [[[fields[0] for fields in each], [fields[-1] for fields in each]] for each in lines if each][: args.limit]


def stock_ner(args: argparse.Namespace, name: str, seed: int) -> Scores:
    """transformers' token-classification example."""
    from datasets import Dataset
    from seqeval.metrics import f1_score
    from transformers import AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    splits = [sentences(args, name, split) for split in ("train", "test")]
    names = sorted({tag for split in splits for _, tags in split for tag in tags})

    def encode(rows: dict[str, Any]) -> dict[str, Any]:
        features = tokenizer(rows["words"], is_split_into_words=True, truncation=True, max_length=256)
        labels = []
        for row, tags in enumerate(rows["tags"]):
            words = features.word_ids(row)
            is_first = [word is not None and word != before for before, word in zip([None, *words], words)]  # noqa: B905
            labels.append([names.index(tags[word]) if first else -100 for first, word in zip(is_first, words)])  # noqa: B905
        return {**features, "labels": labels}

    train, test = (
        Dataset.from_dict({"words": [words for words, _ in split], "tags": [tags for _, tags in split]}).map(
            encode, batched=True, remove_columns=["words", "tags"]
        )
        for split in splits
    )
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    model = AutoModelForTokenClassification.from_pretrained(args.model, dtype="float32", **labels)
    sizes = {"per_device_train_batch_size": 32, "per_device_eval_batch_size": 32, "num_train_epochs": 3}
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer, seconds = trained(args, seed, model, train, collator, learning_rate=LEARNING_RATE, **sizes)
    outcome = trainer.predict(test)
    kept = [row != -100 for row in outcome.label_ids]
    references, predictions = (
        [[names[index] for index in row[mask]] for row, mask in zip(ids, kept, strict=True)]
        for ids in (outcome.label_ids, outcome.predictions.argmax(-1))
    )
    return {"f1": float(f1_score(references, predictions)), "train_seconds": seconds}
