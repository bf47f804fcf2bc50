"""Scores of tagged words, bertkit beside plain transformers: same checkpoint, same data, same hyper-parameters.

    python benchmarks/ner_scores.py --model CHECKPOINT --data-dir NER_FOLDER [--tasks wnut17 conll2000-chunking]
                                    [--seeds 42 43 44] [--side stock|bertkit|both] [--mixed-precision bf16|no]

NER_FOLDER holds ``wnut17/{train,dev,test}.conll`` and ``conll2000-chunking/{train,test}.txt``, files of columns. Both
sides: three epochs, batch 32, learning rate 5e-5, linear decay, no warm-up, no weight decay, bf16 autocast over float32
weights (or float32 throughout), sentences of like length grouped into a batch, the weights of the last epoch, entities
on the test set scored by the package seqeval. Plain transformers cuts at 256 tokens, where bertkit reads on in windows;
the longest sentence of both sets has fewer. Each run prints one JSON line; the last line is the summary.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from two_sides import compare, finetune, options, training_arguments

BATCH_SIZE, LEARNING_RATE, MAX_SEQ_LENGTH, EPOCHS = 32, 5e-5, 256, 3


class Task(NamedTuple):
    """The files of a set; it is scored on the last."""

    train: str
    test: str


TASKS = {
    "wnut17": Task("wnut17/train.conll", "wnut17/test.conll"),
    "conll2000-chunking": Task("conll2000-chunking/train.txt", "conll2000-chunking/test.txt"),
}


class Sentence(NamedTuple):
    """A sentence of a file of columns."""

    words: list[str]
    tags: list[str]


def sentences(path: Path, limit: int | None) -> list[Sentence]:
    """The sentences of a file: first and last column of its lines."""
    found = [Sentence([], [])]
    for line in path.read_text(encoding="utf-8").split("\n"):
        fields = line.split()
        if fields:
            found[-1].words.append(fields[0])
            found[-1].tags.append(fields[-1])
        elif found[-1].words:
            found.append(Sentence([], []))
    return [sentence for sentence in found if sentence.words][:limit]


def entity_f1(references: list[list[str]], predictions: list[list[str]]) -> float:
    """By the package seqeval, the same for both sides."""
    from seqeval.metrics import f1_score

    return float(f1_score(references, predictions))


def read(args: argparse.Namespace, name: str) -> tuple[list[Sentence], list[Sentence]]:
    """Training and test set."""
    train, test = (sentences(args.data_dir / file, args.limit) for file in TASKS[name])
    return train, test


def stock(args: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """Plain transformers: what its token-classification example does, without bertkit in the process."""
    import numpy as np
    from datasets import Dataset
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        Trainer,
        set_seed,
    )

    train, test = read(args, name)
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    names = sorted({tag for sentence in [*train, *test] for tag in sentence.tags})

    def encode(rows: dict[str, Any]) -> dict[str, Any]:
        features = tokenizer(rows["words"], is_split_into_words=True, truncation=True, max_length=MAX_SEQ_LENGTH)
        labels = []
        for row, tags in enumerate(rows["tags"]):
            word_ids = features.word_ids(row)
            first = [word is not None and word != before for before, word in zip([None, *word_ids], word_ids)]  # noqa: B905
            labels.append([names.index(tags[word]) if is_first else -100 for is_first, word in zip(first, word_ids)])  # noqa: B905
        return {**features, "labels": labels}

    splits = [
        Dataset.from_dict({"words": [each.words for each in split], "tags": [each.tags for each in split]}).map(
            encode, batched=True, remove_columns=["words", "tags"]
        )
        for split in (train, test)
    ]
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForTokenClassification.from_pretrained(
                args.model,
                dtype="float32",
                id2label=dict(enumerate(names)),
                label2id={name: index for index, name in enumerate(names)},
            ),
            args=training_arguments(
                args,
                seed,
                output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=BATCH_SIZE,
                learning_rate=LEARNING_RATE,
                num_train_epochs=EPOCHS,
            ),
            train_dataset=splits[0],
            processing_class=tokenizer,
            data_collator=DataCollatorForTokenClassification(tokenizer),
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        outcome = trainer.predict(splits[1])
    chosen = np.argmax(outcome.predictions, -1)
    kept = [labels != -100 for labels in outcome.label_ids]
    references, predictions = (
        [[names[index] for index in row[mask]] for row, mask in zip(ids, kept, strict=True)]
        for ids in (outcome.label_ids, chosen)
    )
    return {"f1": entity_f1(references, predictions), "train_seconds": round(seconds, 1)}


def bertkit(args: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """bertkit's command."""
    train, test = read(args, name)
    given = ["ner", "--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", str(BATCH_SIZE)]
    given += ["--num-train-epochs", str(EPOCHS), "--max-seq-length", str(MAX_SEQ_LENGTH)]
    with tempfile.TemporaryDirectory() as folder:
        for option, split in (("train", train), ("test", test), ("validation", test[:1])):  # nothing is chosen by it
            path = Path(folder) / f"{option}.conll"
            rows = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*each, strict=True)) for each in split)
            path.write_text("\n".join(rows), encoding="utf-8")
            given += [f"--{option}-file", str(path)]
        output_dir = Path(folder) / "run"
        results = finetune(args, seed, output_dir, given, eval_strategy="no", load_best_model_at_end="false")
        columns = [
            [line.split(" ") for line in block.split("\n")]
            for block in (output_dir / "predictions.conll").read_text(encoding="utf-8").strip("\n").split("\n\n")
        ]
    references, predictions = ([[fields[at] for fields in block] for block in columns] for at in (1, 2))
    return {"f1": entity_f1(references, predictions), "train_seconds": round(results["train_runtime"], 1)}


if __name__ == "__main__":
    compare(
        options(__doc__, list(TASKS), list(TASKS)).parse_args(),
        dict.fromkeys(TASKS, "f1"),
        {"stock": stock, "bertkit": bertkit},
    )
