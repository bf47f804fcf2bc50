"""Ways to use a table of labelled rows: the sides of `few_rows.py`, each in a process of its own.

    python benchmarks/few_rows_ways.py WAY KIND FOLDER MODEL

FOLDER has ``train.jsonl``, ``other.jsonl`` and ``alike.jsonl``, rows as in `few_rows_tables`; KIND is ``classes``,
``several`` or ``numbers``. Written is ``answers.json``: for each other row the probabilities by label, or the number;
of bertkit also what it said of its own score, the main metric and its interval, and its accuracy on the rows alike.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
Answers = list[Any]
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)  # C of the logistic regressions
SETFIT_STEPS = 500  # at most; all pairs of 300 rows would be 5,600 steps of 16
SEED = 42
PROBLEMS = {
    "classes": "single_label_classification",
    "several": "multi_label_classification",
    "numbers": "regression",
}


def read_rows(file: Path) -> Rows:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def texts_of(rows: Rows, joint: str = " ") -> list[str]:
    return [joint.join(filter(None, (row["text"], row.get("text_b")))) for row in rows]


def by_label(names: list[str], probabilities: Any) -> Answers:
    return [dict(zip(names, map(float, row), strict=True)) for row in np.asarray(probabilities)]


def targets_of(rows: Rows, kind: str) -> tuple[list[str], list[Any]]:
    """Names of the labels; and of each row the number of its label, 0 or 1 for each label, or its number."""
    labels = [row["label"] for row in rows]
    if kind == "numbers":
        return [], labels
    if kind == "several":
        names = sorted({name for label in labels for name in label})
        return names, [[int(name in label) for name in names] for label in labels]
    names = sorted(set(labels))
    return names, [names.index(label) for label in labels]


# ---- a linear model -------------------------------------------------------------------------------------------------


def linear(features: Any, others: Any, rows: Rows, kind: str) -> Answers:
    """A linear model whose strength folds have chosen: ridge regression, or logistic regression for each label."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

    names, labels = targets_of(rows, kind)
    if kind == "numbers":
        return [float(each) for each in RidgeCV(alphas=np.logspace(-2, 4, 13)).fit(features, labels).predict(others)]
    of_lines = LogisticRegression(max_iter=1000)
    grid = {"C": STRENGTHS}
    if kind == "classes":
        fewest = min(map(labels.count, set(labels)))
        folds = (
            StratifiedKFold(5, shuffle=True, random_state=0) if fewest >= 5 else KFold(5, shuffle=True, random_state=0)
        )
        found = GridSearchCV(of_lines, grid, cv=folds, scoring="accuracy").fit(features, labels)
        return by_label(names, found.predict_proba(others))
    chances = []
    for target in np.array(labels).T:
        if target.min() == target.max():
            chances.append(np.full(others.shape[0], float(target[0])))
        elif min(target.sum(), len(target) - target.sum()) < 5:
            chances.append(of_lines.fit(features, target).predict_proba(others)[:, 1])
        else:
            found = GridSearchCV(of_lines, grid, cv=5, scoring="neg_log_loss").fit(features, target)
            chances.append(found.predict_proba(others)[:, 1])
    return by_label(names, np.stack(chances, axis=1))


def words(train: Rows, other: Rows, kind: str, model: str, folder: Path) -> Answers:
    """Counts of words and of character n-grams, weighted by TF-IDF, under a linear model."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    counts = make_union(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
        TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5)),
    )
    return linear(counts.fit_transform(texts_of(train)), counts.transform(texts_of(other)), train, kind)


def probe(train: Rows, other: Rows, kind: str, model: str, folder: Path) -> Answers:
    """The checkpoint's vectors of texts, of pairs both, their distance and their product, under a linear model."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu")

    def vectors(rows: Rows) -> Any:
        first = encoder.encode([row["text"] for row in rows], show_progress_bar=False)
        if "text_b" not in rows[0]:
            return first * 10  # of length 1, for which the strengths above are small
        second = encoder.encode([row["text_b"] for row in rows], show_progress_bar=False)
        return 10 * np.concatenate([first, second, np.abs(first - second), first * second], axis=1)

    return linear(vectors(train), vectors(other), train, kind)


# ---- training of the encoder ----------------------------------------------------------------------------------------


def setfit(train: Rows, other: Rows, kind: str, model: str, folder: Path) -> Answers:
    """SetFit with its defaults, except that it ends after `SETFIT_STEPS`."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    names, labels = targets_of(train, kind)
    strategy = {"multi_target_strategy": "one-vs-rest"} if kind == "several" else {}
    network = SetFitModel.from_pretrained(model, device="cpu", **strategy)
    arguments = TrainingArguments(
        output_dir=str(folder / "setfit"),
        seed=SEED,
        report_to="none",
        save_strategy="no",
        show_progress_bar=False,
    )
    rows = Dataset.from_dict({"text": texts_of(train, " [SEP] "), "label": labels})
    trainer = Trainer(model=network, args=arguments, train_dataset=rows)
    pairs = trainer.get_dataset(rows["text"], rows["label"], arguments)[0]
    if len(pairs) > SETFIT_STEPS * arguments.embedding_batch_size:
        arguments.max_steps = SETFIT_STEPS
    trainer.train()
    return by_label(names, network.predict_proba(texts_of(other, " [SEP] "), as_numpy=True, show_progress_bar=False))


def trainer(train: Rows, other: Rows, kind: str, model: str, folder: Path) -> Answers:
    """Transformers' Trainer and classification model with their defaults."""
    import torch
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(model)
    names, labels = targets_of(train, kind)
    if kind == "several":
        labels = [list(map(float, label)) for label in labels]

    def encoded(rows: Rows) -> Any:
        pairs = [row["text_b"] for row in rows] if "text_b" in rows[0] else None
        return dict(tokenizer([row["text"] for row in rows], pairs, truncation=True, max_length=128))

    network = AutoModelForSequenceClassification.from_pretrained(
        model, num_labels=len(names) or 1, problem_type=PROBLEMS[kind]
    )
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        use_cpu=True,
        seed=SEED,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trained = Trainer(
        model=network,
        args=arguments,
        train_dataset=Dataset.from_dict({**encoded(train), "labels": labels}),
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trained.train()
    logits = torch.tensor(trained.predict(Dataset.from_dict(encoded(other))).predictions)
    if kind == "numbers":
        return list(map(float, logits.flatten()))
    return by_label(names, logits.softmax(-1) if kind == "classes" else logits.sigmoid())


def bertkit(train: Rows, other: Rows, kind: str, model: str, folder: Path) -> Answers:
    """``bertkit finetune classification`` and ``bertkit predict`` with their defaults, as imported."""
    import bertkit as package

    texts = ["text", "text_b"] if "text_b" in train[0] else ["text"]
    names = ("train_file", "text_columns", "label_column")
    given = dict(zip(names, (str(folder / "train.jsonl"), texts, "label"), strict=True))
    run = package.finetune("classification", model=model, output_dir=folder / "run", **given)
    metric = json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))["main_metric"]
    said = re.search(r"([\d.]+) to ([\d.]+) ?%", " ".join(run.verdict.sentences[:1]))
    estimate = {"score": run.metrics[f"eval_{metric}"], "rows": int(run.metrics["eval_samples"])}
    if said and kind == "classes":
        estimate["interval"] = [float(each) / 100 for each in said.groups()]
    checkpoint = package.load(folder / "run")
    alike = read_rows(folder / "alike.jsonl")
    if alike and kind == "classes":
        labels = [each["label"] for each in checkpoint.predict([{name: row[name] for name in texts} for row in alike])]
        estimate["alike"] = float(np.mean([label == row["label"] for label, row in zip(labels, alike, strict=True)]))
    (folder / "estimate.json").write_text(json.dumps({**estimate, "verdict": list(run.verdict.sentences)}))
    predicted = checkpoint.predict(
        [{name: row[name] for name in texts} for row in other], all_probabilities=kind != "numbers"
    )
    if kind == "numbers":
        return [each["score"] for each in predicted]
    return [each["probabilities"] for each in predicted]


WAYS: dict[str, Callable[[Rows, Rows, str, str, Path], Answers]] = {
    "words": words,
    "probe": probe,
    "setfit": setfit,
    "trainer": trainer,
    "bertkit": bertkit,
}


def main() -> None:
    way, kind, folder, model = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    train, other = read_rows(folder / "train.jsonl"), read_rows(folder / "other.jsonl")
    answers = WAYS[way](train, other, kind, model, folder)
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
