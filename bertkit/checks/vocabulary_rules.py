"""Rules on the vocabulary: words, scripts and languages that it does not have."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from bertkit.checks.findings import Finding, note, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject

_SYMBOLS = "symbols"
_MOST_WORDS = 100_000  # different words that are tokenized, the most frequent ones
_UNKNOWN, _UNKNOWN_SCRIPT = 0.005, 0.5  # shares of words with an unknown piece
_MANY_OF_SCRIPT = 0.001  # share of all words above which a note becomes a warning
_LEAST_WORDS, _LEAST_OF_LANGUAGE = 20, 200
_MANY_PIECES = 2.5  # mean per word; English words in BERT's English vocabulary have about 1.2, in other languages' 3


@dataclass
class ScriptCount:
    """Counts of the words of a script.

    Attributes:
        words: occurrences of words.
        unknown: occurrences of words with an unknown piece.
        pieces: pieces of the words without an unknown piece.
        example: the most frequent word with an unknown piece.
    """

    words: int = 0
    unknown: int = 0
    pieces: int = 0
    example: str = ""


@cache
def script_of(sign: str) -> str:
    """Returns the script of a letter, by its Unicode name; ``symbols`` for other characters.

    >>> script_of("a"), script_of("я"), script_of("語"), script_of("7")
    ('Latin', 'Cyrillic', 'Cjk', 'symbols')
    """
    return unicodedata.name(sign, "other").split()[0].capitalize() if sign.isalpha() else _SYMBOLS


def count_scripts(subject: Subject) -> dict[str, ScriptCount]:
    """Tokenizes the different words of the data and counts their pieces, by script."""
    known = subject.words.most_common(_MOST_WORDS)
    tokenizer = subject.tokenizer
    scripts: dict[str, ScriptCount] = {}
    if not known:
        return scripts
    # The space makes byte-level tokenizers read each as a word within a text.
    encoded = tokenizer([f" {word}" for word, _ in known], add_special_tokens=False)["input_ids"]
    unknown = tokenizer.unk_token_id
    for (word, count), pieces in zip(known, encoded, strict=True):
        letter = next(filter(str.isalpha, word), word[0])
        of_script = scripts.setdefault(script_of(letter), ScriptCount())
        of_script.words += count
        if unknown is not None and unknown in pieces:
            of_script.unknown += count
            of_script.example = of_script.example or word
        elif word.isalpha():
            of_script.pieces += count * len(pieces)
        else:
            of_script.pieces += count  # punctuation is split off, which says nothing about the language
    return scripts


@rule("unknown-script", "tokenizer")
def unknown_script(subject: Subject) -> Iterator[Finding]:
    """Finds scripts whose words are mostly unknown to the vocabulary."""
    total = sum(subject.words.values())
    for script, counts in subject.once(count_scripts).items():
        if _is_unknown(script, counts):
            level = warning if counts.words >= _MANY_OF_SCRIPT * total else note
            yield level(
                "data",
                f"{counts.unknown:,} of {counts.words:,} words {_in(script)} "
                f"({100 * counts.unknown / counts.words:.1f} %) have pieces that the vocabulary of "
                f"{subject.checkpoint or 'the tokenizer'} does not have, such as {counts.example[:40]!r}",
                "use a checkpoint for these languages, such as google-bert/bert-base-multilingual-cased",
            )


@rule("unknown-tokens", "tokenizer")
def unknown_tokens(subject: Subject) -> Iterator[Finding]:
    """Reports the share of words with unknown pieces, by script; without the scripts of `unknown_script`."""
    for script, counts in subject.once(count_scripts).items():
        if counts.unknown > max(_LEAST_WORDS, _UNKNOWN * counts.words) and not _is_unknown(script, counts):
            yield warning(
                "data",
                f"{counts.unknown:,} of {counts.words:,} words {_in(script)} "
                f"({100 * counts.unknown / counts.words:.1f} %) have a piece {subject.tokenizer.unk_token}, the most "
                f"frequent is {counts.example[:40]!r}",
                "check the encoding of the text, or use a checkpoint whose vocabulary has these characters",
            )


def _in(script: str) -> str:
    return "without letters" if script == _SYMBOLS else f"in {script} script"


def _is_unknown(script: str, counts: ScriptCount) -> bool:
    return script != _SYMBOLS and counts.unknown >= _LEAST_WORDS and counts.unknown > _UNKNOWN_SCRIPT * counts.words


@rule("fragmented-words", "tokenizer")
def fragmented_words(subject: Subject) -> Iterator[Finding]:
    """Finds scripts whose words are split into many pieces, as those of a language without a vocabulary are."""
    for script, counts in subject.once(count_scripts).items():
        known = counts.words - counts.unknown
        if script == _SYMBOLS or known < _LEAST_OF_LANGUAGE or counts.pieces <= _MANY_PIECES * known:
            continue
        yield warning(
            "data",
            f"words in {script} script have {counts.pieces / known:.1f} pieces on average; in the language of a "
            "vocabulary they have 1.1 to 1.6, so this text is probably in another language",
            "use a checkpoint for the language of the text",
        )
