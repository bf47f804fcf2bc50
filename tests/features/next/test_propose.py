"""`bertkit next` from a run to the grown table, and back."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
from pathlib import Path

import openpyxl
import pytest
from datasets import ClassLabel, Dataset, Features, Value

import bertkit as package
from bertkit.data.tables import read_table
from bertkit.data.tables.annotated import TYPICAL
from bertkit.features.next.answers import Answers
from bertkit.features.next.propose import training_command
from bertkit.features.next.writing import write_rows
from bertkit.runtime.errors import DataError, OutputError, RecipeError
from bertkit.tasks.classification.task import DataSettings


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def filled(path: Path, labels: list[str], target: Path) -> Path:
    """Writes a proposal with labels in its first rows."""
    rows = rows_of(path)
    for row, label in zip(rows, labels, strict=False):
        row["label"] = label
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return target


@pytest.fixture
def proposed(bertkit, scored, unlabelled, tmp_path):
    """The output of the command, and its file."""
    path = tmp_path / "to_label.csv"
    done = bertkit("next", scored, "--input", unlabelled, "--rows", 6, "--output", path)
    assert done.code == 0, done.err
    return done, path


def test_rows_to_label_are_above_the_labelled_ones(proposed, labelled, unlabelled):
    done, path = proposed
    rows = rows_of(path)
    assert list(rows[0]) == ["id", "text", "label", "guess", "probability", "reason"]
    new, old = rows[:6], rows[6:]
    given = {row["id"]: row["text"] for row in rows_of(unlabelled)}
    assert all(row["text"] == given[row["id"]] for row in new)
    assert len({row["id"] for row in new}) == 6
    assert [(row["text"], row["label"]) for row in old] == [(row["text"], row["label"]) for row in rows_of(labelled)]
    assert all(row["label"] == "" and row["guess"] in ("bad", "fair", "good") and row["reason"] for row in new)
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in new)
    assert all(not row["guess"] and not row["id"] for row in old)
    assert "left out 1 row with the text of a labelled row" in done.err
    assert "left out 1 row with the text of an earlier row" in done.err


def test_the_curve_and_the_next_command_are_printed(proposed):
    done, path = proposed
    curve, file, _, command = done.out.splitlines()
    assert curve.startswith("accuracy on rows like these: ")
    assert "with 36 labelled rows; with 6 more rows " in curve
    assert file == f"6 rows to label, above the 36 labelled ones: {path}"
    assert command.startswith(f"bertkit finetune classification --train-file {path} --model ")


def test_the_filled_file_is_the_next_training_set(bertkit, proposed, trained, unlabelled, tmp_path, capfd):
    _, path = proposed
    grown = filled(path, ["good", "bad", "fiar", "", "good", ""], tmp_path / "grown.csv")
    run = trained(grown)
    said = capfd.readouterr().err
    assert "grown.csv: left out 2 of 6 proposed rows, whose label is empty" in said
    assert "'fiar' is the label of 1 proposed row and of no row that was labelled before; did you mean 'fair'?" in said
    assert len((run / "out_of_fold.jsonl").read_text().splitlines()) == 40
    after = tmp_path / "after.csv"
    done = bertkit("next", run, "--input", unlabelled, "--rows", 50, "--output", after)
    assert done.code == 0, done.err
    assert "50 rows were asked for, and 36 are there: all are proposed" in done.err
    assert done.err.count("left out 2 of 6 proposed rows") == done.err.count("'fiar' is the label of") == 1
    rows = rows_of(after)
    assert list(rows[0]) == ["id", "text", "label", "guess", "probability", "reason"]
    assert len(rows) == 36 + 40
    answered = {row["text"].strip(): row["label"] for row in rows_of(grown)[:6] if row["label"]}
    assert {row["text"].strip(): row["label"] for row in rows[36:40]} == answered
    assert not any(row["guess"] for row in rows[36:])  # those labelled now are no proposal any more


def test_a_workbook_has_a_list_of_the_classes(bertkit, scored, unlabelled, tmp_path):
    path = tmp_path / "to_label.xlsx"
    done = bertkit("next", scored, "--input", unlabelled, "--rows", 4, "--output", path)
    assert done.code == 0, done.err
    book = openpyxl.load_workbook(path)
    sheet = book["rows"]
    [rule] = sheet.data_validations.dataValidation
    place = [cell.value for cell in sheet[1]].index("label")
    letter = sheet.cell(1, place + 1).column_letter
    assert str(rule.sqref).startswith(f"{letter}2:{letter}")
    name, _, cells = rule.formula1.partition("!")
    first, _, last = cells.replace("$", "").partition(":")
    assert [cell.value for [cell] in book[name][first:last]] == ["bad", "fair", "good"]
    assert book[name].sheet_state == "hidden"
    table = read_table(path)  # the hidden sheet is no second table
    assert len(table) == 4 + 36
    assert table.columns["label"][:4] == [""] * 4


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_half_of_a_surrogate_pair_is_not_written(fine_tuned, tmp_path, ending):
    rows, path = [{"text": "a lovely plot", "author": "\ud83d"}], tmp_path / f"to_label{ending}"
    with pytest.raises(OutputError, match=r"unpaired surrogate, \\ud83d, which is not a character"):
        package.propose_rows(fine_tuned("film"), rows, rows=1, output=path)
    assert not list(tmp_path.iterdir())


def test_texts_of_a_workbook_are_no_formulas(scored, tmp_path):
    path = tmp_path / "to_label.xlsx"
    package.propose_rows(scored, ["=1+1 is a film", "+a plot"], rows=2, output=path)
    assert set(read_table(path).columns["text"][:2]) == {"=1+1 is a film", "+a plot"}


def test_bytes_are_as_in_other_forms_and_a_sheet_has_its_limit(tmp_path):
    row = {"text": "a film", "picture": b"\x89P", "label": None, "guess": "good", "probability": 0.5, "reason": TYPICAL}
    for ending in (".xlsx", ".csv", ".jsonl"):
        write_rows(tmp_path / f"o{ending}", [row], "label", ["text"], ["good"])
        assert read_table(tmp_path / f"o{ending}").columns["picture"] == ["iVA="]
    with pytest.raises(OutputError, match=r"a sheet cannot hold 1,048,576 rows and their names; give --output"):
        write_rows(tmp_path / "many.xlsx", [row] * 1_048_576, "label", ["text"], ["good"])
    with pytest.raises(OutputError, match=r"a class is .*, with a character that a workbook cannot have; give --out"):
        write_rows(tmp_path / "sign.xlsx", [row], "label", ["text"], ["good", "b\x0bd"])
    assert not (tmp_path / "sign.xlsx").exists()


def test_other_forms_come_back_too(scored, trained, unlabelled, tmp_path):
    for ending in (".jsonl", ".json", ".parquet"):
        path = tmp_path / f"to_label{ending}"
        package.propose_rows(scored, unlabelled, rows=3, output=path)
        table = read_table(path)
        assert table.columns["label"][:3] == [None] * 3
        assert len(table) == 3 + 36
    assert len((trained(path) / "out_of_fold.jsonl").read_text().splitlines()) == 36


def test_objects_and_lines_are_read(scored, tmp_path):
    texts = ["a lovely plot", "", "the awful story"]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(texts))
    for given in (lines, [{"text": text} for text in texts if text], [text for text in texts if text]):
        proposal = package.propose_rows(scored, given, rows=2)
        assert {row["text"] for row in proposal.rows} == {"a lovely plot", "the awful story"}
        assert proposal.output is None
        assert proposal.command == ""
    assert "guess" in proposal._repr_html_()


def test_a_fault_names_the_line_behind_empty_ones(trained, tmp_path):
    pairs = "".join(f"a {label} film {place},the plot,{label}\n" for place in range(8) for label in ("good", "bad"))
    (tmp_path / "pairs.csv").write_text(f"text,text_b,label\n{pairs}")
    (tmp_path / "lines.txt").write_text("a film\tthe plot\n\n\nno pair\n")
    run = trained(tmp_path / "pairs.csv", data__folds=0, train__pair_steps=0)
    with pytest.raises(DataError, match="input 4: expected two texts"):
        package.propose_rows(run, tmp_path / "lines.txt")


def test_rows_with_labels_are_left_out_and_columns_named_like_ours_are_kept(scored, capfd):
    own = {"guess": "x", "input_guess": "y", "probability": "1", "reason": "asked for"}
    given = [{"text": "a lovely plot", "label": "", **own}, {"text": "an awful film", "label": "bad", **own}]
    [row] = package.propose_rows(scored, given, rows=1).rows
    kept = {"input_input_guess": "x", "input_guess": "y", "input_probability": "1", "input_reason": "asked for"}
    assert row.items() >= kept.items()
    assert list(row)[-4:] == ["label", "guess", "probability", "reason"]
    assert "left out 1 row with a label" in capfd.readouterr().err


def test_the_id_of_a_missing_label_is_no_label(scored):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "fair", "good"])})
    given = {"text": ["a lovely plot", "an awful film", "the story"], "label": [-1, 0, None]}
    proposal = package.propose_rows(scored, Dataset.from_dict(given, features=features), rows=2)
    assert {row["text"]: row["label"] for row in proposal.rows} == {"a lovely plot": None, "the story": None}


def test_another_column_can_be_read(bertkit, scored, tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text("Body\na lovely plot\n")
    bertkit("next", scored, "--input", path, "--output", tmp_path / "o.csv").refuses("--text-column")
    path.write_text("Body,text\na lovely plot,of a mail\n")  # another column has the name of that of the training
    done = bertkit("next", scored, "--input", path, "--output", tmp_path / "o.csv", "--text-column", "body")
    assert done.code == 0, done.err
    row = rows_of(tmp_path / "o.csv")[0]
    assert (row["text"], row["input_text"]) == ("a lovely plot", "of a mail")


def test_json_has_the_rows_and_the_curve(bertkit, scored, unlabelled, tmp_path):
    done = bertkit("next", scored, "--input", unlabelled, "--rows", 3, "--output", tmp_path / "o.csv", "--json")
    record = json.loads(done.out)
    assert len(record["rows"]) == 3
    now, *later = record["curve"]["points"]
    assert [each["rows"] for each in (now, *later)] == [36, 39, 42, 48]
    assert all(0 <= each["low"] <= each["accuracy"] <= each["high"] <= 1 for each in (now, *later))


def test_without_folds_rows_are_proposed_and_the_curve_says_why_it_is_missing(
    bertkit, trained, labelled, unlabelled, tmp_path
):
    run = trained(labelled, data__folds=0)
    done = bertkit("next", run, "--input", unlabelled, "--rows", 3, "--output", tmp_path / "o.csv")
    assert done.code == 0, done.err
    assert "no learning curve: " in done.out
    assert "has no out-of-fold predictions; " in done.out
    assert len(rows_of(tmp_path / "o.csv")) == 3 + 36


def test_with_changed_data_the_curve_says_so(trained, labelled, unlabelled, tmp_path):
    grown = tmp_path / "labelled.csv"
    grown.write_bytes(labelled.read_bytes())
    run = trained(grown)
    with grown.open("a", newline="") as file:
        file.write("a bad story,bad\r\n")
    proposal = package.propose_rows(run, unlabelled, rows=3)
    assert proposal.curve is None
    assert "labelled.csv" in proposal.no_curve
    assert proposal.labelled == 37


def test_a_table_that_has_lost_its_labels_since_is_named(trained, labelled, unlabelled, tmp_path):
    table = tmp_path / "labelled.csv"
    table.write_bytes(labelled.read_bytes())
    run = trained(table, data__folds=0)
    table.write_text(table.read_text().replace("text,label", "text,kind"))
    with pytest.raises(DataError, match=r"labelled\.csv: no column 'label'"):
        package.propose_rows(run, unlabelled, rows=3)


class SlowPipe(io.BytesIO):
    """Bytes that arrive line by line."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.readline()


def test_lines_are_read_from_a_pipe(bertkit, scored, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(SlowPipe(b"a lovely plot\n\nthe story\n")))
    done = bertkit("next", scored, "--input", "-", "--output", tmp_path / "o.csv")
    assert done.code == 0, done.err
    assert {row["text"] for row in rows_of(tmp_path / "o.csv")[:2]} == {"a lovely plot", "the story"}


def test_one_row_is_proposed_as_one(bertkit, scored, tmp_path):
    (tmp_path / "one.txt").write_text("a lovely plot\n")
    done = bertkit("next", scored, "--input", tmp_path / "one.txt", "--output", tmp_path / "o.csv")
    assert "50 rows were asked for, and 1 is there: it is proposed" in done.err
    assert "with 1 more row 0" in done.out
    assert done.out.splitlines()[1].startswith("1 row to label, above the 36 labelled ones: ")


def test_what_is_refused(bertkit, scored, fine_tuned, unlabelled, labelled, tmp_path):
    (tmp_path / "none.csv").write_text("text\n")
    (tmp_path / "page.html").write_text("<p>a film\n<p>a plot\n")
    for run, given, output, message in (
        (scored, unlabelled, "o.doc", "expected a name that ends in .csv, "),
        (scored, unlabelled, "nowhere/o.csv", "the folder"),
        (scored, labelled, "o.csv", "no unlabelled row is left; give others"),
        (scored, tmp_path / "nothing.csv", "o.csv", "nothing.csv"),
        (scored, tmp_path / "none.csv", "o.csv", "none.csv: contains no texts"),
        (scored, tmp_path, "o.csv", "is a folder; give a table, or a file with a text per line"),
        (scored, tmp_path / "page.html", "o.csv", "is one text; give a table, or a file with a text per line"),
        (scored, "https://example.org/u.csv", "o.csv", "u.csv: is a URL; download the file, and give its path"),
        (fine_tuned("topics"), unlabelled, "o.csv", "next is for runs of finetune classification with one class"),
        (fine_tuned("entities"), unlabelled, "o.csv", "next is for runs of finetune classification with one class"),
    ):
        done = bertkit("next", run, "--input", given, "--output", tmp_path / output)
        done.refuses(message, without=tmp_path / output)
    with pytest.raises(RecipeError, match=r"--text-column: expected 1, as in training \('text'\), got 2"):
        package.propose_rows(scored, unlabelled, text_columns=["text", "id"])
    with pytest.raises(RecipeError, match="rows 0"):
        package.propose_rows(scored, unlabelled, rows=0)
    for name, message in (("there.csv", "already exists"), ("new.csv.partial", "results of an interrupted run")):
        (tmp_path / name).write_text("text")
        with pytest.raises(OutputError, match=message):
            package.propose_rows(scored, unlabelled, output=tmp_path / name.removesuffix(".partial"))


def test_a_checkpoint_without_its_data_proposes_rows_alone(fine_tuned, unlabelled, tmp_path):
    proposal = package.propose_rows(fine_tuned("film"), unlabelled, rows=3, output=tmp_path / "o.csv")
    assert len(rows_of(tmp_path / "o.csv")) == 3
    assert proposal.labelled is None
    assert proposal.curve is None
    assert proposal.lines()[-1] == f"label them, in the file or with {proposal.page}"


def test_a_run_from_the_hub_says_that_the_curve_needs_its_data(scored, unlabelled, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(scored, run)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(re.sub("train_file: .*/", "train_file: …/", recipe))
    proposal = package.propose_rows(run, unlabelled, rows=3)
    assert (len(proposal.rows), proposal.labelled, proposal.curve) == (3, None, None)
    assert "its recipe.yaml names no folders" in proposal.no_curve


def test_a_checkpoint_of_a_run_gives_the_command_of_the_run(scored, labelled, unlabelled, tmp_path):
    place = tmp_path / "run" / "checkpoint-4"
    shutil.copytree(scored, place, ignore=shutil.ignore_patterns("recipe.yaml", "run.json"))
    shutil.copy(scored / "recipe.yaml", place.parent)
    proposal = package.propose_rows(place, unlabelled, rows=3, output=tmp_path / "o.csv")
    assert proposal.labelled == 36
    assert "contains no recipe.yaml" in proposal.no_curve
    assert " --model " in proposal.command


def test_a_run_that_started_from_new_weights_has_no_curve(scored, unlabelled, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(scored, run)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(re.sub("name_or_path: .*", "name_or_path: null", recipe))
    proposal = package.propose_rows(run, unlabelled, rows=3)
    assert (len(proposal.rows), proposal.curve) == (3, None)
    assert "started from new weights" in proposal.no_curve


def test_the_command_keeps_length_and_groups():
    data = DataSettings(train_file="old.csv", max_seq_length=128, folds=4, group_column="author")
    command = training_command(Path("new.csv"), ["text"], "label", None, data)
    assert command == (
        "bertkit finetune classification --train-file new.csv --folds 4 --set data.group_column=author "
        "--max-seq-length 128 --output-dir OUT"
    )


def test_the_command_says_that_decimals_are_classes(trained, unlabelled, tmp_path):
    rows = "".join(f"{words} {place},{label}\n" for place in range(8) for label, words in ((0.5, "good"), (1.5, "bad")))
    path = tmp_path / "decimals.csv"
    path.write_text(f"text,label\n{rows}")
    run = trained(path, task__problem="single_label", data__folds=0)
    assert "--problem single_label" in package.propose_rows(run, unlabelled, output=tmp_path / "o.csv").command


def test_the_guess_is_what_the_run_predicts_with_its_threshold(trained, unlabelled, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("text,label\n" + "".join(f"lovely {place},good\nawful {place},bad\n" for place in range(8)))
    for threshold, always in ((0.0001, "good"), (0.9999, "bad")):  # from which the second class is predicted
        run = trained(path, task__threshold=threshold, data__folds=0)
        proposal = package.propose_rows(run, unlabelled, rows=5)
        assert {row["guess"] for row in proposal.rows} == {always}
        predicted = package.load(run).predict([row["text"] for row in proposal.rows])
        for row, expected in zip(proposal.rows, predicted, strict=True):
            assert row["probability"] == pytest.approx(expected["probability"], abs=1e-3)


def test_the_proposed_page_finds_texts_of_an_unusual_name(trained, labelled, tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text(labelled.read_text().replace("text,label", "mail,label"))
    rows = [{"mail": text, "author": "me"} for text in ("a lovely plot", "the awful story")]
    proposal = package.propose_rows(trained(path, data__folds=0), rows, output=tmp_path / "o.csv")
    *_, file, option, column = shlex.split(proposal.page)
    assert (option, Answers(file, texts=[column]).texts) == ("--text-column", ["mail"])
    assert proposal.page in proposal.lines()[-2]


def test_a_proposal_without_a_label_is_no_training_set(fine_tuned, trained, unlabelled, tmp_path):
    path = tmp_path / "o.csv"
    package.propose_rows(fine_tuned("film"), unlabelled, rows=3, output=path)
    with pytest.raises(DataError, match="no row has a label yet; write the class of each text into the column 'label'"):
        trained(path)
