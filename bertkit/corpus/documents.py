"""Bytes → lines → the paragraphs of documents.

A document is what the next-sentence task keeps together: segment B either follows A in the same document, or comes
from another one (BERT §3.1). A paragraph is what a sentence never crosses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bertkit.errors import DataError, RecipeError

BLANK_LINE = "blank-line"
_LONGEST_PARAGRAPH = 1 << 20  # characters
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Paragraph(NamedTuple):
    """One paragraph of a document.

    Attributes:
        text: never empty, white space at its ends left out.
        starts_document: True for the first paragraph of each document.
    """

    text: str
    starts_document: bool


@dataclass(frozen=True)
class DocumentForm:
    r"""How text makes documents.

    By default a text file is one document, a blank line ends a paragraph, and the lines of a paragraph belong together
    (hard-wrapped text). Where the text comes in rows (JSONL, Parquet, a set of the Hub) a row is always one document.

    Attributes:
        sentence_per_line: every line is one sentence and is not split further; a blank line ends a document of a text
            file. This is the input form of the released ``create_pretraining_data.py``.
        document_separator: what parts the documents of one text file: ``"blank-line"``, or a regular expression that
            matches a whole line, white space at both of its ends left out. The line itself belongs to no document.
            Together with ``sentence_per_line`` it takes the place of the blank line, which then means nothing.

    Raises:
        RecipeError: ``document_separator`` is empty or no regular expression.

    >>> DocumentForm(document_separator=r"= [^=]+ =").document_separator
    '= [^=]+ ='
    """

    sentence_per_line: bool = False
    document_separator: str | None = None

    def __post_init__(self) -> None:
        if self.document_separator is None:
            return
        if not self.document_separator.strip():
            raise RecipeError(
                f"document_separator: {self.document_separator!r} is empty; "
                f"expected '{BLANK_LINE}' or a regular expression that matches a whole line"
            )
        try:
            re.compile(self.document_separator)
        except re.error as error:
            raise RecipeError(
                f"document_separator: {self.document_separator!r} is no regular expression ({error}); "
                f"expected '{BLANK_LINE}' or a regular expression that matches a whole line"
            ) from error

    def parts_documents(self, line: str) -> bool:
        """Whether a line of a text file, given without white space at its ends, parts two documents.

        >>> DocumentForm().parts_documents(""), DocumentForm(sentence_per_line=True).parts_documents("")
        (False, True)
        """
        if self.document_separator is None:
            return self.sentence_per_line and not line
        if self.document_separator == BLANK_LINE:
            return not line
        return re.fullmatch(self.document_separator, line) is not None


def file_paragraphs(lines: Iterable[str], form: DocumentForm) -> Iterator[Paragraph]:
    """The paragraphs of a text file, whose documents ``form`` parts.

    A paragraph is its lines joined by one space; with ``form.sentence_per_line`` every line is a paragraph of its own
    and already a sentence. A document without text is left out. Lines without any blank one between them become
    paragraphs of a million characters, so that such a file need not be held whole.

    >>> list(file_paragraphs(["One is", "wrapped.", "", "Two.", "---", "Three."], DocumentForm(False, "-+")))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Paragraph(text='One is wrapped.', starts_document=True), Paragraph(text='Two.', starts_document=False),
     Paragraph(text='Three.', starts_document=True)]
    """
    return _paragraphs(lines, form.sentence_per_line, form.parts_documents)


def row_paragraphs(text: str, form: DocumentForm) -> Iterator[Paragraph]:
    """The paragraphs of a row's text, which is one document: as `file_paragraphs`, but no line parts documents."""
    return _paragraphs(_lines(text), form.sentence_per_line, lambda line: False)


def _paragraphs(
    lines: Iterable[str], sentence_per_line: bool, parts_documents: Callable[[str], bool]
) -> Iterator[Paragraph]:
    starts_document = True
    wrapped: list[str] = []
    characters = 0
    for line in itertools.chain(map(str.strip, lines), [""]):  # the end of the text ends its last paragraph
        parts = parts_documents(line)
        if line and not parts:
            wrapped.append(line)
            characters += len(line)
            if not sentence_per_line and characters < _LONGEST_PARAGRAPH:
                continue
        if wrapped:
            yield Paragraph(" ".join(wrapped), starts_document)
            starts_document = False
            wrapped, characters = [], 0
        if parts:
            starts_document = True


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without its byte order mark, every line ending (CRLF, CR, LF) as ``"\\n"``.

    The file is held in memory whole. An empty file is the empty text.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or holds a NUL byte (then it is no text, or UTF-16). The
            message names the file, the offset of the first such byte from the start of the file (0 is the first
            byte, a byte order mark counts) and how to convert it.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return decode_text(data, str(path), path)


def decode_text(data: bytes, name: str, file: Path | None = None) -> str:
    """`read_text` for bytes that are at hand; ``name`` is what messages call them, ``file`` where they lie, if so."""
    return "\n".join(decode_lines([data], name, file))


def decode_lines(blocks: Iterable[bytes], name: str, file: Path | None = None) -> Iterator[str]:
    """The lines of a text that comes in blocks, cut anywhere; joined by ``"\\n"`` they are what `decode_text` gives.

    No more than one block and the line that it is cut in are held at a time.

    Raises:
        DataError: as `read_text`, when the lines before the fault have been given.
    """
    rest = ""
    for piece in decode_pieces(blocks, name, file):
        lines = _lines(piece)
        rest = lines.pop()
        yield from lines
    yield rest


def decode_pieces(blocks: Iterable[bytes], name: str, file: Path | None = None) -> Iterator[str]:
    """The text of `decode_lines` with its line endings as they stand, in pieces: each but the last ends with a line.

    The last piece is the last line where no line ending follows it, else it is empty.

    Raises:
        DataError: as `read_text`, when the pieces before the fault have been given.
    """
    begun: list[bytes] = []
    offset, line = 0, 1  # of what is decoded next
    for block in blocks:
        # A CR at the end of a block may be one half of a CRLF: it waits for the next block.
        end = 1 + max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1))
        if end:
            chunk = b"".join([*begun, block[:end]])
            yield _decode(chunk, offset, line, name, file)
            offset += len(chunk)
            line += _line_endings(chunk)
            begun = []
        begun.append(block[end:])
    yield _decode(b"".join(begun), offset, line, name, file)


def whole_lines(piece: str) -> list[str]:
    r"""The lines of a piece from `decode_pieces`, without their endings; none where it is empty.

    >>> whole_lines("a\r\n\nb\n"), whole_lines("c"), whole_lines("")
    (['a', '', 'b'], ['c'], [])
    """
    lines = _lines(piece)
    if not lines[-1]:  # what follows the last line ending
        lines.pop()
    return lines


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _line_endings(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _decode(data: bytes, offset: int, line: int, name: str, file: Path | None) -> str:
    """The text of whole lines, the first of which is number ``line`` and ``offset`` bytes from the file's start."""
    if not offset and data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(
            f"{name}: not UTF-8 at byte offset 0: it starts with the mark of UTF-16; "
            f"convert it: {_iconv(file, 'utf-16')}"
        )
    start = len(_BYTE_ORDER_MARK) if not offset and data.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text = str(memoryview(data)[start:], "utf-8")
    except UnicodeDecodeError as error:
        place = start + error.start
        raise DataError(
            f"{name}: not UTF-8 at byte offset {offset + place} (line {line + _line_endings(data[:place])}, byte "
            f"0x{data[place]:02x}: {error.reason}); convert it, if it is Latin-1: {_iconv(file, 'latin1')}"
        ) from error
    nul = data.find(b"\0")
    if nul >= 0:
        raise DataError(
            f"{name}: NUL byte at byte offset {offset + nul}: this is no text file, or its text is UTF-16; "
            f"convert it, if so: {_iconv(file, 'utf-16')}"
        )
    return text


def _iconv(file: Path | None, encoding: str) -> str:
    convert = f"iconv -f {encoding} -t utf-8"
    return convert if file is None else f"{convert} '{file}' > '{file.with_suffix('.utf8' + file.suffix)}'"
