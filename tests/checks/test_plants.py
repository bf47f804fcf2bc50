"""Each planted fault is found, and nothing else; clean data have no finding."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from bertkit.checks.check import codes

from .conftest import WORDS, Case, pseudo_words, save_model, sentence, write_csv

RNG = random.Random(9)
OTHER = pseudo_words(2000, 77)


def codes_of(report: Any) -> set[str]:
    return {finding.code for finding in report.findings}


def change(key: str, value: Any) -> Callable[[Case], None]:
    return lambda case: case.overrides.update({key: value})


def edit(row: int, write: Callable[[str], str], split: str = "train") -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        of_row = getattr(case, split)[row]
        of_row["text"] = write(of_row["text"])

    return plant


def repeated(case: Case) -> None:
    case.train += [dict(row) for row in case.train[:10]]


def nearly_repeated(case: Case) -> None:
    case.train += [{**row, "text": row["text"] + " ."} for row in case.train[:10]]


def shared(case: Case) -> None:
    case.validation[0] = dict(case.train[0])


def nearly_shared(case: Case) -> None:
    case.validation[0] = {**case.train[0], "text": case.train[0]["text"] + " ."}


def conflicting(case: Case) -> None:
    case.train.append({**case.train[0], "label": "yes"})


def third_class(train: int, validation: int) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.train += [{"text": sentence(RNG), "label": "maybe"} for _ in range(train)]
        case.validation += [{"text": sentence(RNG), "label": "maybe"} for _ in range(validation)]

    return plant


def misspelt(case: Case) -> None:
    for rows in (case.train[:40], case.validation[:20]):
        for row in rows:
            row["label"] = {"no": "no ", "yes": "Yes"}[row["label"]]


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


TABLE = {
    "duplicates": (repeated, {"duplicates"}),
    "near-duplicates": (nearly_repeated, {"near-duplicates"}),
    "split-overlap": (shared, {"split-overlap"}),
    "near-split-overlap": (nearly_shared, {"near-split-overlap"}),
    "label-conflict": (conflicting, {"label-conflict", "duplicates"}),
    "labels-in-one-split": (third_class(60, 0), {"labels-in-one-split"}),
    "rare-class": (third_class(5, 2), {"rare-class"}),
    "imbalance": (third_class(15, 2), {"imbalance"}),
    "label-spelling": (misspelt, {"label-spelling"}),
    "label-spelling by Unicode": (unlike_in_bytes, {"label-spelling"}),
    "empty-text": (edit(3, lambda text: "\u200b"), {"empty-text"}),
    "one-word-text": (edit(3, lambda text: text.split()[0]), {"one-word-text"}),
    "control-characters": (edit(3, lambda text: f"{text} \x07"), {"control-characters"}),
    "mojibake": (edit(3, lambda text: f"{text} cafÃ©"), {"mojibake"}),
    "unknown-tokens": (strange_words(40, "bala☃"), {"unknown-tokens"}),
    "unknown-script": (strange_words(40, "слово"), {"unknown-script"}),
    "fragmented-words": (other_language, {"fragmented-words"}),
    "truncation": (long_texts, {"truncation"}),
    "id-column": (identifiers, {"id-column", "one-word-text"}),
    "leak": (leaking, {"leak"}),
    "leaking column": (label_as_text, {"leak", "duplicates"}),
    "learning-rate": (change("train.learning_rate", 1e-2), {"learning-rate"}),
    "epochs": (change("train.num_train_epochs", 10), {"epochs"}),
    "few-steps": (change("train.max_steps", 20), {"few-steps"}),
    "warmup": (change("train.warmup_steps", 0), {"warmup"}),
    "new-pooler": (without_pooler, {"new-pooler"}),
    "new-head": (with_a_head, {"new-head"}),
    "processes": (change("placement.num_processes", 2), {"processes"}),
    "output-dir": (with_other_outputs, {"output-dir"}),
    "data": (bad_label, {"data"}),
    "recipe": (change("train.learning_rat", 1e-5), {"recipe"}),
    "checkpoint": (lambda case: setattr(case, "model", str(case.folder)), {"checkpoint"}),
    "positions": (change("data.max_seq_length", 1000), {"recipe"}),
    "placement": (change("placement.per_device_train_batch_size", 3), {"placement"}),
    "training": (with_infinite_weights, {"training"}),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_fault_in_a_table_is_found(table, name, request):
    if name != "training":
        request.getfixturevalue("no_trial")
    plant, expected = TABLE[name]
    plant(table)
    before = sorted(table.folder.rglob("*"))
    report = table.report()
    assert codes_of(report) == expected, report.findings
    assert all(finding.where and finding.message and finding.remedy for finding in report.findings)
    written = {path.name for path in set(table.folder.rglob("*")) - set(before)}
    assert written <= {"train.csv", "validation.csv"}


def test_clean_tables_have_no_finding(table):
    report = table.report()
    assert report.findings == ()
    plan = report.plan
    assert plan["steps"] == 100
    assert plan["examples"] == {"train": 400, "validation": 40}
    assert plan["labels"].startswith("problem: single_label with 2 classes ('no' 200, 'yes' 200), inferred from")
    assert plan["seconds"] is None or plan["seconds"] > 0
    assert (plan["seconds"] is None) == bool(plan["seconds_unknown"])  # on a busy machine
    assert 0 < plan["memory_bytes"] < plan["memory_available_bytes"]


def test_texts_and_labels_in_lower_case_for_a_cased_checkpoint(table, cased, no_trial):
    table.model = cased
    assert codes_of(table.report()) == {"casing"}


def test_a_batch_without_attention_mask(table, no_trial, monkeypatch):
    from bertkit.tasks.classification.task import ClassificationTask

    whole = ClassificationTask.collate

    def without(self, *args, **kwargs):
        return {name: each for name, each in whole(self, *args, **kwargs).items() if name != "attention_mask"}

    monkeypatch.setattr(ClassificationTask, "collate", without)
    report = table.report()
    assert codes_of(report) == {"attention-mask"}
    assert report.errors == 1


def test_pairs_for_a_family_without_segments(table, no_trial, tmp_path):
    from transformers import AutoTokenizer, RobertaConfig, RobertaModel

    folder = tmp_path / "roberta"
    tokenizer = AutoTokenizer.from_pretrained(table.model)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    special = {"pad_token_id": tokenizer.pad_token_id, "max_position_embeddings": 80, "type_vocab_size": 1}
    RobertaModel(RobertaConfig(vocab_size=len(tokenizer), **sizes, **special)).save_pretrained(folder)
    table.model = str(folder)
    for row in table.train + table.validation:
        row["text2"] = sentence(RNG, 4)
    table.overrides["task.text_columns"] = ["text", "text2"]
    assert codes_of(table.report()) == {"checkpoint-family"}


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        ("bertkit.checks.plan.free_space", lambda folder: 10, "disk"),
        ("bertkit.checks.plan._available_memory", lambda device: 10, "memory"),
        ("bertkit.checks.extras.import_module", None, "extra"),
    ],
)
def test_what_the_machine_lacks(table, no_trial, monkeypatch, target, value, expected):
    from bertkit.checks.extras import extra

    extra.cache_clear()
    monkeypatch.setattr(target, value or _raise_import_error)
    try:
        assert codes_of(table.report()) == {expected}
    finally:
        extra.cache_clear()


def _raise_import_error(name: str) -> None:
    raise ImportError(name)


def test_a_push_without_login(table, no_trial, monkeypatch):
    from bertkit.errors import HubError

    def refuse(repo_id: str) -> None:
        raise HubError("not logged in")

    monkeypatch.setattr("bertkit.run.in_progress.check_login", refuse)
    table.arguments["push_to_hub"] = "me/model"
    assert codes_of(table.report()) == {"hub"}


def test_faults_of_several_parts_are_reported_together(table, no_trial):
    with_other_outputs(table)
    bad_label(table)
    table.model = str(table.folder)
    assert codes_of(table.report()) == {"output-dir", "checkpoint", "data"}


def test_a_fault_of_data_at_a_relative_path_is_reported_once(table, no_trial, monkeypatch):
    bad_label(table)
    table.write()
    monkeypatch.chdir(table.folder)
    table.of = lambda name, path: table.overrides.update({f"data.{name}_file": f"{name}.csv"})
    [finding] = table.report().findings
    assert finding.code == "data"
    assert str(table.folder / "train.csv") in finding.message


# ---- entities, questions, corpora -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lambda case: None, set()),
        (impossible, {"impossible-tags"}),
        (disagreeing, {"entity-disagreement"}),
        (misspelt_tags, {"label-spelling", "entity-disagreement"}),
        (capitalized, {"casing"}),
    ],
)
def test_a_fault_in_tags_is_found(ner, no_trial, plant, expected):
    plant(ner)
    assert codes_of(ner.report()) == expected


def misplaced(case: Case) -> None:
    case.validation[0]["answers"]["answer_start"] = [2]


def split_by_windows(case: Case) -> None:
    for row in case.train[:5]:
        row["context"] = sentence(RNG, 80)
        row["answers"] = {"text": [row["context"]], "answer_start": [0]}


@pytest.mark.parametrize(
    ("plant", "expected"),
    [(lambda case: None, set()), (misplaced, {"misplaced-answers"}), (split_by_windows, {"lost-labels"})],
)
def test_a_fault_in_answers_is_found(questions, no_trial, plant, expected):
    plant(questions)
    assert codes_of(questions.report()) == expected


def few(case: Case) -> None:
    case.train = case.train[:30]


def tiny(case: Case) -> None:
    case.train += [sentence(RNG, 10).capitalize() + "." for _ in range(40)]


def copied(case: Case) -> None:
    case.train += case.train[:10]


def damaged(case: Case) -> None:
    case.train[0] += " \ufffd"


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lambda case: None, set()),
        (few, {"few-documents"}),
        (tiny, {"tiny-documents"}),
        (copied, {"repeated-documents"}),
        (damaged, {"control-characters"}),
        (change("train.max_steps", 20000), {"epochs"}),
        (change("train.warmup_steps", 0), {"warmup"}),
    ],
)
def test_a_fault_in_a_corpus_is_found(corpus, no_trial, plant, expected):
    plant(corpus)
    before = sorted(path for path in corpus.folder.rglob("*") if "corpus" not in str(path.relative_to(corpus.folder)))
    assert codes_of(corpus.report()) == expected
    after = sorted(path for path in corpus.folder.rglob("*") if "corpus" not in str(path.relative_to(corpus.folder)))
    assert before == after


@pytest.mark.parametrize(("change_name", "value"), [("train.max_steps", 20), ("train.warmup_steps", 0)])
def test_advice_for_a_corpus_names_no_head(corpus, no_trial, change_name, value):
    corpus.overrides[change_name] = value
    [finding] = corpus.report().findings
    assert "BERT §A.2" in finding.message
    assert "head" not in finding.message
    assert "new weights" not in finding.message


def test_too_many_texts_for_near_duplicates_are_named(table, no_trial, monkeypatch):
    monkeypatch.setattr("bertkit.checks.duplicate_rules._MOST_TEXTS", 439)
    nearly_repeated(table)
    [finding] = table.report().findings
    assert (finding.code, finding.level) == ("near-duplicates", "note")
    assert "450 different examples: near duplicates" in finding.message
    assert "more than 439" in finding.message


def test_a_full_cache(corpus, no_trial, monkeypatch):
    monkeypatch.setattr("bertkit.checks.plan.free_space", lambda folder: 10)
    assert codes_of(corpus.report()) == {"disk", "store"}


def test_every_code_has_a_plant():
    planted = set.union(*(expected for _, expected in TABLE.values()))
    planted |= {"casing", "attention-mask", "checkpoint-family", "disk", "memory", "extra", "hub", "impossible-tags"}
    planted |= {"entity-disagreement", "misplaced-answers", "lost-labels", "few-documents", "tiny-documents"}
    planted |= {"repeated-documents", "store", "label-noise", "sample"}
    assert planted == set(codes())


def test_the_place_of_a_row_is_its_line(table, no_trial):
    table.train[7]["text"] = "\u200b"
    [finding] = table.report().findings
    assert finding.where == "train (train.csv, line 9)"


@pytest.mark.parametrize(
    ("plant", "code", "expected"),
    [
        (third_class(5, 2), "rare-class", "1 class has fewer than 10 examples"),
        (third_class(20, 0), "labels-in-one-split", "is not in validation, so its scores are not measured"),
        (shared, "split-overlap", "%) of validation has the same"),
        (conflicting, "label-conflict", "1 text has several labels"),
        (edit(7, lambda text: "\u200b"), "empty-text", "%) has a text without visible characters"),
    ],
)
def test_one_thing_has_a_verb_in_the_singular(table, no_trial, plant, code, expected):
    plant(table)
    [message] = [finding.message for finding in table.report().findings if finding.code == code]
    assert expected in message


def test_labels_are_quoted_with_their_counts(table, no_trial):
    misspelt(table)
    table.train[0]["label"] = "no  "
    found = {finding.code: finding.message for finding in table.report().findings}
    assert found.keys() == {"label-spelling", "rare-class", "labels-in-one-split"}
    assert "5 classes" in found["label-spelling"]
    assert found["label-spelling"].endswith("'no' 190, 'no ' 29, 'no  ' 1; 'yes' 190, 'Yes' 30")
    assert found["rare-class"].endswith("'no  ' 1")
    assert found["labels-in-one-split"].endswith("'no  '")


def test_several_labels_of_a_text_are_compared_too(table, no_trial):
    for row in table.train + table.validation:
        row["label"] = "new|" + row["label"]
    for row in table.train[:20] + table.validation[:20]:
        row["label"] = row["label"].replace("new", "NEW")
    table.overrides["task.label_separator"] = "|"
    [finding] = [each for each in table.report().findings if each.code == "label-spelling"]
    assert finding.message.endswith("'new' 400, 'NEW' 40")


def test_the_place_of_a_held_out_row(table, no_trial, tmp_path: Path):
    table.train[7]["text"] = "\u200b"
    table.overrides |= {
        "data.train_file": write_csv(tmp_path / "train.csv", table.train),
        "data.validation_file": None,
        "train.num_train_epochs": 3,
    }
    [finding] = table.report().findings
    assert finding.where.endswith("(train.csv, line 9)")
