"""Folders whose files are one text each: plain text, Markdown, HTML, and mails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from html.parser import HTMLParser
from pathlib import Path

from bertkit.errors import DataError
from bertkit.progress import counted, say
from bertkit.reading.text import decode_text, read_blocks
from bertkit.tables import Table
from bertkit.tables.encodings import as_utf8

FORMS = (".txt", ".md", ".html", ".htm", ".eml")
_NOT_SHOWN = {"script", "style", "head", "template", "noscript"}
_INLINE = {"a", "abbr", "b", "code", "em", "font", "i", "mark", "q", "s", "small", "span", "strong", "sub", "sup", "u"}


def document_parts(folder: Path, size: int) -> Iterator[tuple[Table, float]]:
    """Yields the files of a folder and its subfolders as tables of ``file`` and ``text``, with the share that is read.

    The files are those that end in `FORMS`, sorted by their paths; the others and those whose names begin with a dot
    are counted on stderr. ``file`` is the path below the folder.

    Args:
        folder: the folder.
        size: files of a table.

    Raises:
        DataError: there are no such files, or one cannot be read, or has no text.
    """
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in found if path.suffix.lower() in FORMS and not _is_hidden(path.relative_to(folder))]
    if not files:
        raise DataError(f"--input {folder}: has no file that ends in {', '.join(FORMS)}")
    if len(found) > len(files):
        say(f"--input {folder}: {counted(len(found) - len(files), 'other file')} passed over")
    for at in range(0, len(files), size):
        part = files[at : at + size]
        columns = {"file": [str(path.relative_to(folder)) for path in part], "text": list(map(read_document, part))}
        yield Table(columns, str(folder), "", first_row=at), min(1.0, (at + size) / len(files))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def read_document(path: Path) -> str:
    """Returns the text of a file.

    Of HTML it is the visible text. Of a mail (``.eml``) it is the subject and the plain text, or without plain text
    the visible text of its HTML; attachments are left out.

    Raises:
        DataError: the file cannot be read, or has no text.
    """
    data, form = b"".join(read_blocks(path, "")), path.suffix.lower()
    if form == ".eml":
        text = _text_of_mail(data)
    else:
        text = decode_text(b"".join(as_utf8([data], str(path))), str(path))
        text = text_of_html(text) if form in (".html", ".htm") else text
    if not text.strip():
        raise DataError(f"{path}: has no text; remove the file")
    return text.strip()


def _text_of_mail(data: bytes) -> str:
    mail = BytesParser(EmailMessage, policy=policy.default).parsebytes(data)
    body = mail.get_body(preferencelist=("plain", "html"))
    text = ""
    if body is not None:
        try:
            text = body.get_content()
        except (LookupError, UnicodeError):  # an unknown encoding
            text = (body.get_payload(decode=True) or b"").decode("utf-8", "replace")  # type: ignore[union-attr]
        text = text_of_html(text) if body.get_content_subtype() == "html" else text
    return "\n\n".join(filter(None, (str(mail["subject"] or "").strip(), text.replace("\r\n", "\n").strip())))


def text_of_html(html: str) -> str:
    """Returns the visible text of HTML, a line for each block.

    >>> text_of_html("<style>p {}</style><h1>Hello</h1><p>a <b>good</b>&nbsp;film<br>of 1999</p>")
    'Hello\\na good\\xa0film\\nof 1999'
    """
    parser = _VisibleText()
    parser.feed(html)
    parser.close()
    lines = (" ".join(re.split(r"[ \t\n\r\f]+", line)).strip(" ") for line in "".join(parser.parts).split("\0"))
    return "\n".join(filter(None, lines))


class _VisibleText(HTMLParser):
    """Collects the text outside of elements that are not shown; a NUL stands between blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _NOT_SHOWN
        self._end_block(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in _NOT_SHOWN))
        self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data.replace("\0", " "))

    def _end_block(self, tag: str) -> None:
        if tag not in _INLINE:
            self.parts.append("\0")
