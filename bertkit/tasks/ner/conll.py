"""Column files in the format of the CoNLL shared tasks: one word per line, a blank line after each sentence.

Some formats have comment lines before sentences and number the words of a sentence, such as CoNLL-U
(https://universaldependencies.org/format.html) and GermEval 2014.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from bertkit.errors import DataError, listed
from bertkit.files import write_whole
from bertkit.progress import counted
from bertkit.reading.paths import PACKINGS
from bertkit.reading.text import read_with_fingerprint, split_lines
from bertkit.tables.table import Table

DOCUMENT_ID = "document_id"
_DOCUMENT_STARTS = "-DOCSTART-"
_WITH_COMMENTS = (".conllu", ".conllup")
_SUFFIXES = (".conll", ".bio", ".iob", ".iob2", *_WITH_COMMENTS)
_COMMENT_MARKS = ("#", "%", ";", "//")
_MOST_FAULTS = 10
_NO_WORD = re.compile(r"\d+[-.]\d+")  # token number of a range of words, as 3-4, or of an empty node, as 8.1


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
    return _table(split_lines(text), str(path), fingerprint, comment_prefix)


def is_conll(path: str | Path) -> bool:
    """Returns whether a file name has the suffix of a column file; used where a file may also be raw text.

    >>> is_conll("test.conll"), is_conll("test.IOB.gz"), is_conll("test.txt")
    (True, True, False)
    """
    return _root(path).endswith(_SUFFIXES)


def _root(path: str | Path) -> str:
    """Returns the name of a file in lower case, without the suffix of its compression."""
    root, packing = os.path.splitext(str(path).lower())
    return root if packing in PACKINGS else str(path).lower()


def write_conll(path: Path, columns: Sequence[Sequence[Sequence[str]]]) -> None:
    """Writes columns separated by a space, one word per line, with an empty line after each sentence.

    ``conlleval`` reads this format. The file is written atomically. White space within a field, which would split it,
    and empty fields are replaced with ``_``.

    Args:
        path: output file.
        columns: for each column, for each sentence, the fields of its words.
    """
    sentences = [
        "".join(f"{' '.join(map(_field, fields))}\n" for fields in zip(*of_sentence, strict=True))
        for of_sentence in zip(*columns, strict=True)
    ]
    write_whole(path, "".join(f"{sentence}\n" for sentence in sentences))


def _field(text: str) -> str:
    return re.sub(r"\s", "_", text) or "_"


def _table(lines: Sequence[str], source: str, fingerprint: str, comment_prefix: str | None) -> ConllTable:
    sentences: list[list[list[str]]] = []  # of words, of fields
    word_lines: list[array[int]] = []
    documents: list[int] = []
    document, within = -1, False
    is_comment = _comments(lines, comment_prefix) if comment_prefix else lambda line: False
    for number, line in enumerate(lines, 1):
        fields = _fields(line)
        if not fields or fields[0] == _DOCUMENT_STARTS:
            document += bool(fields)
            within = False
            continue
        if not within:
            if is_comment(line):
                continue
            sentences.append([])
            word_lines.append(array("q"))
            documents.append(max(document, 0))
            within = True
        sentences[-1].append(fields)
        word_lines[-1].append(number)
    widths = Counter(len(fields) for words in sentences for fields in words)
    if not widths:
        raise DataError(f"{source}: no words; expected one word per line, with its tag in the last column")
    width = widths.most_common(1)[0][0]
    _check_widths(sentences, word_lines, width, source)
    numbered = width > 1 and _are_numbered(sentences)
    if numbered:
        are_words = [[not _NO_WORD.fullmatch(fields[0]) for fields in words] for words in sentences]
        sentences = [list(compress(*pair)) for pair in zip(sentences, are_words, strict=True)]
        word_lines = [array("q", compress(*pair)) for pair in zip(word_lines, are_words, strict=True)]
    columns: dict[str, list[object]] = {
        str(column + 1): [[fields[column] for fields in words] for words in sentences] for column in range(width)
    }
    if document >= 0:
        columns[DOCUMENT_ID] = list(documents)
    begins = array("q", [of_sentence[0] for of_sentence in word_lines])
    return ConllTable(columns, source, fingerprint, begins, numbered=numbered, word_lines=word_lines)


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


def _check_widths(
    sentences: Sequence[Sequence[list[str]]], word_lines: Sequence[Sequence[int]], width: int, source: str
) -> None:
    """Raises a DataError if words differ in their number of columns; proposes ``comment_prefix`` for comments."""
    faults: list[str] = []
    marks: dict[str, None] = {}
    for words, lines in zip(sentences, word_lines, strict=True):
        at_start = True  # only comments before this line
        for line, fields in zip(lines, words, strict=True):
            mark = next((each for each in _COMMENT_MARKS if fields[0].startswith(each)), None)
            at_start = at_start and mark is not None
            if len(fields) != width:
                faults.append(
                    f"{source}, line {line}: {counted(len(fields), 'column')} where most lines have {width}: "
                    f"{fields[0]!r} …"
                )
                marks |= {mark: None} if at_start and mark else {}
    if not faults:
        return
    hint = ""
    if marks:
        mark = next(iter(marks))
        hint = f"if lines that begin with {mark!r} are comments, give --comment-prefix {mark!r}"
        hint = f"{'; ' if len(faults) == 1 else chr(10)}{hint}" + (", or name the file .conllu" if mark == "#" else "")
    raise DataError(listed(faults, at_most=_MOST_FAULTS) + hint)


def _are_numbered(sentences: Sequence[Sequence[list[str]]]) -> bool:
    """Returns whether the first column has the numbers of the words in each sentence; not if none has two words."""
    longest = 0
    for words in sentences:
        numbers = [fields[0] for fields in words if not _NO_WORD.fullmatch(fields[0])]
        if not numbers or numbers != [str(number) for number in range(1, len(numbers) + 1)]:
            return False
        longest = max(longest, len(numbers))
    return longest > 1


def _fields(line: str) -> list[str]:
    """Splits a line into its columns; a blank line has none."""
    if not line.strip():
        return []
    if "\t" in line:
        return line.split("\t")
    fields = line.split(" ")
    return [field for field in fields if field] if "" in fields else fields
