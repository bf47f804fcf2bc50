"""Reads words, tags and document ids of sentences from tables.

A table is a column file (`bertkit.tasks.ner.conll`), or comes from JSON lines, Parquet or the Hub with lists as values,
or is made from texts with spans (`bertkit.tasks.ner.annotations`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertkit.errors import DataError, raise_listed, shown
from bertkit.reading.paths import JSON_LINES, PARQUET, file_kind
from bertkit.tables.classes import is_missing
from bertkit.tables.labels import named
from bertkit.tables.table import Table, find_column
from bertkit.tables.table_files import read_table
from bertkit.tables.typed_rows import JSON, read_json_list
from bertkit.tasks.ner.conll import DOCUMENT_ID, ConllTable, read_conll

TOKENS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "ner", "labels", "chunk_tags", "pos_tags")


def read_sentences(path: str | Path, comment_prefix: str | None = None) -> Table:
    """Reads a table from a file: JSON lines, a JSON list or Parquet by its suffix, else a column file.

    Raises:
        DataError: as `read_table`, `read_json_list` and `read_conll`; or the file is a CSV file.
    """
    name = os.path.basename(path)
    if file_kind(name, (".csv",)) is not None:
        raise DataError(
            f"{path}: a field of a CSV file cannot hold a list of words; expected {JSON_LINES}, {PARQUET}, or a file "
            "with one word per line and columns separated by spaces or tabs"
        )
    if name.lower().endswith(JSON):
        return read_json_list(path)
    return read_table(path) if file_kind(name, (JSON_LINES, PARQUET)) is not None else read_conll(path, comment_prefix)


def place_of_word(table: Table, row: int, word: int) -> str:
    """Returns the location of a word for messages; ``row`` and ``word`` count from 0."""
    if isinstance(table, ConllTable):
        return f"{table.source}, line {table.word_lines[row][word]}"
    return f"{table.place(row)}, word {word + 1}"


def token_column(table: Table, requested: str | int | None) -> str:
    """Returns the name of the word column.

    Args:
        table: table of sentences.
        requested: its name, or in a column file its number from 1; None selects the first usual name that exists, in a
            column file the first column, or the second after token numbers.

    Raises:
        DataError: the requested column does not exist, or no column has a usual name.
    """
    first = ("2" if table.numbered else "1") if isinstance(table, ConllTable) else None
    return _column(table, requested, first, TOKENS, "--token-column", "words, or of texts with spans,")


def tag_column(table: Table, requested: str | int | None) -> str:
    """Returns the name of the tag column, as `token_column` does; the default in a column file is the last column.

    Raises:
        DataError: the requested column does not exist, no column has a usual name, or the words are the only column.
    """
    last = None
    if isinstance(table, ConllTable):
        last = str(_width(table))
        if last == "1" and requested is None:
            raise DataError(f"{table.source}: one column; expected two or more, with the tags in the last")
    return _column(table, requested, last, TAGS, "--tag-column", "tags")


def has_tags(table: Table, requested: str | int | None) -> bool:
    """Returns whether a table has a tag column with at least one value that is not empty."""
    try:
        values = table.columns[tag_column(table, requested)]
    except DataError:
        return False
    return any(value is not None and value != [] for value in values)


def read_words(table: Table, column: str) -> list[list[str]]:
    """Returns the words of every sentence, unchanged; words may be empty.

    Raises:
        DataError: a row is not a list, is empty, or contains a value that is not text; the message names at most ten
            such places.
    """
    faults = []
    for row, value in enumerate(table.columns[column]):
        if not isinstance(value, list):
            faults.append(f"{table.place(row)}: {column} is {shown(value)}; expected a list of words")
        elif not value:
            faults.append(f"{table.place(row)}: {column} contains no words; remove the row")
        else:
            faults += [
                f"{place_of_word(table, row, word)}: {shown(text)} in {column}; expected text"
                for word, text in enumerate(value)
                if not isinstance(text, str)
            ]
    raise_listed(faults)
    return table.columns[column]


def read_tags(table: Table, column: str, words: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the tag names of every sentence, one per word.

    Args:
        table: table of sentences.
        column: name of the tag column.
        words: words from `read_words`.

    Raises:
        DataError: the numbers of tags and words of a row differ; a tag is missing; or tags are ids without known names.
            The message names at most ten such places.
    """
    if column in table.class_names:
        table = named(table, column)
    faults = []
    for row, (value, of_row) in enumerate(zip(table.columns[column], words, strict=True)):
        if not isinstance(value, list):
            faults.append(f"{table.place(row)}: {column} is {shown(value)}; expected a list of tags")
        elif len(value) != len(of_row):
            faults.append(f"{table.place(row)}: {len(value)} tags for {len(of_row)} words")
        else:
            faults += [
                f"{place_of_word(table, row, word)}: {_fault_of_tag(tag, column)}"
                for word, tag in enumerate(value)
                if not isinstance(tag, str) or is_missing(tag)
            ]
    raise_listed(faults)
    tags: list[list[str]] = table.columns[column]
    return tags


def document_ids(table: Table) -> list[Any]:
    """Returns the document id of each sentence; the sentences of a document are consecutive.

    Raises:
        DataError: the table has no document ids.
    """
    if DOCUMENT_ID in table.columns:
        return table.column(DOCUMENT_ID)
    lacks = "no -DOCSTART- line" if isinstance(table, ConllTable) else f"no column {DOCUMENT_ID!r}"
    raise DataError(
        f"{table.source}: {lacks}; --context document needs it to determine which sentences belong to one document"
    )


def _column(
    table: Table, requested: str | int | None, default: str | None, usual: Sequence[str], option: str, content: str
) -> str:
    name = default if requested is None else str(requested)
    if isinstance(table, ConllTable) and name not in table.columns:
        raise DataError(f"{table.source}: {option} {name}: expected the number of a column, 1 to {_width(table)}")
    return find_column(list(table.columns), name, usual, table.source, option, content)


def _width(table: ConllTable) -> int:
    return len(table.columns.keys() - {DOCUMENT_ID})


def _fault_of_tag(tag: Any, column: str) -> str:
    if isinstance(tag, int) and not isinstance(tag, bool):
        return f"{column} contains the id {tag}, whose name is unknown; write the names of the tags"
    return "no tag" if is_missing(tag) else f"{column} contains {shown(tag)}; expected the name of a tag"
