"""Each planted fault is found, and nothing else; clean data have no finding."""

from __future__ import annotations

import sys

import pytest
from transformers import AutoTokenizer

from .conftest import all_codes, sentence
from .plants import PLANTS, RNG

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
    assert {finding.code for finding in report.findings} == expected, report.findings
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


def test_the_words_of_a_class_are_one_finding(table, no_trial):
    footer = [f"mark{number}" for number in range(24)]
    for row in table.train:
        row["text"] += " " + (" ".join(footer) if row["label"] == "yes" else "")
    [finding] = [each for each in table.report().findings if each.code == "leak"]
    assert "the word 'mark0' is in 100.0 % of the 200 examples of 'yes', and 100.0 %" in finding.message
    assert "this label; 'mark1', 'mark2', " in finding.message
    assert finding.message.endswith("'mark20' and 3 more tell it as well")
    assert finding.remedy.startswith("remove the words if they are not known")


def test_a_text_of_one_long_word_is_quoted_in_part(table, no_trial):
    table.train[3]["text"] = "ab" * 5000
    [finding] = [each for each in table.report().findings if each.code == "one-word-text"]
    assert len(finding.message) < 300


def test_lower_case_for_a_cased_checkpoint(table, cased, no_trial):
    table.model = cased
    assert table.codes() == {"casing"}


def test_a_batch_without_attention_mask(table, no_trial, monkeypatch):
    from bertkit.tasks.classification.task import ClassificationTask

    whole = ClassificationTask.collate

    def without(self, *args, **kwargs):
        return {name: each for name, each in whole(self, *args, **kwargs).items() if name != "attention_mask"}

    monkeypatch.setattr(ClassificationTask, "collate", without)
    report = table.report()
    assert {finding.code for finding in report.findings} == {"attention-mask"}
    assert report.errors == 1


def test_pairs_for_a_family_without_segments(table, no_trial, tmp_path, stock_models):
    folder = stock_models.stock_checkpoint(tmp_path / "roberta", "roberta", "AutoModel", vocab_size=1000)
    AutoTokenizer.from_pretrained(table.model).save_pretrained(folder)
    table.model = str(folder)
    for row in table.train + table.validation:
        row["text2"] = sentence(RNG, 4)
    table.overrides["task.text_columns"] = ["text", "text2"]
    assert table.codes() == {"checkpoint-family"}


def test_packages_that_are_missing(table, no_trial, monkeypatch):
    from bertkit.features.checks.findings import extra

    extra.cache_clear()
    for module in ("datasketch", "ftfy.badness"):
        monkeypatch.setitem(sys.modules, module, None)
    try:
        report = table.report()
        assert {finding.code for finding in report.findings} == {"extra"}
        assert [finding.message.split()[-4] for finding in report.findings] == ["datasketch", "ftfy"]
    finally:
        extra.cache_clear()


def test_a_push_without_login(table, no_trial, monkeypatch):
    from bertkit.runtime.errors import HubError

    def refuse(repo_id: str) -> None:
        raise HubError("not logged in")

    monkeypatch.setattr("bertkit.features.sharing.push.check_login", refuse)
    table.arguments["push_to_hub"] = "me/model"
    assert table.codes() == {"hub"}


def test_a_full_cache(corpus, no_trial, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.plan.free_space", lambda folder: 10)
    assert corpus.codes() == {"disk", "store"}


def test_every_code_has_a_plant():
    planted = set.union(*(expected for _, _, expected in PLANTS.values()))
    elsewhere = {"attention-mask", "checkpoint-family", "disk", "memory", "store", "extra", "hub"}
    assert planted | elsewhere | {"label-noise", "sample"} == all_codes()
