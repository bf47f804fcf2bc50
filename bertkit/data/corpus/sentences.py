"""Paragraph → sentences, by rules that need neither a model nor a language setting, or by a user's function.

The released ``create_pretraining_data.py`` expects one sentence per line, and its README leaves sentence splitting to
other tools. The next-sentence task tolerates some errors here, since its segments usually span several sentences.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import traceback
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bertkit.runtime.errors import DataError, RecipeError, did_you_mean

RULES_VERSION = "3"
"""Version of the splitters in this module; to be increased with every change of their results.

It is part of the key of a store of tokens.
"""

_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs mme mlle dr prof rev fr st ste sr jr hon gen col maj capt cpt cmdr lt sgt gov sen rep pres supt "
    "mt ft vs viz etc cf ca approx esp resp incl ibid op al ed eds transl dept univ assn bros inc ltd corp".split()
)
# Abbreviations only if a number follows: "No. 7" and "Jan. 5", but "No. He did not."
_BEFORE_NUMBERS = frozenset(
    "no nos vol vols p pp fig figs ch sec art par eq jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_CLOSERS = "\"'”’“‘»›«‹)\\]}"  # “ ‘ « ‹ in German
_WIDE_CLOSERS = "」』”’）】》〉〕"
_OPENERS = "\"'“‘„‚«‹»›([{¿¡「『（【《〈"
# Thai, Lao, Khmer and Burmese separate phrases, not words, by white space.
_PHRASE_SPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# Letters and marks of all scripts without spaces between words: the above, Tibetan, Tai scripts and Khmer symbols,
# Balinese, Chinese and Japanese with their punctuation, Yi, Javanese, more Burmese and Tai, wide and narrow forms.
_SPACELESS = re.compile(
    rf"[{_PHRASE_SPACED}\u0f00-\u0fff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3001-\u312f\u31a0-\u9fff\ua000-\ua4cf"
    r"\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\U00020000-\U0003ffff]"
)
# The look-behind avoids a match attempt at every dot of a long run of dots. In French a space precedes » and ›.
_WESTERN = rf"(?P<mark>(?<![.!?…])[.!?…]+)[{_CLOSERS}]*(?:\s[»›][{_CLOSERS}]*)?\s+"
_STOPS = "。！？｡।॥؟۔။៕።፧։"
_SHADS = "།༎༏༐༑༔"
_BOUNDARY = re.compile(
    rf"{_WESTERN}"
    rf"|[{_STOPS}]+[{_WIDE_CLOSERS}]*\s*"
    rf"|[{_SHADS}](?:\s*[{_SHADS}])*\s*"
    rf"|(?<=[{_PHRASE_SPACED}])\s+(?=[{_PHRASE_SPACED}])"
)
# For a paragraph without characters of the other alternatives, this shorter pattern takes a third of the time.
_WESTERN_BOUNDARY = re.compile(_WESTERN)
_NOT_WESTERN = re.compile(rf"[{_STOPS}{_SHADS}{_PHRASE_SPACED}]")
_WEAK_BOUNDARY = re.compile(r"[，、；：၊་]\s*|\s+")
_LONGEST = 1000
_SPACELESS_COUNTS = 4
_MARKS_IN_A_ROW = 16


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences by rules; none is empty, and white space at both ends is stripped.

    Rules:

    - ``.``, ``!``, ``?`` and ``…``, with closing quotes and brackets after them (``»`` and ``›`` also after a space),
      end a sentence if white space follows and then a character that can start a sentence: an uppercase letter, a
      digit, an opening quote or bracket, or a letter of a script without case.
    - A single ``.`` does not end a sentence after a known abbreviation (``Mr.``, ``Dr.``, ``etc.``), after letters
      separated by dots (``e.g.``, ``U.S.``, ``p.m.``), after a single initial (``J. K. Rowling``; ``I`` is taken as
      the pronoun), between an abbreviation used only before numbers and a number (``No. 7``, ``Jan. 5``), and after a
      number at the start of a sentence (``1. Introduction``).
    - ``。！？｡।॥؟۔`` and similar marks always end a sentence. So do white space in Thai, Lao, Khmer and Burmese and the
      shad (``།``) in Tibetan.
    - A sentence has at most 1,000 characters; each character of a script without spaces counts as four, so that 250
      characters of Chinese fit. A longer sentence is cut at the last white space, wide comma, semicolon or colon, or
      tsheg (``་``) before that length, otherwise at that length, so that text without a full stop does not become one
      very long sentence.

    Limitations: the abbreviations are English; a sentence that ends in an abbreviation is joined to the next; a
    sentence that starts in lower case is joined to the one before; white space in Thai and the shad separate clauses as
    well as sentences.

    No text is lost: the concatenated sentences equal the paragraph except for white space.

    >>> split_sentences('Mr. Holmes rose. "Come!" he cried. "The U.S. envoy pays £3.50 to J. Watson."')
    ['Mr. Holmes rose.', '"Come!" he cried.', '"The U.S. envoy pays £3.50 to J. Watson."']
    >>> split_sentences("我是学生。你呢？「好！」他说。")
    ['我是学生。', '你呢？', '「好！」', '他说。']
    """
    pieces = []
    start = 0
    boundaries = _BOUNDARY if _NOT_WESTERN.search(paragraph) else _WESTERN_BOUNDARY
    for boundary in boundaries.finditer(paragraph):
        if boundary["mark"] is None or _ends_sentence(paragraph, start, boundary):
            pieces.append(paragraph[start : boundary.end()])
            start = boundary.end()
    pieces.append(paragraph[start:])
    return [part for piece in pieces for part in _cut(piece.strip())]


def _ends_sentence(text: str, start: int, boundary: re.Match[str]) -> bool:
    # German opens with » and ›, which end what is before them in French unless a letter follows.
    opener = text[boundary.end() : boundary.end() + 2].lstrip("»›")[:1]
    if not opener or not (opener in _OPENERS or opener.isdigit() or (opener.isalpha() and not opener.islower())):
        return False
    if boundary["mark"] != ".":
        return True
    # Abbreviations are short: a look-back of fixed length keeps the run time linear in the length of the text.
    mark = boundary.start("mark")
    before = text[max(start, mark - 16) : mark].split()
    if not before:
        return True
    word = before[-1].lstrip(_OPENERS)
    if word.isdigit():
        return text[start:mark].strip() != word
    if "." in word and all(len(part) == 1 and part.isalpha() for part in word.split(".")):
        return False
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    if opener.isdigit() and word.lower() in _BEFORE_NUMBERS:
        return False
    return word.lower() not in _ABBREVIATIONS


def _cut(piece: str) -> list[str]:
    """Cuts ``piece`` into parts of at most the maximum sentence length; ``[]`` for an empty text."""
    parts = []
    start = 0
    while start < len(piece):
        end = start + _count_fitting(piece[start : start + _LONGEST])
        if end < len(piece):
            if weak := [mark.end() for mark in _WEAK_BOUNDARY.finditer(piece, start, end)]:
                end = weak[-1]
            else:  # not between a letter and its combining marks
                before = range(end, end - _MARKS_IN_A_ROW, -1)
                end = next((at for at in before if not unicodedata.category(piece[at]).startswith("M")), end)
        if part := piece[start:end].strip():
            parts.append(part)
        start = end
    return parts


def _count_fitting(window: str) -> int:
    """Returns how many characters from the start of ``window`` fit into one sentence."""
    more = _SPACELESS_COUNTS - 1
    if len(window) * _SPACELESS_COUNTS <= _LONGEST:
        return len(window)
    spaceless = 0
    for letter in _SPACELESS.finditer(window):
        if letter.end() + more * (spaceless + 1) > _LONGEST:
            return min(letter.start(), _LONGEST - more * spaceless)
        spaceless += 1
    return min(len(window), _LONGEST - more * spaceless)


class WholeParagraphs:
    """Splitter that returns a paragraph as one sentence, cut only at the maximum length of `split_sentences`.

    >>> WholeParagraphs()("He rose. He left.")
    ['He rose. He left.']
    """

    version = RULES_VERSION

    def __call__(self, paragraph: str) -> list[str]:
        return _cut(paragraph.strip())


class OwnSplitter:
    """Splitter that calls a user's function; the type of the result is checked at every call.

    The sentences are returned unchanged: long ones are not cut. The splitter is pickled by name and loaded again when
    it is unpickled.

    Attributes:
        name: ``module:function`` or ``path/to/file.py:function``.
        version: name of the function and a SHA-256 (hexadecimal) of the file that it is found in, and of the file that
            defines it, if that is another. The files that these import are not included.

    Raises:
        RecipeError: the module, file or function does not exist or cannot be imported.
        DataError: raised by a call if the function fails or returns anything but a list of str. The message shows the
            start of the paragraph.
    """

    def __init__(self, name: str):
        place, _, function = name.rpartition(":")
        module = _load_module(place, name)
        self.name = name
        self._resolved = resolved_name(name)  # resolved now: the working folder may differ when it is pickled
        missing = object()
        self._function: Any = getattr(module, function, missing)
        if self._function is missing:
            known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            near = did_you_mean(function, known)
            raise RecipeError(f"sentence_splitter: {name!r}: it has no function {function}{near}")
        if not callable(self._function):
            kind = type(self._function).__name__
            raise RecipeError(f"sentence_splitter: {name!r}: expected a function, got {kind}: {self._function!r:.60}")
        home = sys.modules.get(getattr(self._function, "__module__", ""), module)
        files = dict.fromkeys(getattr(each, "__file__", None) for each in (module, home))
        # Built-in modules have no file.
        contents = [Path(file).read_bytes() if file else sys.version.encode() for file in files]
        self.version = f"{function}:{hashlib.sha256(b''.join(contents)).hexdigest()}"

    def __call__(self, paragraph: str) -> list[str]:
        try:
            sentences = self._function(paragraph)
        except Exception as error:
            inside = traceback.extract_tb(error.__traceback__)[1:]  # empty if the call itself fails
            place = f" in {inside[-1].filename}, line {inside[-1].lineno}" if inside else ""
            raise DataError(self._message(f"failed{place}: {type(error).__name__}: {error}", paragraph)) from error
        if not isinstance(sentences, list):
            raise DataError(self._message(f"returned {type(sentences).__name__}, not a list of str", paragraph))
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise DataError(self._message(f"returned a list with {sentence!r}, not of str only", paragraph))
        return sentences

    def _message(self, fault: str, paragraph: str) -> str:
        return f"sentence_splitter {self.name} {fault}; the paragraph starts with {paragraph[:60]!r}"

    def __reduce__(self) -> tuple[type[OwnSplitter], tuple[str]]:
        return OwnSplitter, (self._resolved,)


def resolved_name(name: str) -> str:
    """Returns the name of a splitter with the path of its file, if it has one, made absolute.

    >>> resolved_name("rules"), resolved_name("module:function"), resolved_name("/path/to/file.py:function")
    ('rules', 'module:function', '/path/to/file.py:function')
    """
    place, _, function = name.rpartition(":")
    return f"{Path(place).resolve()}:{function}" if place.endswith(".py") else name


def find_splitter(name: str = "rules") -> Callable[[str], list[str]]:
    """Returns the sentence splitter with the given name.

    Args:
        name: ``"rules"``: `split_sentences`. ``"none"``: `WholeParagraphs`. ``"module:function"`` or
            ``"path/to/file.py:function"``: `OwnSplitter`; the module or file is executed to find the function.

    Raises:
        RecipeError: the name is unknown, or the function cannot be loaded.

    >>> find_splitter("none")("He rose. He left.")
    ['He rose. He left.']
    """
    check_splitter_name(name)
    if name == "rules":
        return split_sentences
    return WholeParagraphs() if name == "none" else OwnSplitter(name)


def check_splitter_name(name: str) -> None:
    """Checks the form of the name of a splitter, and that its file exists; runs no code.

    Raises:
        RecipeError: the name is none that `find_splitter` accepts, or there is no such file.
    """
    place, _, function = name.rpartition(":")
    if name not in ("rules", "none") and not (place and function):
        raise RecipeError(
            f"sentence_splitter: {name!r} is unknown; expected rules, none, module:function or "
            f"path/to/file.py:function{did_you_mean(name, ['rules', 'none'])}"
        )
    if place.endswith(".py"):
        _source_of(place, name)


def _load_module(place: str, name: str) -> ModuleType:
    """Imports the module of a splitter by its name, or runs its file."""
    source = _source_of(place, name) if place.endswith(".py") else None
    try:
        return importlib.import_module(place) if source is None else _run_file(Path(place).resolve(), source)
    except (Exception, SystemExit) as error:
        if source is None and isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise RecipeError(
                f"sentence_splitter: {name!r}: there is no module {error.name}; install it, add its folder to "
                f"PYTHONPATH, or give path/to/file.py:function"
            ) from error
        raise RecipeError(f"sentence_splitter: {name!r} cannot be imported: {type(error).__name__}: {error}") from error


def _run_file(file: Path, source: bytes) -> ModuleType:
    """Runs the code of a file as a module, each version of it once."""
    # Named by its content, so that the name does not clash with a module, nor with another version of the file.
    name = f"bertkit_splitter_{hashlib.sha256(str(file).encode() + source).hexdigest()[:16]}"
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(file)
        try:
            exec(compile(source, file, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _source_of(place: str, name: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except (OSError, ValueError) as error:  # the latter of a NUL byte in the path
        fault = getattr(error, "strerror", error)
        raise RecipeError(f"sentence_splitter: {name!r}: {place} cannot be read: {fault}") from error
