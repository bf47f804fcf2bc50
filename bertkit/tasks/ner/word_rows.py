"""Tables of one word per row, such as Kaggle's ``ner_dataset.csv``, as tables of one sentence per row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.table import Table, usual_column

TOKENS = ("tokens", "words", "token", "word")
"""Usual names of the column of words."""

DOCUMENT_ID = "document_id"
"""Name of the column with the document of each sentence."""

_SENTENCE = re.compile(r"sent(ence)?[\W_]*(id|idx|no|nr|num|number)?", re.IGNORECASE)


def sentence_column(names: Iterable[str]) -> str | None:
    """Returns the column that numbers the sentences, if another one has words.

    >>> sentence_column(["Sentence #", "Word", "POS", "Tag"]), sentence_column(["sentence", "label"])
    ('Sentence #', None)
    """
    names = list(names)
    column = next((name for name in names if _SENTENCE.fullmatch(name.strip())), None)
    return column if usual_column(names, TOKENS) is not None else None


def sentences_of_words(table: Table) -> Table | None:
    """Returns a table of one word per row as one of sentences, with lists of words; None for other tables.

    A sentence is words of one `DOCUMENT_ID` that follow each other with one value in the column of sentences. Either is
    the last given one where it is missing (`is_missing`). The place of a sentence is that of its first word.

    >>> words = {"Sentence #": ["Sentence: 1", "", "Sentence: 2"], "Word": ["in", "Oslo", "Hi"]}
    >>> sentences_of_words(Table(words, "x.csv", "")).columns
    {'Sentence #': ['Sentence: 1', 'Sentence: 2'], 'Word': [['in', 'Oslo'], ['Hi']]}
    """
    column, words = sentence_column(table.columns), usual_column(list(table.columns), TOKENS)
    if column is None or words is None or any(isinstance(word, list) for word in table.columns[words]):
        return None
    keys = {column, DOCUMENT_ID} & table.columns.keys()  # a document may number its sentences anew
    starts: list[int] = []
    begun: list[dict[str, Any]] = []  # values of the keys at the first word of each sentence
    last: dict[str, Any] = {}
    for row in range(len(table)):
        given = {name: value for name in keys if not is_missing(value := table.columns[name][row])}
        if not starts or any(last.get(name) != value for name, value in given.items()):
            starts.append(row)
            begun.append(last | given)
        last |= given
    columns: dict[str, list[Any]] = {
        name: [list(values[start:end]) for start, end in pairwise([*starts, len(table)])]
        for name, values in table.columns.items()
    }
    for name in keys:
        columns[name] = [values.get(name) for values in begun]
    numbers: list[Any] = [table.numbers_of_rows[row] for row in starts]
    return replace(table, columns=columns, lines=numbers)
