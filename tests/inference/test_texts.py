"""Texts from Python: lists and columns are taken, tables and values that are no text refused; none give nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

import bertkit
from bertkit.data.tables.objects import kind_of_table, list_of_texts
from bertkit.runtime.errors import BertkitError, DataError

TEXTS = ["a good film", "an awful plot"]
COLUMNS = {"id": [1, 2], "text": TEXTS}
ROWS = [{"text": text, "label": "good"} for text in TEXTS]


def polars_frame():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame(COLUMNS)


def data_set():
    from datasets import Dataset

    return Dataset.from_dict(COLUMNS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pandas.DataFrame(COLUMNS), r"is a DataFrame, with columns; .* such as frame\['text'\]\.tolist\(\)"),
        (polars_frame, r"is a DataFrame, with columns; .* such as frame\['text'\]\.to_list\(\)"),
        (lambda: pyarrow.table(COLUMNS), r"is a Table, with columns; .* such as table\['text'\]\.to_pylist\(\)"),
        (data_set, r"is a Dataset, with columns; .* such as list\(dataset\['text'\]\)"),
        (lambda: polars_frame().lazy(), r"is a LazyFrame, whose rows are not computed yet; give frame\.collect\(\)"),
        (lambda: {"train": data_set()}, r"is a dict of 'train'; give one of them: tables\['train'\]"),
        (lambda: COLUMNS, r"is a dict, with columns; .* such as table\['text'\]"),
        (lambda: pyarrow.table(COLUMNS)["text"], r"number 1 of 2 .*and 1 more .*to_pylist\(\)"),
        (
            lambda: ROWS,
            r"number 1 of 2 is \{.*'text'.*\(and 1 more are no texts\); .*\[row\['text'\] for row in rows\]",
        ),
        (lambda: [*TEXTS, None], "number 3 of 3 is None; an empty cell is no text"),
        (lambda: pandas.Series([*TEXTS, math.nan]), r"number 3 of 3 is nan \(float\); .*dropna\(\)"),
        (lambda: pandas.Series([TEXTS[0], None], dtype="string"), r"number 2 of 2 is <NA> .*dropna\(\)"),
        (lambda: [3.5], r"number 1 of 1 is 3.5 \(float\); expected texts"),
        (lambda: ["a \U0001f600", "\ud83d"], r"number 2 of 2 contains an unpaired surrogate, \\ud83d"),
        (lambda: [10**5000], r"number 1 of 1 is <a number of more than 4300 digits> \(int\)"),
        (lambda: 5, r"is 5 \(int\); expected a text or a list of texts"),
        (lambda: b"a film", r"is b'a film' \(bytes\); expected a text"),
    ],
)
def test_what_is_no_text_is_refused(checkpoint, fine_tuned, tmp_path, make, message):
    film, given = bertkit.load(fine_tuned("film")), make()
    answers = bertkit.load(fine_tuned("answers"))
    calls = [bertkit.load(checkpoint).fill_mask]
    if kind_of_table(given) is None:
        calls += [film.predict, film.embed, lambda texts: list(bertkit.predict(fine_tuned("film"), texts))]
        calls += [lambda texts: bertkit.embed(checkpoint, tmp_path / "out.npz", texts)]
    for call in calls:
        with pytest.raises(DataError, match=f"texts: {message}"):
            call(given)
    with pytest.raises(DataError, match=f"question: {message}"):
        answers.predict(question=given, context="the plot")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        pandas.Series(TEXTS, index=[5, 3]),
        iter(TEXTS),
        dict.fromkeys(TEXTS).keys(),
    ],
)
def test_any_iterable_of_texts_is_taken(given):
    assert list_of_texts(given) == TEXTS


@pytest.mark.parametrize("kind", ["film", "topics", "pairs", "entities", "tags", "answers", "choices"])
def test_no_texts_give_no_predictions(fine_tuned, kind):
    loaded = bertkit.load(fine_tuned(kind))
    assert loaded.predict([]) == []
    assert list(bertkit.predict(fine_tuned(kind), [])) == []
    if kind == "answers":
        assert loaded.predict(question=[], context="the plot") == []
        assert list(bertkit.predict(fine_tuned(kind), questions=[], context="the plot")) == []


def test_no_texts_give_no_vectors_and_masks(checkpoint):
    loaded = bertkit.load(checkpoint)
    for pooling in ("mean", "max", "cls"):
        vectors = loaded.embed([], pooling=pooling, layers=[-1, -2])
        assert (vectors.shape, vectors.dtype) == ((0, 64), np.float32)
    assert loaded.embed([], pooling="none") == []
    assert loaded.fill_mask([]) == []


@pytest.mark.parametrize("pooling", ["mean", "cls", "none"])
@pytest.mark.parametrize("name", ["out.npz", "out.parquet", "out.jsonl"])
def test_an_empty_file_gives_no_vectors(checkpoint, tmp_path, pooling, name):
    """The file has the columns and arrays, and their types, of one with a text."""
    (tmp_path / "empty.txt").touch()
    one, none = tmp_path / f"one {name}", tmp_path / name
    assert bertkit.embed(checkpoint, one, ["a film"], pooling=pooling) == (1, 32)
    assert bertkit.embed(checkpoint, none, input_file=tmp_path / "empty.txt", pooling=pooling) == (0, 32)
    if name.endswith(".npz"):
        some, arrays = np.load(one), np.load(none)
        assert {each: (values.dtype.kind, values.shape[1:]) for each, values in arrays.items()} == {
            each: (values.dtype.kind, values.shape[1:]) for each, values in some.items()
        }
        assert all(len(values) == 0 for values in arrays.values())
    elif name.endswith(".parquet"):
        table = pyarrow.parquet.read_table(none)
        assert (table.schema, len(table)) == (pyarrow.parquet.read_schema(one), 0)
    else:
        assert list(map(json.loads, none.read_text().splitlines())) == []


def test_the_name_of_a_file_as_the_text_is_noted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.eml").write_text("a good film")
    assert list_of_texts("a.eml") == ["a.eml"]
    assert "note: a.eml is a file, and its name is read as the text; to read the file" in capsys.readouterr().err
    for texts in (["a.eml", "a film"], "b.eml", "a film.", "."):
        list_of_texts(texts)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("blank", ["", " \n\t", "\u3000"])
def test_no_door_answers_a_text_without_words(fine_tuned, checkpoint, tmp_path, blank):
    film, pairs, answers = (bertkit.load(fine_tuned(name)) for name in ("film", "reranker", "answers"))
    out = tmp_path / "vectors.npz"
    doors = {
        "text 2: empty; give at least one word": [
            lambda: film.predict(["a", blank]),
            lambda: film.embed(["a", blank]),
            lambda: bertkit.embed(checkpoint, out, ["a", blank]),
            lambda: bertkit.predict(fine_tuned("film"), ["a", blank]),
        ],
        "none empty, got": [lambda: pairs.predict(f"a query\t{blank}".replace("\n\t", ""))],
        "question 1: empty": [lambda: answers.predict(question=blank, context="a film")],
        "context 1: empty": [lambda: answers.predict(question="what", context=blank)],
        "text 1: empty": [lambda: bertkit.explain(fine_tuned("film"), blank)],
        r"no \[MASK\] in": [lambda: bertkit.load(checkpoint).fill_mask(blank)],
    }
    for message, ways in doors.items():
        for way in ways:
            with pytest.raises(DataError, match=message):
                way()
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error 'ignore': expected stop or skip"),
        ({"text_column": "body"}, "--text-column body: a text is not a table; remove it"),
        ({"per_file": True}, "--per-file: is for files; give them with --input"),
        ({"texts": None, "input_file": "s3://a/b.csv"}, "--input s3://a/b.csv: is a URL; download the file"),
        ({"texts": None, "input_file": Path("s3://a/b.txt")}, "--input s3:/a/b.txt: is a URL; download the file"),
        ({"texts": None, "input_file": ".", "per_file": True, "pooling": "none"}, "--pooling none: is not for files"),
    ],
)
def test_arguments_that_do_not_go_with_texts(checkpoint, fine_tuned, tmp_path, options, message):
    calls = [lambda **given: bertkit.embed(checkpoint, tmp_path / "v.npz", **given)]
    if column := options.get("text_column"):
        loaded = bertkit.load(fine_tuned("film"))
        calls += [loaded.embed, lambda texts, text_column: loaded.predict(texts, text_columns=text_column)]
        calls += [lambda texts, text_column: bertkit.predict(fine_tuned("film"), texts, text_columns=[column])]
    for call in calls:
        with pytest.raises(BertkitError, match=message):
            call(**{"texts": ["a film"], **options})


def test_every_head_has_the_same_devices(checkpoint, fine_tuned):
    for name, use in ((checkpoint, "embed"), (checkpoint, "fill_mask"), (fine_tuned("film"), "predict")):
        with pytest.raises(BertkitError, match="device 'gpu': expected auto or cpu"):
            getattr(bertkit.load(name, device="gpu"), use)("a [MASK] film")  # load itself raises if fine-tuned
    with pytest.raises(BertkitError, match="batch_size 0: expected at least 1"):
        bertkit.load(checkpoint, batch_size=0)


@pytest.mark.parametrize("colours", [True, False])
def test_a_text_of_two_lines_is_shown_in_one(fine_tuned, colours):
    [(_, [line])] = bertkit.predict(fine_tuned("entities"), ["a good\nfilm"], colours=colours)
    assert ("\n" in line, "\x1b" in line) == (False, colours)


def test_all_texts_without_words_are_named_at_once(fine_tuned):
    with pytest.raises(DataError, match=r"^2 faults:\n  - text 1: empty.*\n  - text 3: empty; give at least one word$"):
        bertkit.predict(fine_tuned("film"), [" ", "a", "\n"])


def test_texts_without_words_are_skipped_on_request(checkpoint, fine_tuned, tmp_path, capsys):
    assert bertkit.embed(checkpoint, tmp_path / "v.npz", ["a", ""], on_error="skip")[0] == 1
    [(rows, _)] = bertkit.predict(fine_tuned("film"), ["a", ""], on_error="skip")
    assert [row["text"] for row in rows] == ["a"]
    assert capsys.readouterr().err.count("skipped: text 2: empty") == 2
    [(rows, _)] = bertkit.predict(fine_tuned("answers"), questions=["a", ""], context="a film", on_error="skip")
    assert ([row["question"] for row in rows], "skipped: question 2: empty" in capsys.readouterr().err) == (["a"], True)
    list(bertkit.predict(fine_tuned("pairs"), ["", "a\tb", "no pair"], on_error="skip"))
    said = capsys.readouterr().err
    assert "skipped: text 1: empty" in said
    assert "skipped: input 3: expected two texts" in said
