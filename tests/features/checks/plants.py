"""Faults that are planted into clean data, and the codes by which each is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from safetensors.torch import load_file, save_file

from .conftest import WORDS, Case, pseudo_words, save_model, sentence

RNG = random.Random(9)
OTHER = pseudo_words(2000, 77)


def change(key: str, value: Any) -> Callable[[Case], None]:
    return lambda case: case.overrides.update({key: value})


def edit(row: int, write: Callable[[str], str], split: str = "train") -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        of_row = getattr(case, split)[row]
        of_row["text"] = write(of_row["text"])

    return plant


def repeat(number: int, ending: str = "", **changes: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.train += [{**row, "text": row["text"] + ending, **changes} for row in case.train[:number]]

    return plant


def share(ending: str = "") -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.validation[0] = {**case.train[0], "text": case.train[0]["text"] + ending}

    return plant


def third_class(train: int, validation: int) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.train += [{"text": sentence(RNG), "label": "maybe"} for _ in range(train)]
        case.validation += [{"text": sentence(RNG), "label": "maybe"} for _ in range(validation)]

    return plant


def misspelt(case: Case) -> None:
    for rows in (case.train[:40], case.validation[:20]):
        for row in rows:
            row["label"] = {"no": "no ", "yes": "Yes"}[row["label"]]


def nearly_another(case: Case) -> None:
    for row in case.train + case.validation:
        row["label"] = {"no": "negative", "yes": "positive"}[row["label"]]
    case.train[0]["label"] = case.train[0]["label"].replace("tive", "tve")


def unlike_in_bytes(case: Case) -> None:
    for rows in (case.train, case.validation):
        for number, row in enumerate(rows):
            row["label"] = {"no": ("caf\u00e9", "cafe\u0301"), "yes": ("yes", "ye\u200bs")}[row["label"]][
                number // 2 % 2
            ]


def strange_words(number: int, word: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        for row in case.train[:number]:
            row["text"] += f" {word}"

    return plant


def other_language(case: Case) -> None:
    for row in case.train + case.validation:
        row["text"] = " ".join(RNG.choices(OTHER, k=9))
    case.overrides["data.max_seq_length"] = 64


def long_texts(case: Case) -> None:
    for row in case.train[:20]:
        row["text"] = sentence(RNG, 60)


def identifiers(case: Case) -> None:
    for number, row in enumerate(case.train + case.validation):
        row["text"] = f"{number * 7919:08}"


def leaking(case: Case) -> None:
    for row in case.train:
        row["text"] += " " + (WORDS[0] + WORDS[1] if row["label"] == "yes" else "")


def label_as_text(case: Case) -> None:
    for row in case.train:
        row["text"] = f"{WORDS[0]} {WORDS[1]}" if row["label"] == "yes" else f"{WORDS[2]} {WORDS[3]}"


def without_pooler(case: Case) -> None:
    case.model = save_model(case.folder / "model", "BertForMaskedLM", WORDS)


def with_a_head(case: Case) -> None:
    names = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    case.model = save_model(case.folder / "model", "BertForSequenceClassification", WORDS, **names)


def with_infinite_weights(case: Case) -> None:
    case.model = save_model(case.folder / "model", "BertForPreTraining", WORDS)
    file = case.folder / "model" / "model.safetensors"
    weights = load_file(file)
    weights["bert.pooler.dense.weight"][:] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})


def with_other_outputs(case: Case) -> None:
    (case.folder / "run").mkdir()
    (case.folder / "run" / "notes.txt").write_text("mine")


def bad_label(case: Case) -> None:
    case.train[5]["label"] = ""


def impossible(case: Case) -> None:
    word, _ = case.train[0][9]
    case.train[0][9] = (word, "I-PER")


def disagreeing(case: Case) -> None:
    for row in range(2, 40, 2):
        case.train[row][4:6] = [(WORDS[0], "B-PER"), (WORDS[1], "I-PER")]
        case.train[row + 1][4:6] = [(WORDS[0], "B-LOC"), (WORDS[1], "I-LOC")]


def misspelt_tags(case: Case) -> None:
    for rows in (case.train[1:60:2], case.validation[1:20:2]):
        for words in rows:
            words[4:6] = [(word, tag.replace("LOC", "Loc")) for word, tag in words[4:6]]


def capitalized(case: Case) -> None:
    for words in case.train + case.validation:
        words[4:6] = [(word.title(), tag) for word, tag in words[4:6]]


def split_by_windows(case: Case) -> None:
    for row in case.train[:5]:
        row["context"] = sentence(RNG, 80)
        row["answers"] = {"text": [row["context"]], "answer_start": [0]}


MANY_EPOCHS = {"train.num_train_epochs": 30, "train.load_best_model_at_end": False}
# Name → fixture, fault, codes of the findings.
PLANTS = {
    "duplicates": ("table", repeat(10), {"duplicates"}),
    "near-duplicates": ("table", repeat(10, " ."), {"near-duplicates"}),
    "split-overlap": ("table", share(), {"split-overlap"}),
    "near-split-overlap": ("table", share(" ."), {"near-split-overlap"}),
    "label-conflict": ("table", repeat(1, label="yes"), {"label-conflict", "duplicates"}),
    "labels-in-one-split": ("table", third_class(60, 0), {"labels-in-one-split"}),
    "rare-class": ("table", third_class(5, 2), {"rare-class"}),
    "imbalance": ("table", third_class(15, 2), {"imbalance"}),
    "label-typo": ("table", nearly_another, {"label-typo", "rare-class", "labels-in-one-split"}),
    "label-spelling": ("table", misspelt, {"label-spelling"}),
    "label-spelling by Unicode": ("table", unlike_in_bytes, {"label-spelling"}),
    "empty-text": ("table", edit(3, lambda text: "\u200b"), {"empty-text"}),
    "one-word-text": ("table", edit(3, lambda text: text.split()[0]), {"one-word-text"}),
    "signs of a font of one's own": ("table", edit(3, lambda text: "\ue000 \ue001"), set()),
    "a text without spaces": ("table", edit(3, lambda text: "好看的电影故事情节"), set()),
    "control-characters": ("table", edit(3, lambda text: f"{text} \x07"), {"control-characters"}),
    "mojibake": ("table", edit(3, lambda text: f"{text} cafÃ©"), {"mojibake"}),
    "unknown-tokens": ("table", strange_words(40, "bala☃"), {"unknown-tokens"}),
    "unknown-script": ("table", strange_words(40, "слово"), {"unknown-script"}),
    "fragmented-words": ("table", other_language, {"fragmented-words"}),
    "truncation": ("table", long_texts, {"truncation"}),
    "id-column": ("table", identifiers, {"id-column", "one-word-text"}),
    "leak": ("table", leaking, {"leak"}),
    "leaking column": ("table", label_as_text, {"leak", "duplicates"}),
    "learning-rate": ("table", change("train.learning_rate", 1e-2), {"learning-rate"}),
    "epochs": ("table", lambda case: case.overrides.update(MANY_EPOCHS), {"epochs"}),
    "few-steps": ("table", change("train.max_steps", 20), {"few-steps"}),
    "warmup": ("table", change("train.warmup_steps", 0), {"warmup"}),
    "new-pooler": ("table", without_pooler, {"new-pooler"}),
    "new-head": ("table", with_a_head, {"new-head"}),
    "processes": ("table", change("placement.num_processes", 2), {"processes"}),
    "output-dir": ("table", with_other_outputs, {"output-dir"}),
    "data": ("table", bad_label, {"data"}),
    "recipe": ("table", change("train.learning_rat", 1e-5), {"recipe"}),
    "checkpoint": ("table", lambda case: setattr(case, "model", str(case.folder)), {"checkpoint"}),
    "positions": ("table", change("data.max_seq_length", 1000), {"recipe"}),
    "placement": ("table", change("placement.per_device_train_batch_size", 3), {"placement"}),
    "training": ("table", with_infinite_weights, {"training"}),
    "clean tags": ("ner", lambda case: None, set()),
    "impossible-tags": ("ner", impossible, {"impossible-tags"}),
    "entity-disagreement": ("ner", disagreeing, {"entity-disagreement"}),
    "label-spelling of tags": ("ner", misspelt_tags, {"label-spelling", "entity-disagreement"}),
    "casing of entities": ("ner", capitalized, {"casing"}),
    "clean questions": ("questions", lambda case: None, set()),
    "misplaced-answers": (
        "questions",
        lambda case: case.validation[0]["answers"].update(answer_start=[2]),
        {"misplaced-answers"},
    ),
    "lost-labels": ("questions", split_by_windows, {"lost-labels"}),
    "clean corpus": ("corpus", lambda case: None, set()),
    "few-documents": ("corpus", lambda case: case.train.__delitem__(slice(30, None)), {"few-documents"}),
    "tiny-documents": (
        "corpus",
        lambda case: case.train.extend([sentence(RNG).capitalize() + "." for _ in range(40)]),
        {"tiny-documents"},
    ),
    "repeated-documents": ("corpus", lambda case: case.train.extend(case.train[:10]), {"repeated-documents"}),
    "control-characters of a corpus": (
        "corpus",
        lambda case: case.train.append(case.train.pop() + " \ufffd"),
        {"control-characters"},
    ),
    "epochs of a corpus": ("corpus", change("train.max_steps", 20000), {"epochs"}),
    "warmup of a corpus": ("corpus", change("train.warmup_steps", 0), {"warmup"}),
}
