"""Files of columns, as the shared tasks of CoNLL publish them: a word a line, a blank line after each sentence."""

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
    """Sentences of a file of columns: a row a sentence, a value the list of what its words have in one column.

    The columns are named by their numbers, "1" is the first. Where the file parts documents, ``document_id`` says of
    every sentence which one it is of, from 0. ``lines`` has the line of a sentence's first word; the others follow.
    """


def read_conll(path: str | Path) -> ConllTable:
    """The sentences of a UTF-8 file of columns, also packed as ``.gz`` or ``.zst``.

    Tabs part the columns of a line that holds one; of any other line, spaces do, and no other white space. Blank lines,
    also such that hold white space, part sentences. A line whose first column is ``-DOCSTART-`` parts documents and is
    no word. There are no comments: ``#`` is a word like any other. The fingerprint is the start of the SHA-256 of the
    file's bytes, unpacked.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or holds no word; or lines differ in their number of columns.
            The message names at most ten such lines.
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
    """Whether a file is one of columns by the end of its name, for where it might as well be raw text.

    >>> is_conll("test.conll"), is_conll("test.IOB.gz"), is_conll("test.txt")
    (True, True, False)
    """
    root, packing = os.path.splitext(str(path).lower())
    return (root if packing in PACKINGS else str(path).lower()).endswith(_SUFFIXES)


def write_conll(path: Path, columns: Sequence[Sequence[Sequence[str]]]) -> None:
    """Writes columns with a space between them, a word a line and an empty line after each sentence.

    The file is what ``conlleval`` reads, and appears only when it is whole. White space within a field, which would
    part it, and an empty field become ``_``.

    Args:
        path: the file.
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
        raise DataError(f"{source}: no words; expected a word a line, with its tag in the last column")
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
    """The columns of a line, none if it is blank."""
    if not line.strip():
        return []
    if "\t" in line:
        return line.split("\t")
    return [field for field in line.split(" ") if field]


def _counted(columns: int) -> str:
    return f"{columns} column{'s' * (columns != 1)}"
