"""Folds: sizes, classes, groups, the splits that a run gets, and what cannot be divided."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from bertkit.runtime.errors import BertkitError
from bertkit.tasks.folds import fold_of_each, groups, load_splits
from bertkit.tasks.registry import load_recipe, task_of_recipe


@pytest.fixture
def table(tmp_path):
    """Thirty texts by six authors, ten of them bad."""
    rows = [
        {"text": f"text {number}", "label": "bad" if number % 3 == 0 else "good", "author": f"author {number % 6}"}
        | {"note": "new" if number != 1 else " "}
        for number in range(30)
    ]
    path = tmp_path / "table.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def task(table, kind="classification", **data):
    overrides = {"data.train_file": str(table), **{f"data.{key}": value for key, value in data.items()}}
    return task_of_recipe(load_recipe(f"finetune/{kind}", overrides))


def test_folds_divide_the_training_set_by_class(table, tmp_path):
    seen = []
    for fold in range(5):
        found, splits = load_splits(task(table, folds=5, fold=fold, validation_file=str(tmp_path / "is not read.csv")))
        texts = {name: split.examples["text"][:] for name, split in splits.items()}
        assert list(splits) == ["train", "validation"]
        assert sorted(texts["train"] + texts["validation"], key=lambda text: int(text[5:])) == [
            f"text {number}" for number in range(30)
        ]
        assert Counter(splits["validation"].examples["labels"][:]) == {0: 2, 1: 4}
        assert splits["validation"].notes[0].startswith(f"fold {fold} of 5 of {table}, 6 of 30 examples")
        assert found.settings.label_names == ["bad", "good"]
        for split in splits.values():  # text 7 is in line 8
            assert [split.place(row) for row in range(len(split.examples))] == [
                f"line {int(text[5:]) + 1}" for text in split.examples["text"][:]
            ]
        seen += texts["validation"]
    assert len(seen) == len(set(seen)) == 30


def test_a_group_stays_in_one_fold(table):
    grouped = task(table, folds=3, fold=0, group_column="author")
    _, splits = grouped.load(["train"])
    folds, _ = fold_of_each(grouped, splits["train"].examples)
    assert len(set(zip(folds.tolist(), [number % 6 for number in range(30)], strict=True))) == 6
    assert Counter(folds.tolist()) == {0: 10, 1: 10, 2: 10}


def test_groups_are_those_of_the_rows_that_have_a_label(table):
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    empty = [{"text": f"new text {number}", "label": "", "author": "nobody", "guess": "good"} for number in range(6)]
    empty = [{**row, "reason": "unsure between good and bad"} for row in empty]
    rows = [{"guess": None, "probability": None, "reason": None, **row} for row in empty + rows]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    grouped = task(table, folds=3, fold=0, group_column="author")
    grouped, splits = grouped.load(["train"])
    assert groups(grouped, splits["train"].examples) == [f"author {number % 6}" for number in range(30)]


INFERENCE = ["-", "entailment", "neutral", "contradiction"]  # "-": the annotators did not agree


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("similarity", [{"premise": f"a {n}", "hypothesis": f"b {n}", "label": INFERENCE[n % 4]} for n in range(12)]),
        ("reranking", [{"query": f"a {n}", "passage": f"b {n}", "negative": f"c {n}"} for n in range(12)]),
        ("reranking", [{"query": f"a {n // 2}", "passage": f"b {n}", "label": n % 2} for n in range(12)]),
        ("ner", [{"sentence_id": n // 3, "word": f"w{n}", "tag": ["B-X", "O"][n % 2]} for n in range(12)]),
    ],
)
def test_groups_are_those_of_the_examples_of_a_row(tmp_path, kind, rows):
    """A row may be no example, or several."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({**row, "author": f"author {n // 2}"}) + "\n" for n, row in enumerate(rows)))
    grouped, splits = task(path, kind, folds=3, fold=0, group_column="author").load(["train"])
    train = splits["train"]
    lines = [int(train.place(number).removeprefix("line ")) - 1 for number in range(len(train.examples))]
    assert groups(grouped, train.examples) == [f"author {line // 2}" for line in lines]


def words(folder, *authors):
    """A file of a sentence of one word for each author, whose separator is said when it is read."""
    rows = [f"{row};w{row};{['B-X', 'O'][row % 2]};{author}\n" for row, author in enumerate(authors)]
    (folder / "words.csv").write_text("".join(["sentence_id;word;tag;author\n", *rows]))
    return task(folder / "words.csv", "ner", folds=2, fold=0, group_column="author")


def test_what_is_said_of_a_file_of_words_is_not_repeated(tmp_path, capsys):
    grouped, splits = words(tmp_path, "a", "b", "a").load(["train"])
    assert "separated by semicolons" in "".join(capsys.readouterr())
    assert groups(grouped, splits["train"].examples) == ["a", "b", "a"]
    assert not "".join(capsys.readouterr())


def test_a_sentence_without_a_group_is_named(tmp_path):
    grouped, splits = words(tmp_path, "a", "", "a").load(["train"])
    with pytest.raises(BertkitError, match=r"words\.csv, line 3: no value for 'author'"):
        groups(grouped, splits["train"].examples)


def test_examples_without_a_group_are_named_where_a_task_reads_no_tables():
    own = SimpleNamespace(name="levels", data=SimpleNamespace(group_column="author"))
    assert groups(own, Dataset.from_dict({"author": [1, 2, 1]})) == ["1", "2", "1"]
    with pytest.raises(BertkitError, match="levels: training example 2: no value for 'author'"):
        groups(own, Dataset.from_dict({"author": ["a", None, " "]}))


def test_doubts_of_a_table_are_not_repeated_for_its_fold(tmp_path):
    rows = [{"tokens": [f"a{n}", f"b{n}"], "tags": ["B-X", "O"] if n else ["O", "I-X"]} for n in range(8)]
    path = tmp_path / "sentences.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, splits = load_splits(task(path, "ner", folds=2, fold=0))
    assert [list(splits[name].doubts) for name in ("train", "validation")] == [["impossible-tags"], []]


def test_a_limit_takes_the_first_examples_of_the_fold(table):
    whole = load_splits(task(table, folds=3, fold=1))[1]["validation"].examples["text"][:]
    cut = load_splits(task(table, folds=3, fold=1, max_eval_samples=4))[1]["validation"].examples["text"][:]
    assert cut == whole[:4]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"folds": 1, "fold": 0}, "data.folds: expected at least 2, or 0 for none, got 1"),
        ({"folds": 3, "fold": 3}, "data.fold: expected 0 to 2, got 3"),
        ({"fold": 3}, "data.fold: 3 needs folds; give --folds"),
        ({"folds": 31, "fold": 0}, "31 folds of 30 training examples; give at most 30"),
        ({"folds": 7, "fold": 0, "group_column": "author"}, "7 folds of 6 groups in author; give at most 6"),
        ({"folds": 3, "fold": 0, "group_column": "writer"}, "no column 'writer'"),
        ({"folds": 3, "fold": 0, "group_column": "note"}, "line 2: no value for 'note'"),
    ],
)
def test_what_cannot_be_divided(table, data, expected):
    with pytest.raises(BertkitError) as refused:
        load_splits(task(table, **data))
    assert expected in str(refused.value)


# ---- copies ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path):
    """Thirty pairs, each in five rows with white space at its ends, of random classes and two authors."""
    generator = np.random.default_rng(0)
    labels = generator.choice(["no", "yes"], 30)
    rows = [
        {
            "text": f"text {pair // 2}" + " " * copy,
            "other": f"other {pair % 2}",
            "label": labels[pair],
            "author": f"author {pair if copy else 0}",
        }
        for copy in range(5)
        for pair in range(30)
    ]
    path = tmp_path / "copied.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs_of(split):
    return {(row["text"].strip(), row["other"]) for row in split.examples}


def of_pairs(path, **data):
    made = task(path, **data)
    return made.with_settings(text_columns=["text", "other"])


def test_copies_are_in_one_fold_and_counted(copied):
    for fold in range(3):
        _, splits = load_splits(of_pairs(copied, folds=3, fold=fold))
        assert len(splits["validation"].examples) == 50
        assert not pairs_of(splits["train"]) & pairs_of(splits["validation"])
        [note] = splits["validation"].notes
        assert note.endswith("; 120 of 150 examples have the text of an earlier example; copies are in one fold")


def test_copies_and_groups_together_decide(copied):
    """A copy of each pair is of one author, so that all rows belong together."""
    fault = r"data\.folds: 3 folds of 1 group in author, joined by equal texts; there is nothing to hold out"
    with pytest.raises(BertkitError, match=fault):
        load_splits(of_pairs(copied, folds=3, fold=0, group_column="author"))


def test_held_out_rows_have_no_copy_among_the_others(copied):
    _, splits = load_splits(of_pairs(copied))
    assert len(splits["validation"].examples) == 15  # three of thirty pairs
    assert not pairs_of(splits["train"]) & pairs_of(splits["validation"])
    [note] = splits["validation"].notes
    assert note.endswith("; 120 of 150 examples have the text of an earlier example; copies are on one side")
