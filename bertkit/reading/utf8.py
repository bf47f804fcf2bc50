"""Decodes UTF-8, with or without a byte order mark and with any line ending; errors name the byte offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bertkit.errors import DataError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_text(path: str | Path) -> str:
    """Returns the text of a UTF-8 file, without its byte order mark, every line ending (CRLF, CR, LF) as ``"\\n"``.

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
    """Decodes bytes as `read_text`; messages name them ``name``, and the file, if there is one, is ``file``."""
    return "\n".join(decode_lines([data], name, file))


def decode_lines(blocks: Iterable[bytes], name: str, file: Path | None = None) -> Iterator[str]:
    """Yields the lines of a text in blocks that are cut anywhere; joined by ``"\\n"`` they equal `decode_text`.

    No more than one block and the line that it is cut in are held at a time.

    Raises:
        DataError: as `read_text`, when the lines before the fault have been given.
    """
    rest = ""
    for piece in decode_pieces(blocks, name, file):
        lines = split_lines(piece)
        rest = lines.pop()
        yield from lines
    yield rest


def decode_pieces(blocks: Iterable[bytes], name: str, file: Path | None = None) -> Iterator[str]:
    """Yields the text with its original line endings, in pieces; each but the last ends with a line ending.

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
    r"""Returns the lines of a piece from `decode_pieces`, without their endings; empty for an empty piece.

    >>> whole_lines("a\r\n\nb\n"), whole_lines("c"), whole_lines("")
    (['a', '', 'b'], ['c'], [])
    """
    lines = split_lines(piece)
    if not lines[-1]:  # what follows the last line ending
        lines.pop()
    return lines


def split_lines(text: str) -> list[str]:
    """Splits text at CRLF, CR and LF; text that ends with a line ending gives an empty last line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _line_endings(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _decode(data: bytes, offset: int, line: int, name: str, file: Path | None) -> str:
    """Decodes whole lines; the first has number ``line`` and begins ``offset`` bytes from the file's start."""
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
