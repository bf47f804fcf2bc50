"""Folders of brat: a ``.txt`` file per document, and beside it an ``.ann`` file with the spans of its entities.

A line of an entity is ``T1<tab>PER 0 3<tab>Ann``, and so is one of the words that trigger an event; relations, events,
attributes and notes are left out. See https://brat.nlplab.org/standoff.html.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bertkit.data.tables import Table
from bertkit.runtime.errors import DataError, noted, raise_all
from bertkit.runtime.json_text import dumps
from bertkit.runtime.reading.paths import files_below
from bertkit.runtime.reading.text import decode_pieces, read_blocks, split_lines

ANNOTATIONS = ".ann"


def read_brat(folder: Path) -> Table:
    """Reads a folder of brat, with its subfolders, as a table of ``file``, ``text`` and ``spans``, a row per document.

    Hidden files are left out, see `files_below`. Offsets count characters. Parts of a span with white space alone
    between them are one: brat divides an entity at each line break. Other spans in several parts, which tags of words
    cannot express, keep their offsets as a text, so that they are reported as every malformed span; a line without
    offsets keeps the line.

    Raises:
        DataError: there is no ``.ann`` file, or a file cannot be read; the message names all such files.
    """
    columns: dict[str, list[Any]] = {"file": [], "text": [], "spans": []}
    faults: list[str] = []
    for file in files_below(folder, faults):
        if file.suffix != ANNOTATIONS:
            continue
        document = file.with_suffix(".txt")
        with noted(faults):
            text, lines = _read(document), split_lines(_read(file))
            columns["spans"].append([_span(line, text) for line in lines if line.startswith("T")])
            columns["text"].append(text)
            columns["file"].append(document.relative_to(folder).as_posix())
    raise_all(faults)
    if not columns["file"]:
        raise DataError(
            f"{folder}: is a folder without {ANNOTATIONS} files; expected a file of sentences, or a folder of brat: "
            f"a .txt and an {ANNOTATIONS} file for each document"
        )
    digest = hashlib.sha256(dumps(columns).encode()).hexdigest()
    return Table(columns, str(folder), f"sha256:{digest[:16]}", unit="file")


def _read(path: Path) -> str:
    return "".join(decode_pieces(read_blocks(path, ""), str(path)))  # with its line endings, which offsets count


def _span(line: str, text: str) -> dict[str, Any]:
    """Returns a span of `bertkit.tasks.ner.annotations` for a line; ``text`` is that of the document."""
    _, place, covered = [*line.split("\t", 2), "", ""][:3]
    label, _, offsets = place.partition(" ")
    edges = [int(each) if each.isdecimal() else -1 for part in offsets.split(";") for each in part.split(" ")]
    gaps = [text[end:start] for end, start in zip(edges[1:-1:2], edges[2::2], strict=False)]
    is_one = len(edges) == 2 * offsets.count(";") + 2 and -1 not in edges and not "".join(gaps).strip()
    return {
        "start": edges[0] if is_one else offsets or line,
        "end": edges[-1] if is_one else None,
        "label": label,
        "text": covered,
    }
