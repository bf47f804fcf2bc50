"""Text of other encodings → UTF-8: the Windows-1252 of older programs and the UTF-16 of Excel's "Unicode text"."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator

from bertkit.errors import DataError, shortened
from bertkit.progress import say
from bertkit.reading.text import iterating

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAMPLE = 1 << 16  # bytes that charset-normalizer looks at
_SHOWN = 60  # characters of the example in the message


def as_utf8(blocks: Iterable[bytes], name: str, on_other: Callable[[str], object] | None = None) -> Iterator[bytes]:
    """Yields the bytes of a text in UTF-8; says on stderr if the encoding was another, with an example.

    UTF-8 passes unchanged, and so do its faults. Text whose first bytes that are not ASCII are not UTF-8 is read as
    Windows-1252 (cp1252) from there on, if charset-normalizer finds it plausible; text with a mark of UTF-16, or with
    its NUL bytes, as UTF-16. At most one block is held in memory.

    Args:
        blocks: the bytes of a text file, decompressed.
        name: name of the file in messages.
        on_other: called instead with the note, for text in another encoding, before its first bytes are converted.

    Raises:
        DataError: the text has another encoding; the message names the most plausible one.
    """
    on_other = on_other or say
    checked = codecs.getincrementaldecoder("utf-8")()
    is_first = is_ascii = True
    with iterating(blocks) as remaining:
        for block in remaining:
            if is_first and (encoding := _utf_16(block)):
                on_other(_note(name, "UTF-16", block[:_SAMPLE].decode(encoding, "ignore")))
                yield from _recoded(block, remaining, encoding)
                return
            is_first = False
            if not (is_ascii and block.isascii()):
                try:
                    checked.decode(block)
                except UnicodeDecodeError as error:
                    if is_ascii and block[: error.start].isascii() and _is_windows(block[error.start :], name):
                        line = block[block.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
                        on_other(_note(name, "Windows-1252 (cp1252)", line.decode("cp1252", "replace")))
                        yield from _recoded(block, remaining, "cp1252")
                        return
                    yield block  # UTF-8 with a fault, which its reader reports
                    break
                is_ascii = False
            yield block
        yield from remaining


def _recoded(block: bytes, others: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(block).encode("utf-8", "replace")
    for each in others:
        yield decoder.decode(each).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


def _utf_16(block: bytes) -> str:
    """Returns the name of UTF-16 in the byte order of a text, empty for a text of another encoding."""
    if block.startswith(_UTF_16_MARKS):
        return "utf-16"
    if b"\0" not in block[:_SAMPLE]:
        return ""
    from charset_normalizer import from_bytes

    best = from_bytes(block[:_SAMPLE], cp_isolation=["utf_16_le", "utf_16_be"]).best()
    return best.encoding if best is not None else ""


def _is_windows(rest: bytes, name: str) -> bool:
    """Returns whether bytes, of which the first is not UTF-8, are plausible as cp1252; not if most are UTF-8."""
    from charset_normalizer import from_bytes

    sample = b"\n".join(line for line in rest[:_SAMPLE].split(b"\n") if not line.isascii())
    read_as_utf8 = [each for each in sample.decode("utf-8", "replace") if not each.isascii()]
    if read_as_utf8.count("\ufffd") <= len(read_as_utf8) / 2:
        return False
    if from_bytes(sample, cp_isolation=["cp1252"]).best() is not None:
        return True
    likely = from_bytes(sample).best()
    form = "ENCODING" if likely is None else likely.encoding
    seems = "its encoding is not recognised; if you know it" if likely is None else f"it may be {form}; if so"
    raise DataError(
        f"{name}: neither UTF-8 nor Windows-1252 (byte 0x{rest[0]:02x}); {seems}, convert it: "
        f"iconv -f {form} -t utf-8 OLD > NEW"
    )


def _note(name: str, encoding: str, example: str) -> str:
    text = shortened(" ".join(example.removeprefix("\ufeff").split()), _SHOWN)
    return f"{name}: not UTF-8; read as {encoding}: {text}"
