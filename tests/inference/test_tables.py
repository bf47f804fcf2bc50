"""Tables of pandas, polars, Arrow and ``datasets``, and rows as dictionaries: results are of the caller's kind."""

from __future__ import annotations

import json

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import bertkit
from bertkit.runtime.errors import DataError

COLUMNS = {"text": ["a good film", "an awful plot"], "n": [7, 8], "label": ["x", "y"]}
NEW = ["text", "n", "input_label", "label", "probability", "probabilities.bad", "probabilities.good"]


def data_set(columns):
    from datasets import Dataset

    return Dataset.from_dict(columns)


def rows_of(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


KINDS = [pandas.DataFrame, polars.DataFrame, pyarrow.table, data_set, rows_of]


def columns_of(table) -> dict[str, list]:
    if isinstance(table, list):
        return {name: [row[name] for row in table] for name in table[0]}
    if isinstance(table, pandas.DataFrame):
        return table.to_dict("list")
    if isinstance(table, polars.DataFrame):
        return table.to_dict(as_series=False)
    return table.to_pydict() if isinstance(table, pyarrow.Table) else table.to_dict()


@pytest.mark.parametrize("make", KINDS)
def test_predictions_come_back_in_the_same_kind(fine_tuned, make):
    loaded, given = bertkit.load(fine_tuned("film")), make(COLUMNS)
    result = loaded.predict(given)
    assert type(result) is type(given)
    found = columns_of(result)
    assert list(found)[:5] == NEW[:5]
    assert (found["n"], found["input_label"]) == (COLUMNS["n"], COLUMNS["label"])
    assert found["label"] == [each["label"] for each in loaded.predict(COLUMNS["text"])]
    assert columns_of(given) == COLUMNS  # the caller's table is unchanged
    assert columns_of(bertkit.predict(fine_tuned("film"), given)) == found


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("options", [{}, {"all_probabilities": True}], ids=["ten", "all"])
def test_probabilities_of_many_classes(fine_tuned, make, options):
    """All are columns, except in dictionaries; the ten most probable are one column of what holds names and numbers."""
    loaded = bertkit.load(fine_tuned("intents"))
    expected = [row["probabilities"] for row in loaded.predict(COLUMNS["text"], **options)]
    found = columns_of(loaded.predict(make(COLUMNS), **options))
    if options and make is not rows_of:
        names = [name for name in found if name.startswith("probabilities.")]
        assert [name.removeprefix("probabilities.") for name in names] == list(expected[0])
        assert [dict(zip(expected[0], values, strict=True)) for values in zip(*map(found.get, names), strict=True)] == (
            expected
        )
        return
    cells = found["probabilities"]
    if make is data_set:
        cells = [{pair["key"]: pair["value"] for pair in cell} for cell in cells]
    assert list(map(dict, cells)) == expected


@pytest.mark.parametrize("make", KINDS)
def test_lists_of_a_prediction_are_lists(fine_tuned, make):
    loaded = bertkit.load(fine_tuned("topics"))
    expected = [row["labels"] for row in loaded.predict(COLUMNS["text"])]
    assert [list(each) for each in columns_of(loaded.predict(make(COLUMNS)))["labels"]] == expected


def test_both_doors_have_the_same_options(fine_tuned, tmp_path):
    for kind, options in (("film", {"unsure_below": 1.0}), ("topics", {"threshold": 0.9})):
        for given in ({**COLUMNS}, {"body": COLUMNS["text"]}):
            named = {"text_columns": ["body"]} if "body" in given else {}
            frame, out = pandas.DataFrame(given), tmp_path / f"{kind}-{len(named)}.csv"
            loaded = bertkit.load(fine_tuned(kind)).predict(frame, **options, **named)
            by_name = bertkit.predict(fine_tuned(kind), frame, output_file=out, **options, **named)
            pandas.testing.assert_frame_equal(loaded, by_name)
            assert list(pandas.read_csv(out).columns) == list(by_name.columns)


def test_one_column_may_be_named_without_a_list(fine_tuned):
    frame = pandas.DataFrame({"body": COLUMNS["text"], "kind": "bad"})
    columns = {"text_columns": "body", "label_column": "kind"}
    assert bertkit.evaluate(fine_tuned("film"), validation_file=frame, columns=columns).examples == len(frame)
    for named in ("body", frame.columns[:1]):
        assert list(bertkit.load(fine_tuned("film")).predict(frame, text_columns=named)["body"]) == COLUMNS["text"]


def test_rows_that_are_skipped_are_not_in_the_table(fine_tuned, capsys):
    frame = pandas.DataFrame({"text": ["a film", "", "a plot", None]}, index=[5, 6, 7, 8])
    with pytest.raises(DataError, match="row 2"):
        bertkit.predict(fine_tuned("film"), frame)
    with pytest.raises(DataError, match=r"row 2: text contains an unpaired surrogate, \\ud83d"):
        bertkit.predict(fine_tuned("film"), [{"text": "a film"}, {"text": "a \ud83d"}])
    found = bertkit.predict(fine_tuned("film"), frame, on_error="skip")
    assert (list(found.index), list(found["text"])) == ([5, 7], ["a film", "a plot"])
    assert "2 inputs skipped, 2 done" in capsys.readouterr().err


def test_a_form_of_an_annotation_tool_is_a_list(fine_tuned):
    found = bertkit.predict(fine_tuned("entities"), pandas.DataFrame({"text": ["a film"]}), form="doccano")
    assert [list(row) for row in found] == [["text", "label"]]


@pytest.mark.parametrize("make", KINDS)
def test_vectors_are_a_column_of_the_same_kind(checkpoint, tmp_path, make):
    loaded, given = bertkit.load(checkpoint), make(COLUMNS)
    result = loaded.embed(given)
    assert type(result) is type(given)
    vectors = np.array([list(each) for each in columns_of(result)["embedding"]])
    np.testing.assert_allclose(vectors, loaded.embed(COLUMNS["text"]), rtol=1e-5, atol=1e-6)
    assert bertkit.embed(checkpoint, tmp_path / "out.npz", given)[0] == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pandas.DataFrame({"text": ["a", None]}), "the pandas.DataFrame, row 2 (index 1): no value for 'text'"),
        (
            pandas.DataFrame({"text": ["a", ""]}, index=pandas.MultiIndex.from_tuples([("x", 1), ("y", 7)])),
            "the pandas.DataFrame, row 2 (index ('y', 7)): text is empty",
        ),
        (pandas.DataFrame({"text": ["a", float("nan")]}), "row 2 (index 1): no value for 'text'"),
        (polars.DataFrame({"body": ["a"]}), "the polars.DataFrame: no column 'text'; available: 'body'"),
        (pandas.DataFrame(), "the pandas.DataFrame: no rows"),
        (pyarrow.table({"text": pyarrow.array([], "string")}), "no rows"),
        ([{"text": "a"}, {"x": 1}], "the list of dictionaries, row 2: no value for 'text'"),
        ([{"text": 3}], "the list of dictionaries, row 1: text is 3; expected text"),
        (pandas.DataFrame([["a", "b"]], columns=["text", "text"]), "several columns of one name"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(fine_tuned, given, message):
    with pytest.raises(DataError) as caught:
        bertkit.load(fine_tuned("film")).predict(given)
    assert message in str(caught.value)


def test_inputs_that_cannot_be_read_are_skipped_and_listed(fine_tuned, tmp_path, capsys):
    path, out = tmp_path / "x.csv", tmp_path / "out.csv"
    path.write_text("id,text\n1,a good film\n2,\n3,an awful plot\n4,  \n5,good\n6\n")
    with pytest.raises(DataError, match="line 7: 1 field"):
        list(bertkit.predict(fine_tuned("film"), input_file=path))
    blocks = bertkit.predict(fine_tuned("film"), input_file=path, output_file=out, on_error="skip")
    assert [row["id"] for block in blocks for row in block.rows] == ["1", "3", "5"]
    said = capsys.readouterr().err
    assert [f"skipped: {path}, line {line}: text is empty" in said for line in (3, 4, 5)] == [True, False, True]
    assert "3 inputs skipped, 3 done" in said
    assert list(pandas.read_csv(out)["id"]) == [1, 3, 5]
    path.write_text("id,text\n1,\n2,\n")
    for name in ("none.csv", "none.json", "none.parquet"):
        with pytest.raises(DataError, match="all 2 inputs were skipped"):
            list(bertkit.predict(fine_tuned("film"), input_file=path, output_file=tmp_path / name, on_error="skip"))
    assert not list(tmp_path.glob("none.*"))


@pytest.mark.parametrize("name", ["out.jsonl", "out.npz"])
def test_texts_without_vectors_are_skipped(checkpoint, tmp_path, capsys, name):
    path, out = tmp_path / "x.csv", tmp_path / name
    path.write_text("id,body\n1,a good film\n2,\n3,an awful plot\n")
    with pytest.raises(DataError, match="line 3: body is empty"):
        bertkit.embed(checkpoint, tmp_path / "stopped.jsonl", input_file=path)
    assert bertkit.embed(checkpoint, out, input_file=path, on_error="skip")[0] == 2
    said = capsys.readouterr().err
    assert f"skipped: {path}, line 3: body is empty" in said
    assert "1 input skipped, 2 done" in said
    if name == "out.npz":
        assert list(np.load(out)["texts"]) == ["a good film", "an awful plot"]
    else:
        texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
        assert texts == ["a good film", "an awful plot"]
    path.write_text("id,text\n1,\n")
    with pytest.raises(DataError, match="the only input was skipped"):
        bertkit.embed(checkpoint, tmp_path / "none.jsonl", input_file=path, on_error="skip")
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_columns_that_are_asked_for_are_shown_with_their_values(checkpoint, tmp_path, on_error):
    rows = [{"x": "a film", "y": "a plot"}] * 2
    with pytest.raises(DataError, match=r"(?s)which of its columns has the text.*'x': always 'a film'"):
        bertkit.embed(checkpoint, tmp_path / "out.npz", rows, on_error=on_error)
