"""Bytes → text: decompression block by block, and UTF-8 with or without a byte order mark and with any line ending."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar

from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.paths import compression_of

Item = TypeVar("Item")

_BLOCK = 1 << 20
_SMALL_BLOCK = 1 << 16
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_WIDE_MARKS = {  # that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_GIT_LFS = b"version https://git-lfs.github.com/spec/"
POINTER = "a pointer of Git LFS, not the file itself; fetch it: git lfs pull"
"""Fault of a file that `is_pointer`, and its remedy."""

NO_UTF8 = (
    "save it as UTF-8 in the program that wrote it; if you know its encoding: iconv -f ENCODING -t utf-8 OLD > NEW"
)
"""Remedy of a text in an unknown encoding. A guess would give wrong letters."""


@contextmanager
def iterating(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Gives an iterator over ``items`` that is closed at the end of the block, whatever ends it.

    A generator that reads a file closes the file when it ends or is closed. An exception in the code that iterates over
    it does neither, and keeps it alive: so this code closes it.
    """
    iterator = iter(items)
    try:
        yield iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def read_blocks(
    file: Path, compression: str, on_progress: Callable[[int], object] = lambda position: None, block_size: int = _BLOCK
) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in blocks of at most ``block_size`` bytes.

    A compressed file may consist of several concatenated streams.

    Args:
        file: path of the file.
        compression: one of ``COMPRESSIONS``, or empty.
        on_progress: called before each block and at the end with the number of bytes on disk that have been read; not
            for a pipe.
        block_size: maximum size of a block in bytes.

    Raises:
        DataError: the file cannot be read, is a pointer of Git LFS, or a compressed file is damaged or truncated.
    """
    try:
        with file.open("rb") as stored:
            if stored.peek(len(_GIT_LFS)).startswith(_GIT_LFS):
                raise DataError(f"{file}: {POINTER}")
            if compression and not stored.peek(1):
                raise EOFError("it is empty")
            unpacked: BufferedIOBase = stored
            if compression == ".gz":
                unpacked = gzip.GzipFile(fileobj=stored)
            elif compression == ".zst":
                import pyarrow as pa

                unpacked = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd")
            has_position = stored.seekable()  # a pipe has none
            while block := unpacked.read(block_size):
                if has_position:
                    on_progress(stored.tell())
                yield block
            if has_position:
                on_progress(stored.tell())
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{file}: cannot be read: {error.strerror}") from error
        raise DataError(f"{file}: damaged or truncated ({error}); download or compress it again") from error


def is_pointer(file: Path) -> bool:
    """Returns whether a file is a pointer of Git LFS, which stands where its content was not fetched; False where it
    cannot be read."""
    with suppress(OSError), file.open("rb") as stored:
        return stored.read(len(_GIT_LFS)) == _GIT_LFS
    return False


def read_range(file: Path, start: int, end: int) -> Iterator[bytes]:
    """Yields the bytes of a file from ``start`` up to, not including, ``end``, in blocks.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with file.open("rb") as stored:
            stored.seek(start)
            while block := stored.read(min(_BLOCK, end - stored.tell())):
                yield block
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error


def document_boundary(file: Path, place: int, is_boundary: Callable[[str], bool] | None) -> int:
    """Returns a byte of a file, at or after ``place``, at which a document of lines begins; else its size.

    A larger ``place`` has the same byte or a later one, so that ranges between such bytes have each document once.

    Args:
        file: an uncompressed file.
        place: a byte of the file, or its size.
        is_boundary: whether a line, stripped of white space, separates documents: the next one begins after it. None
            if each line is a document.

    Raises:
        DataError: the file cannot be read.
    """
    if not place:
        return 0
    try:
        with file.open("rb") as stored:
            stored.seek(place - 1)
            stored.readline()  # the rest of the line before, or only its end
            while is_boundary is not None and (line := stored.readline()):
                if is_boundary(line.decode("utf-8", "replace").strip()):
                    break
            return stored.tell()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error


def read_shares(file: Path, compression: str, on_progress: Callable[[float], None]) -> Iterator[bytes]:
    """Yields blocks of at most 64 KiB as `read_blocks` and reports the share of the file that is read, in [0, 1].

    The size of a pipe is unknown; no progress is reported.
    """
    size = file.stat().st_size if file.is_file() else 0
    return read_blocks(file, compression, lambda at: on_progress(at / size) if size else None, _SMALL_BLOCK)


# ---- UTF-8 -----------------------------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """Reads a UTF-8 file, removes a byte order mark and converts all line endings (CRLF, CR, LF) to ``"\\n"``.

    A file that is compressed, by its name, is decompressed. The whole file is held in memory. An empty file gives an
    empty string.

    Raises:
        DataError: the file cannot be read, is damaged, is not UTF-8, or contains a NUL byte (it is then binary or
            UTF-16). The message names the file, the offset of the first such byte from the start of its content (from
            0, including a byte order mark) and how to convert it.
    """
    return read_with_fingerprint(Path(path))[0]


def read_with_fingerprint(path: Path) -> tuple[str, str]:
    """Returns the text of a file as `read_text`, and ``sha256:`` with the first 16 digits of the SHA-256 of its
    decompressed bytes."""
    data = b"".join(read_blocks(path, compression_of(path)))
    return decode_text(data, str(path)), f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"


def decode_text(data: bytes, name: str) -> str:
    """Decodes bytes as `read_text`; messages show ``name``."""
    return "\n".join(decode_lines([data], name))


def decode_lines(blocks: Iterable[bytes], name: str, offset: int = 0) -> Iterator[str]:
    """Decodes blocks that may end within a line, and yields lines; joined by ``"\\n"`` they equal `decode_text`.

    At most one block and the incomplete line before it are held in memory. ``offset`` is the place of the first block
    in the file, for messages, whose line numbers are then counted from there.

    Raises:
        DataError: as `read_text`, after the lines before the fault have been yielded.
    """
    rest = ""
    with iterating(decode_pieces(blocks, name, offset)) as pieces:
        for piece in pieces:
            lines = split_lines(piece)
            rest = lines.pop()
            yield from lines
    yield rest


def decode_pieces(blocks: Iterable[bytes], name: str, offset: int = 0) -> Iterator[str]:
    """Yields the text with its original line endings, in pieces; each but the last ends with a line ending.

    The last piece is the last line if no line ending follows it, else it is empty; where a block ended with a CR, it
    may have the line before too, with that CR.

    Raises:
        DataError: as `read_text`, after the pieces before the fault have been yielded.
    """
    begun: list[bytes] = []
    line = 1  # of the next piece, as `offset`
    with iterating(blocks) as remaining:
        for block in remaining:
            # A CR at the end of a block may be the first half of a CRLF, so it is kept for the next block.
            end = 1 + max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1))
            if end:
                chunk = b"".join([*begun, block[:end]])
                yield _decode(chunk, offset, line, name)
                offset += len(chunk)
                line += line_endings(chunk)
                begun = []
            begun.append(block[end:])
    yield _decode(b"".join(begun), offset, line, name)


def whole_lines(piece: str) -> list[str]:
    r"""Returns the lines of a piece from `decode_pieces`, without their endings; empty for an empty piece.

    >>> whole_lines("a\r\n\nb\n"), whole_lines("c"), whole_lines("")
    (['a', '', 'b'], ['c'], [])
    """
    lines = split_lines(piece)
    if not lines[-1]:  # the rest after the last line ending
        lines.pop()
    return lines


def marked_encoding(data: bytes) -> str:
    """Returns ``utf-16`` or ``utf-32`` by the byte order mark at the start of a text; empty without one of these."""
    return next((name for mark, name in _WIDE_MARKS.items() if data.startswith(mark)), "")


def split_lines(text: str) -> list[str]:
    """Splits text at CRLF, CR and LF; the last line is empty if the text ends with a line ending."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def line_endings(data: bytes) -> int:
    """Returns the number of line endings: CRLF, CR and LF."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _decode(data: bytes, offset: int, line: int, name: str) -> str:
    """Decodes complete lines; the first has number ``line`` and starts at byte ``offset`` of the file."""
    start = len(_BYTE_ORDER_MARK) if not offset and data.startswith(_BYTE_ORDER_MARK) else 0
    wide = "" if offset else marked_encoding(data)
    convert = f"its mark is that of {wide.upper()}: convert it: iconv -f {wide} -t utf-8 OLD > NEW" if wide else ""
    try:
        text = str(memoryview(data)[start:], "utf-8")
    except UnicodeDecodeError as error:
        place = start + error.start
        at = line + line_endings(data[:place])
        others = [each for each in data.decode("utf-8", "replace") if not each.isascii()]
        is_mostly_utf8 = others.count("\ufffd") < len(others) / 2
        remedy = convert or ("most of the text is UTF-8, so mend this line" if is_mostly_utf8 else NO_UTF8)
        raise DataError(
            f"{name}: not UTF-8 at byte offset {offset + place} (line {at}, byte 0x{data[place]:02x}: {error.reason}); "
            f"{remedy}"
        ) from error
    nul = data.find(b"\0")
    if nul >= 0:
        remedy = convert or f"this is not a text file, or it is UTF-16 or UTF-32; {NO_UTF8}"
        raise DataError(f"{name}: NUL byte at byte offset {offset + nul}: {remedy}")
    return text
