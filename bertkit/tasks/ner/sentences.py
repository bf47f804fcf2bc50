"""Tables → the words of sentences, their tags, and which sentences belong to one document.

A table is a file of columns (`bertkit.tasks.ner.conll`), or one of JSON lines, Parquet or the Hub, whose rows have
lists.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertkit.errors import DataError, did_you_mean, raise_listed
from bertkit.reading.text_files import JSON_LINES, PARQUET, file_kind
from bertkit.tables.labels import is_missing, named
from bertkit.tables.table import Table
from bertkit.tables.table_files import read_table
from bertkit.tasks.ner.conll import DOCUMENT_ID, ConllTable, read_conll

TOKENS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "ner", "labels", "chunk_tags", "pos_tags")


def read_sentences(path: str | Path) -> Table:
    """The table in a file: JSON lines or Parquet by the end of its name, else a file of columns.

    Raises:
        DataError: as `read_table` and `read_conll`; or the name is that of a file of commas.
    """
    name = os.path.basename(path)
    if file_kind(name, (".csv",)) is not None:
        raise DataError(
            f"{path}: a field of a CSV file holds no list of words; expected {JSON_LINES}, {PARQUET}, or a file of "
            "columns with spaces or tabs between them, a word a line"
        )
    return read_table(path) if file_kind(name, (JSON_LINES, PARQUET)) is not None else read_conll(path)


def place_of_word(table: Table, row: int, word: int) -> str:
    """Where a word of a sentence stands, both counted from 0; the first word where a sentence has none."""
    if isinstance(table, ConllTable) and table.lines is not None:
        return f"{table.source}, line {table.lines[row] + word}"
    return f"{table.place(row)}, word {word + 1}"


def token_column(table: Table, given: str | int | None) -> str:
    """The column of the words.

    Args:
        table: of sentences.
        given: its name, or its number from 1 in a file of columns; None for the first usual name that there is, in a
            file of columns for the first.

    Raises:
        DataError: there is no such column, or none of a usual name.
    """
    return _column(table, given, "1" if isinstance(table, ConllTable) else None, TOKENS, "--token-column", "words")


def tag_column(table: Table, given: str | int | None) -> str:
    """The column of the tags, as `token_column`; in a file of columns the last.

    Raises:
        DataError: there is no such column, none of a usual name, or no column beside that of the words.
    """
    last = None
    if isinstance(table, ConllTable):
        last = str(_width(table))
        if last == "1" and given is None:
            raise DataError(f"{table.source}: one column; expected two or more, with the tags in the last")
    return _column(table, given, last, TAGS, "--tag-column", "tags")


def has_tags(table: Table, given: str | int | None) -> bool:
    """Whether a table has a column of tags: one that holds nothing in any row is none."""
    try:
        values = table.columns[tag_column(table, given)]
    except DataError:
        return False
    return any(value is not None and value != [] for value in values)


def read_words(table: Table, column: str) -> list[list[str]]:
    """The words of every sentence, as they stand; there may be empty ones among them.

    Raises:
        DataError: a row holds no list, an empty list, or something in it that is no text; at most ten such places are
            named.
    """
    faults = []
    for row, value in enumerate(table.columns[column]):
        if not isinstance(value, list):
            faults.append(f"{table.place(row)}: {column} is {_shown(value)}; expected a list of words")
        elif not value:
            faults.append(f"{table.place(row)}: {column} holds no word; leave the row out")
        else:
            faults += [
                f"{place_of_word(table, row, word)}: {_shown(text)} in {column}; expected text"
                for word, text in enumerate(value)
                if not isinstance(text, str)
            ]
    raise_listed(faults)
    return table.columns[column]


def read_tags(table: Table, column: str, words: Sequence[Sequence[str]]) -> list[list[str]]:
    """The tags of every sentence, one a word, by their names.

    Args:
        table: of sentences.
        column: of the tags.
        words: from `read_words`.

    Raises:
        DataError: a row has another number of tags than of words; a tag is missing; or the tags are ids that nothing
            gives names to. At most ten such places are named.
    """
    if column in table.class_names:
        table = named(table, column)
    faults = []
    for row, (value, of_row) in enumerate(zip(table.columns[column], words, strict=True)):
        if not isinstance(value, list):
            faults.append(f"{table.place(row)}: {column} is {_shown(value)}; expected a list of tags")
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
    """Which document each sentence is of; sentences of one document follow each other.

    Raises:
        DataError: the table does not say.
    """
    if DOCUMENT_ID in table.columns:
        return table.column(DOCUMENT_ID)
    lacks = "no -DOCSTART- line" if isinstance(table, ConllTable) else f"no column {DOCUMENT_ID!r}"
    raise DataError(
        f"{table.source}: {lacks}, so that nothing says which sentences are of one document; it is needed "
        "for --context document"
    )


def _column(
    table: Table, given: str | int | None, default: str | None, usual: Sequence[str], flag: str, what: str
) -> str:
    names = list(table.columns)
    if given is not None:
        name = str(given)
        if name in names:
            return name
        if isinstance(table, ConllTable):
            raise DataError(f"{table.source}: {flag} {name}: expected the number of a column, 1 to {_width(table)}")
        raise DataError(
            f"{table.source}: {flag} {name}: no such column among {', '.join(names)}{did_you_mean(name, names)}"
        )
    found = default or next((name for name in usual if name in names), None)
    if found is None:
        raise DataError(
            f"{table.source}: none of its columns ({', '.join(names)}) is named {', '.join(usual)}; say with {flag} "
            f"which one holds the {what}"
        )
    return found


def _width(table: ConllTable) -> int:
    return len(table.columns.keys() - {DOCUMENT_ID})


def _fault_of_tag(tag: Any, column: str) -> str:
    if isinstance(tag, int) and not isinstance(tag, bool):
        return f"{column} holds the id {tag}, and nothing here says what it is called; write the names of the tags"
    return "no tag" if is_missing(tag) else f"{column} holds {_shown(tag)}; expected the name of a tag"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
