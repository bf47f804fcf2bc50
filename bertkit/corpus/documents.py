"""Lines → the paragraphs of documents.

A document is what the next-sentence task keeps together: segment B either follows A in the same document, or comes
from another one (BERT §3.1). A paragraph is what a sentence never crosses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bertkit.errors import RecipeError
from bertkit.reading.utf8 import split_lines

BLANK_LINE = "blank-line"
_LONGEST_PARAGRAPH = 1 << 20  # characters


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
    return _paragraphs(split_lines(text), form.sentence_per_line, lambda line: False)


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
