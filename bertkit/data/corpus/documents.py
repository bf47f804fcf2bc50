"""Lines → the paragraphs of documents.

A document is the unit of the next-sentence task: segment B either follows A in the same document or comes from another
one (BERT §3.1). A sentence never crosses the end of a paragraph.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bertkit.runtime.errors import RecipeError
from bertkit.runtime.reading.text import iterating, split_lines

BLANK_LINE = "blank-line"
_LONGEST_PARAGRAPH = 1 << 20  # characters
_EXPECTED = f"expected '{BLANK_LINE}' or a regular expression that matches a whole line"


class Paragraph(NamedTuple):
    """One paragraph of a document.

    Attributes:
        text: text of the paragraph, stripped of white space at both ends, never empty.
        starts_document: True for the first paragraph of each document.
    """

    text: str
    starts_document: bool


@dataclass(frozen=True)
class DocumentForm:
    r"""Rules that split text into documents and paragraphs.

    By default a text file is one document, a blank line ends a paragraph, and the lines of a paragraph are joined
    (hard-wrapped text). In row formats (JSONL, Parquet, a Hub data set) a row is always one document.

    Attributes:
        sentence_per_line: every line is one sentence and is not split further; in a text file a blank line ends a
            document. This is the input format of the released ``create_pretraining_data.py``.
        document_separator: line that separates the documents of a text file: ``"blank-line"``, or a regular expression
            that matches a whole line, stripped of white space at both ends. The separator line is dropped. Together
            with ``sentence_per_line`` it replaces the blank line, which then has no effect.

    Raises:
        RecipeError: ``document_separator`` is empty or is not a valid regular expression.

    >>> DocumentForm(document_separator=r"= [^=]+ =").document_separator
    '= [^=]+ ='
    """

    sentence_per_line: bool = False
    document_separator: str | None = None

    def __post_init__(self) -> None:
        if self.document_separator is None:
            return
        if not self.document_separator.strip():
            raise RecipeError(f"document_separator: {self.document_separator!r} is empty; {_EXPECTED}")
        try:
            re.compile(self.document_separator)
        except (re.error, OverflowError, RecursionError) as error:  # the latter of huge counts and of deep groups
            raise RecipeError(
                f"document_separator: {self.document_separator!r} is not a regular expression ({error}); {_EXPECTED}"
            ) from error

    def parts_documents(self, line: str) -> bool:
        """Returns whether ``line`` separates two documents of a text file; ``line`` has to be stripped.

        >>> DocumentForm().parts_documents(""), DocumentForm(sentence_per_line=True).parts_documents("")
        (False, True)
        """
        if self.document_separator is None:
            return self.sentence_per_line and not line
        if self.document_separator == BLANK_LINE:
            return not line
        return re.fullmatch(self.document_separator, line) is not None


def file_paragraphs(lines: Iterable[str], form: DocumentForm) -> Iterator[Paragraph]:
    """Yields the paragraphs of a text file, split into documents by ``form``.

    A paragraph is its lines joined by one space; with ``form.sentence_per_line`` every line is a paragraph and one
    sentence. Documents without text are skipped. A run of lines without a blank line is cut into paragraphs of about a
    million characters (2²⁰), so that such a file does not have to fit into memory.

    >>> list(file_paragraphs(["One is", "wrapped.", "", "Two.", "---", "Three."], DocumentForm(False, "-+")))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Paragraph(text='One is wrapped.', starts_document=True), Paragraph(text='Two.', starts_document=False),
     Paragraph(text='Three.', starts_document=True)]
    """
    with iterating(lines) as remaining:
        yield from _join_lines(remaining, form.sentence_per_line, form.parts_documents)


def row_paragraphs(text: str, form: DocumentForm) -> Iterator[Paragraph]:
    """Yields the paragraphs of a row's text as `file_paragraphs` does; no line separates documents: a row is one."""
    return _join_lines(split_lines(text), form.sentence_per_line, lambda line: False)


def _join_lines(
    lines: Iterable[str], sentence_per_line: bool, parts_documents: Callable[[str], bool]
) -> Iterator[Paragraph]:
    starts_document = True
    wrapped: list[str] = []
    characters = 0
    for line in itertools.chain(map(str.strip, lines), [""]):  # the added blank line ends the last paragraph
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
