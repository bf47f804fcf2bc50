"""Words and tags of tables, of files of columns and of lists: found, named, and refused with their places."""

from __future__ import annotations

import json

import pytest

from bertkit.errors import DataError
from bertkit.tables import Table
from bertkit.tasks.ner.sentences import (
    document_ids,
    has_tags,
    place_of_word,
    read_sentences,
    read_tags,
    read_words,
    tag_column,
    token_column,
)


@pytest.fixture
def table(tmp_path):
    """A table of a file of columns, of JSON lines, or of columns given by name."""

    def make(name="x.jsonl", text="", **columns):
        if columns:
            text = "".join(
                json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
            )
        (tmp_path / name).write_text(text)
        return read_sentences(tmp_path / name)

    return make


def refused(folder, call, *args):
    with pytest.raises(DataError) as caught:
        call(*args)
    return str(caught.value).replace(f"{folder}/", "")


def test_columns_are_found_by_name_or_place(table):
    rows = table(id=[1], tokens=[["a"]], pos_tags=[["DT"]], ner_tags=[["O"]])
    assert (token_column(rows, None), tag_column(rows, None)) == ("tokens", "ner_tags")
    assert tag_column(rows, "pos_tags") == "pos_tags"
    assert tag_column(table(words=[["a"]], pos_tags=[["DT"]]), None) == "pos_tags"
    columns = table("x.txt", "-DOCSTART-\n\na DT O\n")
    assert (token_column(columns, None), tag_column(columns, None)) == ("1", "3")
    assert (tag_column(columns, 2), tag_column(columns, "2")) == ("2", "2")


def test_columns_that_are_not_there_are_refused(table, tmp_path):
    rows, columns = table(body=["a"], tokens=[["a"]]), table("x.conll", "a DT O\n")
    expected = "x.jsonl: --tag-column: no column 'ner_tag'; available: 'body', 'tokens'"
    assert refused(tmp_path, tag_column, rows, "ner_tag") == expected
    assert refused(tmp_path, tag_column, rows, None).startswith("x.jsonl: none of its columns (body, tokens) is named")
    assert refused(tmp_path, tag_column, columns, 4) == (
        "x.conll: --tag-column 4: expected the number of a column, 1 to 3"
    )
    assert refused(tmp_path, tag_column, table("y.conll", "a\n"), None).startswith("y.conll: one column; expected two")
    assert refused(tmp_path, table, "x.csv", "a,O\n").startswith(
        "x.csv: a field of a CSV file cannot hold a list of words"
    )


def test_words_and_tags_with_their_places(table):
    columns = table("x.conll", "\na O\nb B-X\n\nc O\n")
    words = read_words(columns, "1")
    assert read_tags(columns, "2", words) == [["O", "B-X"], ["O"]]
    assert [place_of_word(columns, 0, 1)[-6:], place_of_word(columns, 1, 0)[-6:]] == ["line 3", "line 5"]
    assert place_of_word(table(tokens=[["a", "b"]]), 0, 1).endswith("x.jsonl, line 1, word 2")


def test_a_test_set_may_lack_tags(table):
    assert not has_tags(table(tokens=[["a"]]), None)
    assert not has_tags(table(tokens=[["a"], ["b"]], ner_tags=[None, []]), None)
    assert not has_tags(table("x.conll", "a\nb\n"), None)
    assert has_tags(table("x.conll", "a O\n"), None)


def test_all_faults_of_words_are_told_together(table, tmp_path):
    rows = table(tokens=[["a"], "b c", [], ["d", 5, ""], None])
    assert refused(tmp_path, read_words, rows, "tokens").splitlines() == [
        "4 faults:",
        "  - x.jsonl, line 2: tokens is 'b c'; expected a list of words",
        "  - x.jsonl, line 3: tokens contains no words; remove the row",
        "  - x.jsonl, line 4, word 2: 5 in tokens; expected text",
        "  - x.jsonl, line 5: tokens is None; expected a list of words",
    ]


def test_all_faults_of_tags_are_told_together(table, tmp_path):
    rows = table(tokens=[["a", "b"]] * 4, ner_tags=[["O"], "O O", ["O", ""], [0, None]])
    assert refused(tmp_path, read_tags, rows, "ner_tags", rows.columns["tokens"]).splitlines() == [
        "5 faults:",
        "  - x.jsonl, line 1: 1 tags for 2 words",
        "  - x.jsonl, line 2: ner_tags is 'O O'; expected a list of tags",
        "  - x.jsonl, line 3, word 2: no tag",
        "  - x.jsonl, line 4, word 1: ner_tags contains the id 0, whose name is unknown; write the names of the tags",
        "  - x.jsonl, line 4, word 2: no tag",
    ]


def test_missing_tag_in_columns_has_its_line(table, tmp_path):
    rows = table("x.conll", "a\tO\nb\t\n")
    assert refused(tmp_path, read_tags, rows, "2", rows.columns["1"]) == "x.conll, line 2: no tag"


def test_ids_have_the_names_of_the_source():
    rows = Table({"tokens": [["a", "b"]], "ner_tags": [[1, 0]]}, "hub", "", class_names={"ner_tags": ["O", "B-PER"]})
    assert read_tags(rows, "ner_tags", [["a", "b"]]) == [["B-PER", "O"]]


def test_documents_are_told_or_missed(table, tmp_path):
    assert document_ids(table(tokens=[["a"], ["b"]], document_id=["x", "y"])) == ["x", "y"]
    assert refused(tmp_path, document_ids, table("x.conll", "a O\n")).startswith(
        "x.conll: no -DOCSTART- line; --context document needs it"
    )
    assert refused(tmp_path, document_ids, table(tokens=[["a"]])).startswith("x.jsonl: no column 'document_id'")
