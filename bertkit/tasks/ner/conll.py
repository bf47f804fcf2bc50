"""Column files in the format of the CoNLL shared tasks: one word per line, a blank line after each sentence."""

from __future__ import annotations

import hashlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bertkit.errors import DataError, raise_listed
from bertkit.files import write_whole
from bertkit.reading.text_files import PACKINGS, read_blocks
from bertkit.reading.utf8 import decode_lines
from bertkit.tables.table import Table

DOCUMENT_ID = "document_id"
_DOCUMENT_STARTS = "-DOCSTART-"
_SUFFIXES = (".conll", ".bio", ".iob", ".iob2")


class ConllTable(Table):
    """Table of the sentences of a column file; a row is a sentence, a value the list of its words' fields in one
    column.

    Columns are named by their numbers, from "1". If the file marks documents, ``document_id`` holds the document index
    of each sentence, from 0. ``lines`` holds the line number of a sentence's first word; its other words follow it.
    """


def read_conll(path: str | Path) -> ConllTable:
    """Reads the sentences of a UTF-8 column file, optionally compressed (``.gz``, ``.zst``).

    Columns are separated by tabs in a line that contains a tab, else by spaces and no other white space. Blank lines,
    including lines of white space, separate sentences. A line whose first column is ``-DOCSTART-`` starts a document
    and is not a word. There is no comment syntax: ``#`` is an ordinary word. The fingerprint is a prefix of the SHA-256
    of the uncompressed bytes.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or contains no words; or lines differ in their number of
            columns. The message names at most ten such lines.
    """
    path = Path(os.path.expanduser(path))
    packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    digest = hashlib.sha256()

    def blocks() -> Iterator[bytes]:
        for block in read_blocks(path, packing, lambda position: None):
            digest.update(block)
            yield block

    lines = list(decode_lines(blocks(), str(path), None if packing else path))
    return _table(lines, str(path), f"sha256:{digest.hexdigest()[:16]}")


def is_conll(path: str | Path) -> bool:
    """Returns whether a file name has the suffix of a column file; used where a file may also be raw text.

    >>> is_conll("test.conll"), is_conll("test.IOB.gz"), is_conll("test.txt")
    (True, True, False)
    """
    root, packing = os.path.splitext(str(path).lower())
    return (root if packing in PACKINGS else str(path).lower()).endswith(_SUFFIXES)


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


def _table(lines: Iterable[str], source: str, fingerprint: str) -> ConllTable:
    sentences: list[list[list[str]]] = []  # of words, of fields
    begins, documents = array("q"), array("q")
    document, within = -1, False
    for number, line in enumerate(lines, 1):
        fields = _fields(line)
        if not fields or fields[0] == _DOCUMENT_STARTS:
            document += bool(fields)
            within = False
            continue
        if not within:
            sentences.append([])
            begins.append(number)
            documents.append(max(document, 0))
            within = True
        sentences[-1].append(fields)
    widths = Counter(len(fields) for words in sentences for fields in words)
    if not widths:
        raise DataError(f"{source}: no words; expected one word per line, with its tag in the last column")
    width = widths.most_common(1)[0][0]
    faults = [
        f"{source}, line {begins[row] + word}: {_counted(len(fields))} where most lines have {width}: {fields[0]!r} …"
        for row, words in enumerate(sentences)
        for word, fields in enumerate(words)
        if len(fields) != width
    ]
    raise_listed(faults)
    columns: dict[str, list[object]] = {
        str(column + 1): [[fields[column] for fields in words] for words in sentences] for column in range(width)
    }
    if document >= 0:
        columns[DOCUMENT_ID] = list(documents)
    return ConllTable(columns, source, fingerprint, begins)


def _fields(line: str) -> list[str]:
    """Splits a line into its columns; a blank line has none."""
    if not line.strip():
        return []
    if "\t" in line:
        return line.split("\t")
    return [field for field in line.split(" ") if field]


def _counted(columns: int) -> str:
    return f"{columns} column{'s' * (columns != 1)}"
