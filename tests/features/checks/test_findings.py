"""Levels, places and counts of findings, and remedies: none that the run refuses or already has."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from bertkit import check
from bertkit.features.checks.check import finding_of
from bertkit.features.checks.duplicate_rules import near_duplicates, near_split_overlap
from bertkit.features.checks.subject import Subject, Texts
from bertkit.runtime.errors import BertkitError

from .conftest import Case, sentence, write_csv, write_json_lines
from .plants import bad_label, misspelt, repeat, with_a_head, with_other_outputs, without_pooler


@pytest.mark.parametrize("kind", BertkitError.__subclasses__())
def test_every_error_of_a_run_is_a_finding(kind):
    """Also that of another process of a check with a launcher."""
    assert finding_of(kind("why")).message == "why"


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
    """With 32 rows a run chooses many epochs, which are few steps: no more epochs are proposed."""
    table.train = table.train[:32]
    for key in ("train.learning_rate", "train.num_train_epochs"):
        del table.overrides[key]
    table.overrides["train.global_train_batch_size"] = 32
    findings = {finding.code: finding for finding in table.report().findings}
    assert not {"epochs", "learning-rate"} & set(findings)
    assert findings["few-steps"].message.startswith("50 optimizer steps")
    assert "--num-train-epochs" not in findings["few-steps"].remedy


def test_a_misspelt_tag_has_no_setting_as_remedy(ner, no_trial):
    for words in (*ner.train, *ner.validation):
        words[4:6] = [(word, tag.replace("LOC", "PLACE")) for word, tag in words[4:6]]
    ner.train[1][4:6] = [(word, tag.replace("PLACE", "PLAACE")) for word, tag in ner.train[1][4:6]]
    assert {each.remedy for each in ner.report().findings if each.code == "label-typo"} == {"correct these labels"}


def remedy_of(case: Case, code: str) -> str:
    """The remedy of the only finding of a code."""
    [finding] = [each for each in case.report().findings if each.code == code]
    return finding.remedy


@pytest.mark.parametrize(
    ("size", "is_set", "proposed", "other"),
    [
        (1, False, "gradient_checkpointing", "per_device_train_batch_size"),
        (9, True, "per_device_train_batch_size=3 ", "gradient_checkpointing"),
    ],
)
def test_memory_is_saved_by_what_is_not_set(table, no_trial, monkeypatch, size, is_set, proposed, other):
    monkeypatch.setattr("bertkit.features.checks.plan._find_available_memory", lambda _: 10)
    table.overrides |= {"train.global_train_batch_size": size, "train.max_steps": 200}
    table.overrides["placement.gradient_checkpointing"] = is_set
    remedy = remedy_of(table, "memory")
    assert proposed in remedy
    assert other not in remedy


@pytest.mark.parametrize(
    ("steps", "code", "remedy"),
    [(9000, "epochs", "set --max-steps 300"), (20, "few-steps", "set more --max-steps")],
)
def test_a_run_of_steps_gets_other_steps(table, no_trial, steps, code, remedy):
    table.overrides["train.max_steps"] = steps
    assert remedy_of(table, code).partition(",")[0] == remedy


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"save_total_limit": 5}, "set train.save_total_limit=2 or train.save_strategy=no with train.load_best_"),
        (
            {"save_total_limit": 2},
            "set train.save_strategy=no with train.load_best_model_at_end=false, or give another",
        ),
        ({"save_total_limit": 2, "load_best_model_at_end": False}, "set train.save_strategy=no, or give another"),
        ({"save_strategy": "no", "load_best_model_at_end": False}, "give another"),
    ],
)
def test_a_full_disk_gets_fewer_checkpoints_than_are_set(table, no_trial, monkeypatch, changes, remedy):
    monkeypatch.setattr("bertkit.features.checks.plan.free_space", lambda _: 10)
    settings = {"num_train_epochs": 9, "load_best_model_at_end": True, **changes}
    table.overrides |= {f"train.{key}": value for key, value in settings.items()}
    assert remedy_of(table, "disk").startswith(remedy)


def test_choices_get_no_class_weights(table, no_trial, tmp_path):
    rows = [{"context": f"row {row}", "endings": ["a", "b"], "label": int(row < 15)} for row in range(400)]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    given = {"train_file": path, "validation_file": path}
    findings = check("finetune/multiple-choice", model=table.model, max_seq_length=16, **given).findings
    [remedy] = [each.remedy for each in findings if each.code == "imbalance"]
    assert "class_weights" not in remedy


def test_faults_of_several_parts_are_reported_together(table, no_trial):
    with_other_outputs(table)
    bad_label(table)
    table.model = str(table.folder)
    assert table.codes() == {"output-dir", "checkpoint", "data"}


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


def test_a_pooler_that_a_probe_sets_is_not_said_to_be_random(table, no_trial):
    without_pooler(table)
    table.overrides["train.head"] = "probe"
    assert not table.report().findings


def test_a_probe_replaces_the_head_of_the_checkpoint(table, no_trial):
    with_a_head(table)
    table.overrides["train.head"] = "probe"
    [finding] = table.report().findings
    assert finding.code == "new-head"
    assert finding.message.endswith("so the head starts from a linear probe")
    assert finding.remedy.startswith("use --head random and the label names of the checkpoint to keep its head")


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


def test_answers_that_no_window_has_are_not_said_to_be_learned_from_a_validation_set(questions, no_trial):
    for rows, number in ((questions.train, 5), (questions.validation, 1)):
        for row in rows[:number]:
            row["context"] = sentence(random.Random(number), 80)
            row["answers"] = {"text": [row["context"]], "answer_start": [0]}
    found = {each.where: each.message for each in questions.report().findings if each.code == "lost-labels"}
    assert found["train"] == "5 of 400 labelled answers are in no input as a whole, and not learned"
    assert found["validation"] == "1 of 40 labelled answers is in no input as a whole, and cannot be predicted"


def test_near_duplicates_have_a_partner_in_each_split():
    """Neither an equal text in another split nor a partner in the training set hides one."""
    pytest.importorskip("datasketch", reason="the extra checks is not installed")
    text = sentence(random.Random(1))
    rows = {
        "train": [text],
        "validation": [f"{text} .", f"{text} ,", "other"],
        "test": [f"{text} .", f"{text} .", text],
    }
    subject = Subject(recipe=None, splits={name: SimpleNamespace(examples=texts) for name, texts in rows.items()})
    subject.texts = [Texts(name, {"text": texts}, f"{name} {{}}".format) for name, texts in rows.items()]
    within = {each.where: each.message for each in near_duplicates(subject)}
    assert within.keys() == {"validation 1", "test 2"}
    for place, message in within.items():
        split = place.split()[0]
        assert message.startswith(f"1 of 3 examples (33.3 %) of {split} has nearly the same text as an earlier")
        assert message.endswith(f"is like {split} 0")
    between = {each.where: each.message.partition(" example")[0] for each in near_split_overlap(subject)}
    assert between == {"validation 0": "2 of 3", "test 0": "2 of 3"}  # that of an equal text is another finding


@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
def test_random_next_sentences_are_named_where_there_are_some(corpus, no_trial, objective):
    corpus.train.extend(corpus.train[:10])
    corpus.overrides["task.pair_objective"] = objective
    [remedy] = [each.remedy for each in corpus.report().findings if each.code == "repeated-documents"]
    assert "`bertkit corpus build --deduplicate exact`" in remedy
    assert ("random next sentence" in remedy) == (objective == "nsp")


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
    from bertkit.features.checks.subject import Checked, checked
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
