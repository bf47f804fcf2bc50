"""Each planted fault is found, and nothing else; clean data have no finding."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from bertkit import check
from bertkit.features.checks.check import codes

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


# Name of a plant → the place and the message of its finding, with a verb in the singular.
SENTENCES = {
    "rare-class": ("train", "1 class has fewer than 10 examples"),
    "labels-in-one-split": ("validation", "is not in validation, so its scores are not measured"),
    "split-overlap": ("validation (validation.csv, line 2)", "%) of validation has the same"),
    "label-conflict": ("train (train.csv, line 402)", "1 text has several labels"),
    "empty-text": ("train (train.csv, line 5)", "%) has a text without visible characters"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name, request):
    if name != "training":
        request.getfixturevalue("no_trial")
    fixture, plant, expected = PLANTS[name]
    case = request.getfixturevalue(fixture)
    plant(case)
    before = set(case.folder.rglob("*"))
    report = case.report()
    assert codes_of(report) == expected, report.findings
    assert all(finding.where and finding.message and finding.remedy for finding in report.findings)
    if name in SENTENCES:
        [finding] = [each for each in report.findings if each.code == name]
        where, sentence = SENTENCES[name]
        assert finding.where == where
        assert sentence in finding.message
    assert {path.stem for path in set(case.folder.rglob("*")) - before} <= {"train", "validation", "corpus", "text"}


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


def test_classes_that_are_all_small_are_no_warning(table, no_trial):
    """Nine rows of each class: none is rarer than another, and such classes are learned."""
    for split, each in (("train", 9), ("validation", 2)):
        rows = getattr(table, split)[: 20 * each]
        setattr(table, split, [{**row, "label": f"class {number % 20}"} for number, row in enumerate(rows)])
    table.overrides |= {"train.num_train_epochs": 8}
    [finding] = table.report().findings
    assert (finding.code, finding.level) == ("rare-class", "note")
    assert finding.message.startswith("20 of 20 classes have fewer than 10 examples: 'class 0' 9, ")


def test_small_and_far_smaller_classes_do_not_contradict_each_other(table, no_trial):
    """Two classes have two rows, the other 18 have nine: both findings are about parts of the 20."""
    for split, each in (("train", 9), ("validation", 2)):
        rows = getattr(table, split)[: 20 * each]
        labelled = [{**row, "label": f"class {number % 20}"} for number, row in enumerate(rows)]
        setattr(table, split, [row for n, row in enumerate(labelled) if n % 20 < 18 or n < 40])
    table.overrides |= {"train.num_train_epochs": 8}
    rarest, small = (finding for finding in table.report().findings if finding.code == "rare-class")
    assert (rarest.level, small.level) == ("warning", "note")
    assert rarest.message == (
        "2 of 20 classes have fewer than 10 examples and less than half of the mean, 8.3: 'class 18' 2, 'class 19' 2"
    )
    assert small.message.startswith("18 more of 20 classes have fewer than 10 examples: 'class 0' 9, ")
    assert small.remedy.endswith("none of them is much rarer than the others")


def test_the_counts_of_a_plan_are_those_of_the_training_rows(table, no_trial):
    """A part of the table is held out, or left out."""
    table.write()
    del table.overrides["data.validation_file"]
    given = {"model": table.model, "overrides": table.overrides | {"train.warmup_steps": 0.1, "data.folds": 0}}
    labels = check(table.recipe, **given).plan["labels"]
    assert "('no' 180, 'yes' 180), inferred from 400 labels" in labels
    given["overrides"] |= {"data.max_train_samples": 100}
    labels = check(table.recipe, **given).plan["labels"]
    counts = [int(word.strip("(),")) for word in labels.split() if word.strip("(),").isdigit()]
    assert sum(counts[1:3]) == 100


def test_the_schedule_that_a_run_chooses_is_not_warned_of(table, no_trial):
    """Of 32 rows the epochs are many and the steps few: both are as chosen, and more epochs are not proposed."""
    table.train = table.train[:32]
    for key in ("train.learning_rate", "train.num_train_epochs"):
        del table.overrides[key]
    table.overrides["train.global_train_batch_size"] = 32
    findings = {finding.code: finding for finding in table.report().findings}
    assert not {"epochs", "learning-rate"} & set(findings)
    assert findings["few-steps"].message.startswith("50 optimizer steps")
    assert "--num-train-epochs" not in findings["few-steps"].remedy


def test_lower_case_for_a_cased_checkpoint(table, cased, no_trial):
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


def test_pairs_for_a_family_without_segments(table, no_trial, tmp_path, stock_models):
    folder = stock_models.stock_checkpoint(tmp_path / "roberta", "roberta", "AutoModel", vocab_size=1000)
    AutoTokenizer.from_pretrained(table.model).save_pretrained(folder)
    table.model = str(folder)
    for row in table.train + table.validation:
        row["text2"] = sentence(RNG, 4)
    table.overrides["task.text_columns"] = ["text", "text2"]
    assert codes_of(table.report()) == {"checkpoint-family"}


def test_nothing_is_proposed_that_a_run_refuses_or_has(table, ner, no_trial, monkeypatch, tmp_path):
    for words in (*ner.train, *ner.validation):
        words[4:6] = [(word, tag.replace("LOC", "PLACE")) for word, tag in words[4:6]]
    ner.train[1][4:6] = [(word, tag.replace("PLACE", "PLAACE")) for word, tag in ner.train[1][4:6]]
    assert {each.remedy for each in ner.report().findings if each.code == "label-typo"} == {"correct these labels"}
    monkeypatch.setattr("bertkit.features.checks.plan._find_available_memory", lambda _: 10)
    for size, part in ((1, None), (9, 3)):
        table.overrides |= {"train.global_train_batch_size": size, "train.max_steps": 200}
        table.overrides["placement.gradient_checkpointing"] = part is not None
        [remedy] = [each.remedy for each in table.report().findings if each.code == "memory"]
        assert [part in remedy for part in ("device_train", "gradient")] == [part is not None, part is None]
        assert part is None or f"per_device_train_batch_size={part} " in remedy
    monkeypatch.undo()
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: None)
    for steps, code, remedy in ((9000, "epochs", "set --max-steps 300"), (20, "few-steps", "set more --max-steps")):
        table.overrides |= {"train.max_steps": steps, "train.global_train_batch_size": 8}
        [found] = [each for each in table.report().findings if each.code == code]
        assert found.remedy.partition(",")[0] == remedy
    monkeypatch.setattr("bertkit.features.checks.plan.free_space", lambda _: 10)
    table.overrides |= {"train.max_steps": -1, "train.num_train_epochs": 9, "train.load_best_model_at_end": True}
    for key, value, smaller in (
        ("save_total_limit", 5, "set train.save_total_limit=2 or train.save_strategy=no with train.load_best_"),
        ("save_total_limit", 2, "set train.save_strategy=no with train.load_best_model_at_end=false, or give another"),
        ("load_best_model_at_end", False, "set train.save_strategy=no, or give another"),
        ("save_strategy", "no", "give another"),
    ):
        table.overrides[f"train.{key}"] = value
        [remedy] = [each.remedy for each in table.report().findings if each.code == "disk"]
        assert remedy.startswith(smaller)
    rows = [{"context": f"row {row}", "endings": ["a", "b"], "label": int(row < 15)} for row in range(400)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    given = {"train_file": str(tmp_path / "rows.jsonl"), "validation_file": str(tmp_path / "rows.jsonl")}
    findings = check("finetune/multiple-choice", model=table.model, max_seq_length=16, **given).findings
    [remedy] = [each.remedy for each in findings if each.code == "imbalance"]
    assert "class_weights" not in remedy


def test_packages_that_are_missing(table, no_trial, monkeypatch):
    from bertkit.features.checks.findings import extra

    extra.cache_clear()
    for module in ("datasketch", "ftfy.badness"):
        monkeypatch.setitem(sys.modules, module, None)
    try:
        report = table.report()
        assert codes_of(report) == {"extra"}
        assert [finding.message.split()[-4] for finding in report.findings] == ["datasketch", "ftfy"]
    finally:
        extra.cache_clear()


def test_a_push_without_login(table, no_trial, monkeypatch):
    from bertkit.runtime.errors import HubError

    def refuse(repo_id: str) -> None:
        raise HubError("not logged in")

    monkeypatch.setattr("bertkit.features.sharing.push.check_login", refuse)
    table.arguments["push_to_hub"] = "me/model"
    assert codes_of(table.report()) == {"hub"}


def test_faults_of_several_parts_are_reported_together(table, no_trial):
    with_other_outputs(table)
    bad_label(table)
    table.model = str(table.folder)
    assert codes_of(table.report()) == {"output-dir", "checkpoint", "data"}


def test_data_at_a_relative_path_have_one_fault(table, no_trial, monkeypatch):
    bad_label(table)
    table.write()
    monkeypatch.chdir(table.folder)
    table.of = lambda name, path: table.overrides.update({f"data.{name}_file": f"{name}.csv"})
    [finding] = table.report().findings
    assert finding.code == "data"
    assert str(table.folder / "train.csv") in finding.message


@pytest.mark.parametrize(("change_name", "value"), [("train.max_steps", 20), ("train.warmup_steps", 0)])
def test_advice_for_a_corpus_names_no_head(corpus, no_trial, change_name, value):
    corpus.overrides[change_name] = value
    [finding] = corpus.report().findings
    assert "BERT §A.2" in finding.message
    assert "head" not in finding.message
    assert "new weights" not in finding.message


def test_a_warm_up_that_the_schedule_ignores_is_none(table, no_trial):
    table.overrides["train.lr_scheduler_type"] = "constant"
    [finding] = table.report().findings
    assert (finding.code, finding.where) == ("warmup", "train.lr_scheduler_type")
    assert "while the new weights are random" in finding.message
    assert "constant_with_warmup" in finding.remedy


def test_a_probed_head_is_not_said_to_be_random(table, no_trial):
    table.overrides |= {"train.warmup_steps": 0, "train.head": "probe"}
    [finding] = table.report().findings
    assert (finding.code, finding.message) == ("warmup", "no warm-up: the first steps have the full learning rate")


def test_a_new_head_for_numbers_has_no_labels(table, no_trial):
    with_a_head(table)
    for split in (table.train, table.validation):
        split[:] = [{**row, "label": f"{number}.5"} for number, row in enumerate(split)]
    table.overrides["train.max_steps"] = 1
    messages = {finding.code: finding.message for finding in table.report().findings}
    assert "for the labels bad, good; the run is for a number, so" in messages["new-head"]
    assert messages["few-steps"].startswith("1 optimizer step of ")


def test_too_many_texts_for_near_duplicates_are_named(table, no_trial, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.duplicate_rules._MOST_TEXTS", 439)
    repeat(10, " .")(table)
    [finding] = table.report().findings
    assert (finding.code, finding.level) == ("near-duplicates", "note")
    assert "450 different examples: near duplicates" in finding.message
    assert "more than 439" in finding.message


@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
def test_random_next_sentences_are_named_where_there_are_some(corpus, no_trial, objective):
    corpus.train.extend(corpus.train[:10])
    corpus.overrides["task.pair_objective"] = objective
    [remedy] = [each.remedy for each in corpus.report().findings if each.code == "repeated-documents"]
    assert "`bertkit corpus build --deduplicate exact`" in remedy
    assert ("random next sentence" in remedy) == (objective == "nsp")


def test_a_full_cache(corpus, no_trial, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.plan.free_space", lambda folder: 10)
    assert codes_of(corpus.report()) == {"disk", "store"}


def test_every_code_has_a_plant():
    planted = set.union(*(expected for _, _, expected in PLANTS.values()))
    elsewhere = {"attention-mask", "checkpoint-family", "disk", "memory", "store", "extra", "hub"}
    assert planted | elsewhere | {"label-noise", "sample"} == set(codes())


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


def test_other_packages_register_what_they_know(monkeypatch):
    from datasets import Dataset

    from bertkit.features.checks.label_rules import rare_class
    from bertkit.features.checks.subject import Checked, Subject, checked
    from bertkit.tasks.splits import Split

    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "third_party")
    from acme_levels import LevelData, LevelSettings, LevelTask

    class CheckedLevels(Checked):
        def classes(self, examples):
            return [[f"level {level}"] for level in examples["level"]]

    task = LevelTask(LevelSettings(), LevelData())
    splits = {"train": Split(Dataset.from_dict({"level": [1] * 20 + [2] * 3}), "levels.csv", "")}
    assert list(rare_class(Subject(recipe=None, task=task, splits=splits))) == []
    checked.register(LevelTask)(CheckedLevels)
    [finding] = rare_class(Subject(recipe=None, task=task, splits=splits))
    assert finding.message.endswith("'level 2' 3")
