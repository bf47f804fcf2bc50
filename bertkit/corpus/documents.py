"""Text files → documents → paragraphs.

A document is what the next-sentence task keeps together: segment B either follows A in the same document, or comes
from another one (BERT §3.1). A paragraph is what a sentence never crosses.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertkit.errors import DataError, RecipeError, listed

logger = logging.getLogger(__name__)

TEXT_SUFFIX = ".txt"
BLANK_LINE = "blank-line"
_LATER_SUFFIXES = (".gz", ".zst", ".jsonl", ".parquet")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class DocumentForm:
    r"""How the lines of a text file make documents.

    By default a file is one document, a blank line ends a paragraph, and the lines of a paragraph belong together
    (hard-wrapped text).

    Attributes:
        sentence_per_line: every line is one sentence and is not split further; a blank line ends a document. This is
            the input form of the released ``create_pretraining_data.py``.
        document_separator: what parts the documents of one file: ``"blank-line"``, or a regular expression that
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
        """Whether a line, given without white space at its ends, parts two documents.

        >>> DocumentForm().parts_documents(""), DocumentForm(sentence_per_line=True).parts_documents("")
        (False, True)
        """
        if self.document_separator is None:
            return self.sentence_per_line and not line
        if self.document_separator == BLANK_LINE:
            return not line
        return re.fullmatch(self.document_separator, line) is not None


def find_text_files(paths: Sequence[str | Path]) -> list[Path]:
    """The text files that ``paths`` name, in a fixed order, each once.

    A file stands where it was given. A folder stands for every ``*.txt`` below it, in the order of their names;
    names that start with a dot are passed over, as is ``__MACOSX``. A file reached twice counts once, since as two
    documents it would offer its own text as a "random" next segment.

    Raises:
        DataError: nothing was given, a path does not exist, a folder holds no ``.txt`` file, or a file is of another
            kind. All faults are named in one message.
    """
    if not paths:
        raise DataError(f"no text files were given; expected {TEXT_SUFFIX} files, or folders that hold some")
    faults: list[str] = []
    found: dict[Path, Path] = {}
    repeated: list[str] = []
    for given in map(Path, paths):
        files = _files_at(given, faults)
        repeated += [str(file) for file in files if file.resolve() in found]
        for file in files:
            found.setdefault(file.resolve(), file)
    if faults:
        raise DataError(listed(faults))
    if repeated:
        logger.warning("given more than once, used once: %s", ", ".join(repeated))
    return list(found.values())


def _files_at(path: Path, faults: list[str]) -> list[Path]:
    if path.is_dir():
        files = _files_below(path)
        if not files:
            faults.append(f"{path}: no {TEXT_SUFFIX} file in this folder or below it")
        return files
    if not path.exists():
        faults.append(f"{path}: no such file or folder")
    elif path.suffix.lower() in _LATER_SUFFIXES:
        faults.append(f"{path}: {path.suffix} is not supported yet; expected a {TEXT_SUFFIX} file of plain UTF-8 text")
    elif path.suffix.lower() != TEXT_SUFFIX:
        kind = path.suffix or "a file without suffix"
        faults.append(f"{path}: {kind} is not supported; if it is plain UTF-8 text, rename it to end in {TEXT_SUFFIX}")
    else:
        return [path]
    return []


def _files_below(folder: Path) -> list[Path]:
    files = []
    for parent, folders, names in os.walk(folder):
        # Archives made on a Mac carry binary "._name.txt" twins of every file.
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        texts = [name for name in names if name.lower().endswith(TEXT_SUFFIX) and not name.startswith(".")]
        files += [Path(parent, name) for name in texts]
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


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
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(
            f"{name}: not UTF-8 at byte offset 0: it starts with the mark of UTF-16; "
            f"convert it: {_iconv(file, 'utf-16')}"
        )
    start = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text = data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = start + error.start
        raise DataError(
            f"{name}: not UTF-8 at byte offset {offset} (byte 0x{data[offset]:02x}: {error.reason}); "
            f"convert it, if it is Latin-1: {_iconv(file, 'latin1')}"
        ) from error
    nul = data.find(b"\0")
    if nul >= 0:
        raise DataError(
            f"{name}: NUL byte at byte offset {nul}: this is no text file, or its text is UTF-16; "
            f"convert it, if so: {_iconv(file, 'utf-16')}"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _iconv(file: Path | None, encoding: str) -> str:
    convert = f"iconv -f {encoding} -t utf-8"
    return convert if file is None else f"{convert} '{file}' > '{file.with_suffix('.utf8.txt')}'"


class TextLines:
    """The lines of some text files, read anew at every iteration: what a vocabulary is trained on.

    Iterating yields the lines that hold more than white space, in order, with white space at their ends left out, and
    raises what `read_text` raises.
    """

    def __init__(self, files: Sequence[Path]):
        self.files = list(files)

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            for line in read_text(file).split("\n"):
                if text := line.strip():
                    yield text


def read_documents(path: str | Path, form: DocumentForm | None = None) -> Iterator[list[str]]:
    """The documents of one file, each a list of its paragraphs in order.

    A paragraph is its lines joined by one space; with ``form.sentence_per_line`` every line is a paragraph of its own
    and already a sentence. No paragraph is empty, and a document without text is left out.

    Raises:
        DataError: as `read_text`.
    """
    form = form or DocumentForm()
    paragraphs: list[str] = []
    lines: list[str] = []
    for line in map(str.strip, read_text(path).split("\n")):
        parts_documents = form.parts_documents(line)
        if line and not parts_documents:
            lines.append(line)
            if not form.sentence_per_line:
                continue
        if lines:
            paragraphs.append(" ".join(lines))
            lines = []
        if parts_documents and paragraphs:
            yield paragraphs
            paragraphs = []
    if lines:
        paragraphs.append(" ".join(lines))
    if paragraphs:
        yield paragraphs
