"""``--fix``: what is removed and unified, the labels in doubt, and that the result checks clean."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

import bertkit
from bertkit.data.tables import Table, read_table
from bertkit.features.checks.fix import clean
from bertkit.features.checks.label_rules import near_labels
from bertkit.runtime.errors import DataError, OutputError, RecipeError

from .conftest import sentence, write_csv, write_json_lines


def check(table, path, changes=None, **given):
    settings = {"data.train_file": str(path), "data.validation_file": None, **(changes or {})}
    return bertkit.check(table.recipe, model=table.model, overrides={**table.overrides, **settings}, **given)


@pytest.mark.parametrize(
    ("counts", "near"),
    [
        ({"billing": 97, "biling": 2, "complaint": 40, "complain": 1}, {"biling": "billing", "complain": "complaint"}),
        ({"sales": 50, "Sales": 20, "sales ": 1}, {"Sales": "sales", "sales ": "sales"}),
        ({"billing": 97, "Biling": 2, "biling": 2}, {"Biling": "billing", "biling": "billing"}),
        ({"billing": 97, "Billing": 18, "Biling": 2}, {"Billing": "billing", "Biling": "billing"}),
        (
            {"Billing": 97, "billing": 18, "Biling": 2, "biling": 2},
            dict.fromkeys(("billing", "Biling", "biling"), "Billing"),
        ),
        # What is meant by a misspelt label is an abbreviation.
        (
            {"accounting department": 97, "accounting": 15, "acounting": 2, "Acounting": 2},
            dict.fromkeys(("accounting", "acounting", "Acounting"), "accounting department"),
        ),
        ({"positive": 80, "Positive": 20, "pos": 12}, {"Positive": "positive", "pos": "positive"}),
        # Other classes: negations, numbers, short names, and names that are not rare.
        ({"legal": 60, "illegal": 3, "entailment": 50, "not_entailment": 2}, {}),
        ({"grade 10": 60, "grade 11": 3}, {}),
        ({"cat": 60, "cats": 3, "pos": 9}, {}),
        ({"billing": 97, "biling": 15}, {}),
        # Abbreviations, which may be more frequent; not the beginning of several names, or most of one.
        ({"positive": 80, "pos": 14, "Neg.": 2, "negative": 90}, {"pos": "positive", "Neg.": "negative"}),
        ({"account closed": 90, "account opened": 80, "account": 5}, {}),
        ({"cargo": 90, "car": 5, "grade1": 90, "gr1": 2}, {}),
    ],
)
def test_misspelt_labels_are_rare_and_similar(counts, near):
    assert {name: other for name, (other, _) in near_labels(counts).items()} == near


def test_rows_of_pairs_and_of_several_labels_are_cleaned():
    pairs = {"a": ["x", "x", "x z", "", "x  z"], "b": ["y", "y ", "z", "y", "z"], "label": ["0", "0", "1", "1", "1"]}
    cleaned = clean(Table(pairs, "x.csv", ""), ["a", "b"], "label")
    assert (cleaned.rows, cleaned.removed) == ([0, 2, 4], {"without a text": 1, "repeated": 1})  # as the rule says
    labels = [*["plot, cast"] * 12, "Plot,cast", "", "cast,plot", "plot", "", "plat, cast"]
    texts = [*map(str, range(14)), "0", "1", "2", "x"]
    cleaned = clean(Table({"text": texts, "label": labels}, "x.csv", ""), ["text"], "label", ",")
    assert cleaned.rows == [*range(14), 17]  # a row without any label stays
    assert cleaned.labels == {12: "plot,cast"}
    doubts = [(doubt.line, doubt.label, doubt.suggestion) for doubt in cleaned.doubts]
    assert doubts == [(16, "plot", "cast,plot"), (17, "", "cast,plot")]


def test_of_several_processes_one_writes(table, tmp_path, no_trial, monkeypatch):
    table.write()
    path, out = tmp_path / "train.csv", tmp_path / "out.csv"
    check(table, path, fix=out)
    monkeypatch.setattr("bertkit.features.checks.check.is_main_process", lambda: False)
    check(table, path, fix=out)  # which is there by then
    assert check(table, path, fix=tmp_path / "other.csv").errors == 0
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task.problem": "regression", "task.label_column": "score"}, "is for classes"),
        ({"task.label_column": "size"}, "is for classes"),
        ({"task.problem": "multi_label", "task.label_column": "tags"}, "'tags' of .* has lists, which CSV has not"),
    ],
)
def test_what_a_csv_file_cannot_have_is_refused(table, tmp_path, no_trial, changes, message):
    rows = [{"text": f"a {row}" * (row > 0), "score": 1.5 + row % 2, "size": row, "tags": []} for row in range(30)]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    with pytest.raises(RecipeError, match=message):
        check(table, path, changes, fix=tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    [found] = check(table, path, changes).findings
    assert (found.code, "--fix" in found.remedy) == ("data", False)


def test_lists_of_one_label_are_written_as_the_label(table, tmp_path, no_trial):
    rows = [{"text": f"text {row}", "accept": ["ab"[row % 2]], "answer": "accept"} for row in range(20)]
    rows += [
        {"text": "no label", "accept": [], "answer": "accept"},
        {"text": "no", "accept": ["a"], "answer": "reject"},
    ]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    changes = {"task.problem": "single_label", "task.label_column": "accept"}
    check(table, path, changes, fix=tmp_path / "out.csv")
    assert read_table(tmp_path / "out.csv").columns["accept"] == list("ab" * 10)


def test_values_of_json_lines_are_written(table, tmp_path, no_trial):
    """Numbers as labels of several to a row, and objects, which are JSON."""
    rows = [{"text": f"text {row}", "label": row % 2, "meta": {"a": [row]}} for row in range(20)]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    check(table, path, {"task.label_separator": ";"}, fix=tmp_path / "out.csv")
    columns = read_table(tmp_path / "out.csv").columns
    assert columns["label"] == list("01" * 10)
    assert [json.loads(cell) for cell in columns["meta"]] == [row["meta"] for row in rows]


@pytest.fixture
def dirty(table, tmp_path):
    """A table with every fault that can be mended."""
    rng = random.Random(4)
    rows = [{"text": sentence(rng), "label": ("billing", "sales")[number % 2]} for number in range(120)]
    rows[3]["label"], rows[4]["label"] = "Sales ", "biling"
    rows += [{"text": " ", "label": "sales"}, {"text": sentence(rng), "label": ""}, rows[7]]
    rows.append({"text": rows[8]["text"], "label": "sales"})
    return write_csv(tmp_path / "dirty.csv", rows)


def test_the_fixed_table_checks_clean(table, dirty, tmp_path, no_trial, capsys):
    before = Path(dirty).read_bytes() + b"one field\n"
    Path(dirty).write_bytes(before)
    report = check(table, dirty, fix=tmp_path / "out.csv")
    said = "".join(finding.message for finding in report.findings)
    for fault in ("line 126: 1 field", "line 122: text is empty", "line 123: no value for 'label'"):
        assert fault in said
    assert Path(dirty).read_bytes() == before
    assert any("go on with" in finding.remedy for finding in report.findings)
    assert any("--fix OUT.csv" in finding.remedy for finding in check(table, dirty).findings)
    said = capsys.readouterr().err
    assert "120 of 125 rows; removed: 1 without a text, 1 without a label, 2 repeated, 1 with a wrong number" in said
    assert "label 'biling' is 'billing' in 1 row" in said
    assert set(read_table(tmp_path / "out.csv").columns["label"]) == {"billing", "sales"}
    with open(tmp_path / "out.suspects.csv", newline="") as stream:
        suspects = list(csv.DictReader(stream))
    assert [(row["label"], row["suggestion"]) for row in suspects] == [("sales", "billing"), ("biling", "billing")]
    codes = {finding.code for finding in check(table, tmp_path / "out.csv").findings}
    of_rows = {"data", "duplicates", "empty-text"}
    assert not codes & {*of_rows, "label-typo", "label-spelling", "label-conflict", "rare-class"}
    with pytest.raises(OutputError, match="exists"):
        check(table, dirty, fix=tmp_path / "out.csv")


@pytest.mark.parametrize("number", [1, 4])
def test_few_labels_unlike_the_others_are_left_out(table, tmp_path, no_trial, number, capsys):
    rows = [{"text": f"text {row}", "label": str(row % 2)} for row in range(20)]
    odd = [{"text": f"odd {row}", "label": "k. A."} for row in range(number)]
    path = write_csv(tmp_path / "mixed.csv", [*rows, *odd, {"text": "", "label": "1"}])
    remedies = {finding.message.partition(": ")[2]: finding.remedy for finding in check(table, path).findings}
    of_empty, of_words = (next(remedies[key] for key in remedies if part in key) for part in ("is empty", "'k. A.'"))
    assert "--fix OUT.csv" in of_empty
    assert ("--fix OUT.csv" in of_words) == (number == 1)
    check(table, path, fix=tmp_path / "out.csv")
    assert len(read_table(tmp_path / "out.csv")) == (20 if number == 1 else 24)
    left = ("1 with a label unlike the others, " if number == 1 else "") + "1 without a text"
    assert f"removed: {left}\n" in capsys.readouterr().err
    suspects = read_table(tmp_path / "out.suspects.csv").columns if number == 1 else {"line": []}
    assert suspects["line"] == (["22"] if number == 1 else [])
    of_both = check(table, path, {"data.validation_file": str(path)}).findings
    assert any(f"line {22 + number}: text is empty" in finding.message for finding in of_both)


def test_the_message_of_a_file_that_cannot_be_fixed_is_its_own(table, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": ')
    with pytest.raises(DataError, match=r"rows.jsonl, line 1: not valid JSON"):
        check(table, tmp_path / "rows.jsonl", fix=tmp_path / "out.csv")


def test_faults_of_rows_hide_nothing_of_the_other_rows(table, no_trial):
    """A row without a text would stop the run; the misspelt label of another one is reported nevertheless."""
    for row in (*table.train, *table.validation):
        row["label"] = {"yes": "positive", "no": "negative"}[row["label"]]
    table.train[3]["label"], table.train[5]["text"] = "positve", ""
    findings = {each.code: each.message for each in table.report().findings}
    assert "line 7: text is empty" in findings["data"]
    assert "'positve' (1 time): did you mean 'positive'" in findings["label-typo"]


@pytest.mark.parametrize("name", ["out.xlsx", "out", "/"])
def test_other_files_are_refused(table, dirty, tmp_path, name):
    with pytest.raises(RecipeError, match=r"ends in \.csv"):
        check(table, dirty, fix=tmp_path / name)


def test_a_data_set_without_a_file_is_refused(table, tmp_path):
    changes = {"data.train_file": None, "data.dataset_name": "ada/films"}
    with pytest.raises(RecipeError, match="this is classification, without such a file"):
        bertkit.check(table.recipe, model=table.model, overrides=table.overrides | changes, fix=tmp_path / "out.csv")
