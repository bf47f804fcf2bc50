"""Distillation of each kind of task, with and without labels: the loss by the formula."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from torch.nn import functional as F

from bertkit import distill
from bertkit.runtime.errors import DataError
from tests.training.conftest import FOUR_STEPS, STRAIGHT, logged

pytestmark = pytest.mark.numeric

STILL = {**FOUR_STEPS, **STRAIGHT, "train.max_steps": 1, "train.learning_rate": 1e-12, "data.max_seq_length": 32}
STILL |= {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}
STILL |= {"train.global_train_batch_size": 64}
TEXTS = ("a good film", "the plot is awful", "a lovely story, the film is bad", "the story", "bad or good")


def rows_of(kind):
    """Labelled rows of a kind of `tests/fine_tuned.py`."""
    if kind in ("film", "topics"):
        labels = ("bad", "good", "fair", "bad", "good") if kind == "film" else (["plot"], [], ["plot", "cast"], [], [])
        return [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    if kind == "pairs":
        return [{"one": text, "two": TEXTS[0], "score": len(text) / 10} for text in TEXTS]
    if kind in ("entities", "tags"):
        tags = ("O", "B-FILM") if kind == "entities" else ("NOUN", "VERB")
        return [{"tokens": text.split(), "ner_tags": [tags[word == "film"] for word in text.split()]} for text in TEXTS]
    if kind == "choices":
        endings = ["is lovely", "is awful"]
        return [{"context": text, "endings": endings, "label": len(text) % 2} for text in TEXTS]
    return [
        {
            "id": str(number),
            "question": "good or bad",
            "context": text,
            "answers": {"text": [text.split()[-1]], "answer_start": [text.rindex(text.split()[-1])]},
        }
        for number, text in enumerate(TEXTS)
    ]


LABELS = {"film": "label", "topics": "label", "pairs": "score", "entities": "ner_tags", "tags": "ner_tags"}
LABELS |= {"answers": "answers", "maybe": "answers", "choices": "label"}


@pytest.fixture
def student_of(fine_tuned, checkpoint, tmp_path):
    """``student_of(kind, labelled, key=value)``: the run of a student of one step, and its teacher."""

    def run(kind, labelled=True, **given):
        files = {}
        for split in ("train", "validation"):
            rows = rows_of(kind)
            if split == "train" and not labelled:
                rows = [{name: value for name, value in row.items() if name != LABELS[kind]} for row in rows]
            files[split] = tmp_path / f"{split}.jsonl"
            files[split].write_text("".join(json.dumps(row) + "\n" for row in rows))
        overrides = {**STILL, **{f"data.{split}_file": str(file) for split, file in files.items()}}
        if kind in ("answers", "maybe"):
            overrides |= {"data.doc_stride": 4, "data.max_query_length": 8}
        if kind == "choices":
            overrides |= {"task.context_column": "context", "task.ending_columns": ["endings"]}
            overrides |= {"task.label_column": "label"}
        teacher = fine_tuned(kind)
        done = distill(teacher, checkpoint, output_dir=tmp_path / "run", overrides=overrides, **given)
        return teacher, done.output_dir, logged(done.output_dir)[0]

    return run


def logits_of(kind, *checkpoints):
    """Outputs of transformers' classes for the rows of a kind, one input at a time."""
    import transformers

    auto = {
        "entities": "AutoModelForTokenClassification",
        "tags": "AutoModelForTokenClassification",
        "answers": "AutoModelForQuestionAnswering",
        "maybe": "AutoModelForQuestionAnswering",
    }.get(kind, "AutoModelForSequenceClassification")
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints[0])
    models = [getattr(transformers, auto).from_pretrained(each).eval() for each in checkpoints]
    for row in rows_of(kind):
        if kind in ("entities", "tags"):
            batch = tokenizer(row["tokens"], is_split_into_words=True, return_tensors="pt")
        elif kind in ("answers", "maybe"):
            batch = tokenizer(row["question"], row["context"], return_tensors="pt")
        else:
            texts = [row["one"], row["two"]] if kind == "pairs" else [row["text"]]
            batch = tokenizer(*texts, return_tensors="pt")
        with torch.no_grad():
            yield batch, [model(**batch) for model in models]


def soft(ours, theirs, temperature):
    targets = F.softmax(theirs / temperature, dim=-1)
    return temperature**2 * -(targets * F.log_softmax(ours / temperature, dim=-1)).sum(-1)


def expected_loss(kind, student, teacher, temperature):
    """The teacher's part of the loss over all rows, a mean over its items."""
    losses = []
    for batch, (ours, theirs) in logits_of(kind, student, teacher):
        if kind in ("answers", "maybe"):
            both = [soft(ours[name][0], theirs[name][0], temperature) for name in ("start_logits", "end_logits")]
            losses.append((both[0] + both[1]) / 2)
        elif kind in ("entities", "tags"):
            words = batch.word_ids(0)
            first = [at for at, word in enumerate(words) if word is not None and word != words[at - 1]]
            losses += soft(ours.logits[0, first], theirs.logits[0, first], temperature).tolist()
        elif kind == "pairs":
            losses.append((ours.logits - theirs.logits).square().mean())
        elif kind == "topics":
            scaled = F.binary_cross_entropy_with_logits(
                ours.logits / temperature, (theirs.logits / temperature).sigmoid()
            )
            losses.append(temperature**2 * scaled)
        else:
            losses.append(soft(ours.logits[0], theirs.logits[0], temperature))
    return torch.tensor(losses).mean().item()


@pytest.mark.parametrize(
    ("kind", "labelled"),
    [
        *((kind, True) for kind in ("film", "topics", "pairs", "entities", "maybe")),
        *((kind, False) for kind in ("film", "pairs", "tags", "answers")),
    ],
)
def test_the_teachers_part_is_that_of_the_formula(student_of, kind, labelled):
    teacher, student, loss = student_of(kind, labelled, alpha=1, temperature=3)
    assert loss == pytest.approx(expected_loss(kind, student, teacher, 3.0), rel=2e-4)


@pytest.mark.parametrize("kind", ["entities", "choices"])
def test_the_parts_add_up(student_of, kind):
    losses = {}
    for alpha in (0, 0.25, 1):
        _, folder, losses[alpha] = student_of(kind, alpha=alpha)
        shutil.rmtree(folder)
    assert losses[0.25] == pytest.approx(0.75 * losses[0] + 0.25 * losses[1], rel=1e-4)


def test_rows_without_labels_leave_no_validation_set(fine_tuned, checkpoint, tmp_path):
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    overrides = {**STILL, "data.train_file": str(file)}
    with pytest.raises(DataError, match="no labels, so no validation set can be held out from it; give"):
        distill(fine_tuned("film"), checkpoint, alpha=1, output_dir=tmp_path / "run", overrides=overrides)


def test_texts_that_fit_one_window_are_taught_as_without_windows(fine_tuned, checkpoint, tmp_path):
    file = tmp_path / "train.jsonl"
    file.write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows_of("film"), {"text": "good " * 30, "label": "bad"}])
    )
    losses = {}
    for treatment, length in (("cut", 64), ("chunk", 64), ("chunk", 16)):
        overrides = {**STILL, "data.train_file": str(file), "data.validation_file": str(file)}
        overrides |= {"data.long_text": treatment, "data.max_seq_length": length}
        out = tmp_path / f"{treatment}-{length}"
        distill(fine_tuned("film"), checkpoint, alpha=1, output_dir=out, overrides=overrides)
        losses[treatment, length] = logged(out)[0]
    assert losses["chunk", 64] == pytest.approx(losses["cut", 64], rel=1e-4)
    assert abs(losses["chunk", 16] - losses["cut", 64]) > 1e-4
