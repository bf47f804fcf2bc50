"""Text of other encodings → UTF-8: the Windows-1252 of older programs, the UTF-16 of Excel's "Unicode text", UTF-32."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

from bertkit.runtime.errors import DataError, shortened
from bertkit.runtime.progress import say
from bertkit.runtime.reading.text import NO_UTF8, iterating, line_endings, marked_encoding

_LOWER = "a-zß-öø-ÿœšž"
_NO_WORD = re.compile(  # what letters of other encodings become: fŸr, MŠrz, se¤or, dzia³a
    rf"[{_LOWER}](?:[À-ÖØ-ÞŒŠŽŸ](?![A-ZÀ-ÖØ-ÞŒŠŽŸ])|[¢-©¬®-´¶¸¹¼-¾†‡‚„ˆ˜‰‹›•™](?=[{_LOWER}])|[¤†‡ˆ˜])"
)
_ALPHABETS = ("àâäáãåæçéèêëîïíìôòóöøœùûúüñß", "áéíóúýþæðö", "äöõüåšž")  # most of Western Europe, Icelandic, Finnic
_DOUBLED = re.compile(r"([äöüõÄÖÜÕ])\1")  # long vowels of Finnish and Estonian
_RUN = re.compile(r"(?=[^\0-\x7f]{0,2}[À-ÿŒœŠšŽžŸƒ])[^\0-\x7f]{3,}")  # what words of other scripts become
_BEGUN = re.compile(rb"(?:\r|[\xc2-\xf4][\x80-\xbf]{0,2})\Z")  # CRLF and characters may go on in the next block
_SAMPLE = 1 << 16  # bytes that tell the encoding
_SHOWN = 60  # characters of the example in the message


def as_utf8(blocks: Iterable[bytes], name: str, on_other: Callable[[str], object] | None = None) -> Iterator[bytes]:
    """Yields the bytes of a text in UTF-8; says on stderr if the encoding was another, with an example.

    UTF-8 passes unchanged, and so do its faults. Text whose first bytes that are not ASCII are not UTF-8 is read as
    Windows-1252 (cp1252) from there on, if it has words of Western Europe; text with a mark of UTF-16 or UTF-32, or
    with its NUL bytes, as that. At most one block and the incomplete line before it are held in memory.

    Args:
        blocks: the bytes of a text file, decompressed.
        name: name of the file in messages.
        on_other: called instead with the note, for text in another encoding, before its first bytes are converted.

    Raises:
        DataError: the text has another encoding; the message names its first line that is not UTF-8, or in Windows-1252
            the line of a byte that is no character. Or it is UTF-16 or UTF-32 with bytes that are no character.
    """
    on_other = on_other or say
    with iterating(blocks) as given:
        first = next(given, b"")
        if encoding := _find_wide_encoding(first):
            wide = encoding[:6].upper().replace("_", "-")
            on_other(_note(name, wide, first[:_SAMPLE].decode(encoding, "ignore")))
            decoder = codecs.getincrementaldecoder(encoding)()
            try:
                for block in chain([first], given):
                    yield decoder.decode(block).encode()
                yield decoder.decode(b"", True).encode()
            except UnicodeDecodeError as error:
                raise DataError(f"{name}: damaged or truncated {wide} ({error.reason}); {NO_UTF8}") from error
            return
        remaining = _end_with_whole_characters(chain([first], given))
        is_ascii, line = True, 1
        for block in remaining:
            fault = find_fault(block)
            if fault is not None:
                break
            is_ascii = is_ascii and block.isascii()
            line += line_endings(block)
            yield block
        else:
            return
        at = f"{name}, line {line + line_endings(block[:fault])}"
        begin = block.rfind(b"\n", 0, fault) + 1
        if is_ascii and block[:fault].isascii() and _is_windows(block[begin:], at):
            example = block[begin:].partition(b"\n")[0]
            on_other(_note(name, "Windows-1252 (cp1252)", example.decode("cp1252", "replace")))
            yield from _recode_windows(chain([block], remaining), name, line)
        else:  # UTF-8 with a fault, which its reader reports
            yield block
            yield from remaining


def find_fault(data: bytes) -> int | None:
    """Returns the position of the first byte that is not UTF-8; None for UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _end_with_whole_characters(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the bytes in blocks that end with a whole character of UTF-8, and not within a CRLF; the last one ends as
    the text does.

    A block that may not do so ends before its last line, which then is judged as a whole.
    """
    begun = b""
    for block in blocks:
        joined = begun + block
        end = len(joined)
        if found := _BEGUN.search(joined, max(0, end - 3)):
            end = joined.rfind(b"\n") + 1 or found.start()
        if end:
            yield joined[:end]
        begun = joined[end:]
    if begun:
        yield begun


def _recode_windows(blocks: Iterable[bytes], name: str, line: int) -> Iterator[bytes]:
    """Yields cp1252 from a line on as UTF-8; DataError for one of the five bytes that it lacks."""
    for block in blocks:
        try:
            yield block.decode("cp1252").encode()
        except UnicodeDecodeError as error:
            line, byte = line + line_endings(block[: error.start]), block[error.start]
            raise DataError(f"{name}, line {line}: byte 0x{byte:02x} is none of Windows-1252; {NO_UTF8}") from error
        line += line_endings(block)


def _find_wide_encoding(block: bytes) -> str:
    """Returns the name of UTF-16 or UTF-32 in the byte order of a text, empty for a text of another encoding."""
    if marked := marked_encoding(block):
        return marked
    sample = block[:_SAMPLE]
    if b"\0" not in sample:
        return ""
    for encoding in ("utf_32_le", "utf_32_be"):
        with suppress(UnicodeDecodeError):  # bytes of another text are no numbers of characters
            if codecs.getincrementaldecoder(encoding)().decode(sample):
                return encoding
    from charset_normalizer import from_bytes

    for whole in (sample, sample[:-2]):  # the sample may end within a pair of surrogates
        if (best := from_bytes(whole, cp_isolation=["utf_16_le", "utf_16_be"]).best()) is not None:
            return best.encoding
    return ""


def _is_windows(lines: bytes, place: str) -> bool:
    """Returns whether lines, of which the first is not UTF-8, are plausible as cp1252; not if most are UTF-8.

    The text has to have the letters of a language that is written in cp1252, and few of them beside two others, as in
    Greek or Chinese; of a line or two, other encodings may have such letters too. charset-normalizer is not used: it
    refuses what has many accents, as ``été``. ``place`` is that of the first line, for the DataError about others.
    """
    sample = b"\n".join(line for line in lines[:_SAMPLE].split(b"\n") if not line.isascii())
    read_as_utf8 = [each for each in sample.decode("utf-8", "replace") if not each.isascii()]
    if read_as_utf8.count("\ufffd") <= len(read_as_utf8) / 2:
        return False
    text = sample.decode("cp1252", "replace")
    lower = text.lower().replace("õe", "oe")  # Portuguese; other õ are Estonian, or were the ő of Hungarian
    letters = [each for each in lower if each.isalpha() and not each.isascii() and each not in "µªº"]
    number = sum(not each.isascii() for each in text)
    has_no_words = 10 * len(_NO_WORD.findall(text)) > number or "\ufffd" in text
    has_runs = 4 * sum(map(len, _RUN.findall(_DOUBLED.sub(r"\1", text)))) > number
    fits = any(20 * sum(each not in alphabet for each in letters) <= len(letters) for alphabet in _ALPHABETS)
    if has_no_words or has_runs or not fits:
        raise DataError(f"{place}: not UTF-8, nor UTF-16, UTF-32 or Windows-1252, which were tried; {NO_UTF8}")
    return True


def _note(name: str, encoding: str, example: str) -> str:
    text = shortened(" ".join(example.removeprefix("\ufeff").split()), _SHOWN)
    return f"{name}: not UTF-8; read as {encoding}: {text}"
