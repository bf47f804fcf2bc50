"""Sentences: their words, tags and document ids, from column files and from tables.

A column file has the format of the CoNLL shared tasks: one word per line, a blank line after each sentence. Some have
comment lines before sentences and number the words of a sentence, such as CoNLL-U
(https://universaldependencies.org/format.html) and GermEval 2014. Tables come from JSON lines, Parquet or the Hub with
lists as values, or are made from tables of one word per row (`bertkit.tasks.ner.word_rows`) and from texts with spans
(`bertkit.tasks.ner.annotations`).
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.delimited import NAMES as SEPARATORS
from bertkit.data.tables.labels import named
from bertkit.data.tables.table import Table, find_column
from bertkit.data.tables.table_files import CSV, TSV, is_table, read_table
from bertkit.data.tables.typed_rows import JSON
from bertkit.runtime.errors import DataError, listed, raise_listed, shown
from bertkit.runtime.files import write_whole
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.paths import JSON_LINES, PARQUET, compression_of, file_kind
from bertkit.runtime.reading.text import iterating, read_blocks, read_with_fingerprint, split_lines
from bertkit.tasks.ner.word_rows import DOCUMENT_ID, TOKENS, sentence_column, sentences_of_words

TAGS = ("ner_tags", "tags", "ner", "labels", "chunk_tags", "pos_tags", "ner_tag", "tag")

_DOCUMENT_START = "-DOCSTART-"
_WITH_COMMENTS = (".conllu", ".conllup")
_SUFFIXES = (".conll", ".bio", ".iob", ".iob2", *_WITH_COMMENTS)
_COMMENT_MARKS = ("#", "%", ";", "//")
_NO_WORD = re.compile(r"\d+[-.]\d+")  # token number of a range of words, as 3-4, or of an empty node, as 8.1

_Sentence = list[tuple[int, list[str]]]  # line number and fields of each word


def read_sentences(path: str | Path, comment_prefix: str | None = None) -> Table:
    """Reads a table with a sentence or a text per row: from a table by its suffix, else a column file; or a folder of
    brat.

    Rows have lists of words, or a text and its spans; those of a word each are joined, see `sentences_of_words`.

    Raises:
        DataError: as `read_table`, `read_conll` and `read_brat`; the fields of a CSV, TSV or Excel file are to be
            lists; or a file of brat is given in the place of its folder.
    """
    if os.path.isdir(os.path.expanduser(path)):
        from bertkit.tasks.ner.brat import read_brat

        return read_brat(Path(os.path.expanduser(path)))
    name = os.path.basename(path)
    if name.lower().endswith(".ann"):
        raise DataError(f"{path}: has annotations of brat without their text; give the folder of both files")
    if is_table(path) and (file_kind(name, (TSV,)) is None or "text" in _header(path) or is_of_words(path)):
        table = read_table(path)
        sentences = sentences_of_words(table)
        if sentences is None and file_kind(name, (JSON_LINES, PARQUET, JSON)) is None:
            raise DataError(
                f"{path}: a field of a CSV, TSV or Excel file cannot hold a list of words or spans; expected one word "
                "per row, with the columns sentence_id, word and tag, where each sentence has a number of its own; "
                f"{JSON_LINES} or {JSON}, which annotation tools export; {PARQUET}; or a file with one word per line, "
                "columns separated by spaces or tabs, and a blank line after each sentence"
            )
        return table if sentences is None else sentences
    return read_conll(path, comment_prefix)


def is_of_words(path: str | Path) -> bool:
    """Returns whether a CSV or TSV file has one word per row, by its header."""
    return sentence_column(_header(path)) is not None


def _header(path: str | Path) -> list[str]:
    """Returns the names in the first line of a CSV or TSV file; none for others, and for pipes, which are read once."""
    kind, file = file_kind(os.path.basename(path), (CSV, TSV)), Path(os.path.expanduser(path))
    if kind is None or not file.is_file():
        return []
    with iterating(read_blocks(file, kind.compression)) as blocks:
        line = next(blocks, b"").partition(b"\n")[0].decode("utf-8-sig", "replace")
    return [name.strip('" \r') for name in re.split(r"[,;|\t]", line)]


# ---- column files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConllTable(Table):
    """Table of the sentences of a column file; a row is a sentence, a value the list of its words' fields in one
    column.

    Columns are named by their numbers, from "1". If the file marks documents, ``document_id`` holds the document index
    of each sentence, from 0. ``lines`` holds the line number of a sentence's first word.

    Attributes:
        numbered: the first column has the numbers of the words in their sentence, from 1.
        word_lines: line numbers of the words of each sentence.
    """

    numbered: bool = False
    word_lines: Sequence[Sequence[int]] = ()

    def part(self, rows: Sequence[int]) -> Self:
        return replace(super().part(rows), word_lines=[self.word_lines[row] for row in rows])

    @property
    def width(self) -> int:
        """Number of columns of the file."""
        return len(self.columns.keys() - {DOCUMENT_ID})


def is_conll(path: str | Path) -> bool:
    """Returns whether a file name has the suffix of a column file; used where a file may also be raw text.

    >>> is_conll("test.conll"), is_conll("test.IOB.gz"), is_conll("test.txt")
    (True, True, False)
    """
    return _root(path).endswith(_SUFFIXES)


def _root(path: str | Path) -> str:
    """Returns the name of a file in lower case, without the suffix of its compression."""
    return str(path).lower().removesuffix(compression_of(path))


def read_conll(path: str | Path, comment_prefix: str | None = None) -> ConllTable:
    """Reads the sentences of a UTF-8 column file, optionally compressed (``.gz``, ``.zst``).

    Columns are separated by tabs in a line that contains a tab, else by spaces and no other white space. Blank lines,
    including lines of white space, separate sentences. A line whose first column is ``-DOCSTART-`` starts a document
    and is not a word. The fingerprint is a prefix of the SHA-256 of the uncompressed bytes.

    If the first column of every sentence counts 1, 2, 3, …, the file is numbered: lines with a range of numbers (3-4)
    or a decimal number (8.1) are left out, since they repeat words or are not in the text.

    Args:
        path: the file.
        comment_prefix: lines that begin with it, before the first word of a sentence, are comments, unless they have
            the columns of a word and a tag. ``None``: in ``.conllu`` files ``#``; in others there are no comments, and
            ``#`` is a word.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or contains no words; or lines differ in their number of
            columns. The message names at most ten such lines.
    """
    if comment_prefix is None and _root(path).endswith(_WITH_COMMENTS):
        comment_prefix = "#"
    path = Path(os.path.expanduser(path))
    text, fingerprint = read_with_fingerprint(path)
    sentences, documents = _sentences(split_lines(text), comment_prefix)
    width = _width(sentences, str(path))
    numbered = width > 1 and _are_numbered(sentences)
    if numbered:
        sentences = [[word for word in words if not _NO_WORD.fullmatch(word[1][0])] for words in sentences]
    columns: dict[str, list[Any]] = {
        str(column + 1): [[fields[column] for _, fields in words] for words in sentences] for column in range(width)
    }
    if documents:
        columns[DOCUMENT_ID] = documents
    word_lines = [array("q", [line for line, _ in words]) for words in sentences]
    first_lines = array("q", [lines[0] for lines in word_lines])
    return ConllTable(columns, str(path), fingerprint, first_lines, numbered=numbered, word_lines=word_lines)


def write_conll(path: Path, columns: Sequence[Sequence[Sequence[str]]]) -> None:
    """Writes columns separated by a space, one word per line, with an empty line after each sentence.

    ``columns`` hold, for each column and each sentence, the fields of its words.

    ``conlleval`` reads this format. The file is written atomically. White space within a field, which would split it,
    and empty fields are replaced with ``_``.
    """
    lines = []
    for sentence in zip(*columns, strict=True):
        for fields in zip(*sentence, strict=True):
            lines.append(" ".join(re.sub(r"\s", "_", field) or "_" for field in fields))
        lines.append("")
    write_whole(path, "".join(f"{line}\n" for line in lines))


def _sentences(lines: Sequence[str], comment_prefix: str | None) -> tuple[list[_Sentence], list[int]]:
    """Returns the sentences, and the document index of each; no indices if the lines mark no document."""
    sentences: list[_Sentence] = []
    documents: list[int] = []
    document, are_marked, within = 0, False, False
    is_comment = _comments(lines, comment_prefix) if comment_prefix else lambda line: False
    for number, line in enumerate(lines, 1):
        fields = _fields(line)
        if not fields or fields[0] == _DOCUMENT_START:
            if fields:
                are_marked = True
                document += bool(sentences)  # those before the first mark are a document too
            within = False
        elif within or not is_comment(line):
            if not within:
                sentences.append([])
                documents.append(document)
                within = True
            sentences[-1].append((number, fields))
    return sentences, documents if are_marked else []


def _comments(lines: Sequence[str], prefix: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a line before the first word of a sentence is a comment.

    A line that begins with the prefix is a word if it has as many columns as most other lines, with the same separator.
    Since a comment of two words has two columns as well, its last column must also occur in other lines, unless the
    separator is a tab.
    """
    others = [line for line in lines if line.strip() and not line.startswith(prefix)]
    forms = Counter(("\t" in line, len(_fields(line))) for line in others)
    usual = forms.most_common(1)[0][0] if forms else None
    tags = {_fields(line)[-1] for line in others}

    def is_comment(line: str) -> bool:
        if not line.startswith(prefix):
            return False
        fields, tab = _fields(line), "\t" in line
        return (tab, len(fields)) != usual or not (tab or fields[-1] in tags)

    return is_comment


def _width(sentences: Sequence[_Sentence], source: str) -> int:
    """Returns the number of columns.

    Raises:
        DataError: there is no word, or words differ in their number of columns; the message proposes
            ``comment_prefix`` where such lines look like comments.
    """
    widths = Counter(len(fields) for words in sentences for _, fields in words)
    if not widths:
        raise DataError(f"{source}: no words; expected one word per line, with its tag in the last column")
    width = widths.most_common(1)[0][0]
    faults, marks = list[str](), list[str]()  # marks of lines before the first word of a sentence
    for words in sentences:
        at_start = True
        for line, fields in words:
            mark = next((each for each in _COMMENT_MARKS if fields[0].startswith(each)), None)
            at_start = at_start and mark is not None
            if len(fields) != width:
                has = f"{counted(len(fields), 'column')} where most lines have {width}"
                faults.append(f"{source}, line {line}: {has}: {fields[0]!r} …")
                marks += [mark] if at_start and mark else []
    if faults:
        hint = ""
        if marks:
            hint = f"if lines that begin with {marks[0]!r} are comments, give --comment-prefix {marks[0]!r}"
            hint += ", or name the file .conllu" if marks[0] == "#" else ""
            hint = f"{'; ' if len(faults) == 1 else chr(10)}{hint}"
        raise DataError(listed(faults, at_most=10) + hint)
    return width


def _are_numbered(sentences: Sequence[_Sentence]) -> bool:
    """Returns whether the first column has the numbers of the words in each sentence; not if none has two words."""
    longest = 0
    for words in sentences:
        numbers = [fields[0] for _, fields in words if not _NO_WORD.fullmatch(fields[0])]
        if not numbers or numbers != [str(number) for number in range(1, len(numbers) + 1)]:
            return False
        longest = max(longest, len(numbers))
    return longest > 1


def _fields(line: str) -> list[str]:
    """Splits a line into its columns; a blank line has none."""
    if not line.strip():
        return []
    return line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]


# ---- columns of tables ----------------------------------------------------------------------------------------------


def place_of_word(table: Table, row: int, word: int) -> str:
    """Returns the location of a word for messages; ``row`` and ``word`` count from 0."""
    if isinstance(table, ConllTable):
        return f"{table.source}, line {table.word_lines[row][word]}"
    return f"{table.place(row)}, word {word + 1}"


def token_column(table: Table, requested: str | int | None) -> str:
    """Returns the name of the word column.

    It is ``requested`` by its name, or in a column file by its number from 1; None selects the first usual name that
    exists, in a column file the first column, or the second after token numbers.

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
        last = str(table.width)
        if table.width == 1 and requested is None:
            lines = [word for words in table.columns[last] for word in words]
            names = [name for mark, name in SEPARATORS.items() if all(mark in line for line in lines)]
            hint = f"; a {names[0]} seems to separate them: write a tab before each tag instead" if names else ""
            raise DataError(
                f"{table.source}: one column; expected two or more, separated by spaces or tabs, with the tags in the "
                f"last{hint}"
            )
    return _column(table, requested, last, TAGS, "--tag-column", "tags")


def _column(
    table: Table, requested: str | int | None, default: str | None, usual: Sequence[str], option: str, content: str
) -> str:
    name = default if requested is None else str(requested)
    if isinstance(table, ConllTable) and name not in table.columns:
        raise DataError(f"{table.source}: {option} {name}: expected the number of a column, 1 to {table.width}")
    return find_column(list(table.columns), name, usual, table.source, option, content)


def has_tags(table: Table, requested: str | int | None) -> bool:
    """Returns whether a table has a tag column with at least one tag that is not missing."""
    try:
        values = table.columns[tag_column(table, requested)]
    except DataError:
        return False
    return not all(is_missing(tag) for value in values for tag in (value if isinstance(value, list) else [value]))


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
    return list(table.columns[column])


def read_tags(table: Table, column: str, words: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the tag names of every sentence, one for each word of `read_words`.

    Raises:
        DataError: a row is not a list, or has not one tag for each word; a tag is missing; or tags are ids without
            known names. The message names at most ten such places.
    """
    table = named(table, column)
    faults = []
    for row, (value, of_row) in enumerate(zip(table.columns[column], words, strict=True)):
        if not isinstance(value, list):
            faults.append(f"{table.place(row)}: {column} is {shown(value)}; expected a list of tags")
        elif len(value) != len(of_row):
            faults.append(f"{table.place(row)}: {counted(len(value), 'tag')} for {counted(len(of_row), 'word')}")
        else:
            for word, tag in enumerate(value):
                if is_missing(tag):
                    fault = "no tag"
                elif isinstance(tag, str):
                    continue
                elif isinstance(tag, int) and not isinstance(tag, bool):
                    fault = f"{column} contains the id {tag}, whose name is unknown; write the names of the tags"
                else:
                    fault = f"{column} contains {shown(tag)}; expected the name of a tag"
                faults.append(f"{place_of_word(table, row, word)}: {fault}")
    raise_listed(faults)
    return list(table.columns[column])


def document_ids(table: Table) -> list[Any]:
    """Returns the document id of each sentence, of which those of a document are consecutive; DataError without ids."""
    if DOCUMENT_ID in table.columns:
        return list(table.column(DOCUMENT_ID))
    lacks = "no -DOCSTART- line" if isinstance(table, ConllTable) else f"no column {DOCUMENT_ID!r}"
    raise DataError(
        f"{table.source}: {lacks}; --context document needs it to determine which sentences belong to one document"
    )
