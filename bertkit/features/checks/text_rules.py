"""Rules on the texts: empty, short and truncated ones, damaged characters, identifiers, leaks of the label, and words
that the vocabulary does not have."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from bertkit.data.tables.classes import is_missing
from bertkit.features.checks.findings import Finding, extra, note, rule, warning
from bertkit.features.checks.subject import Subject, Texts, checked, words_of
from bertkit.runtime.errors import quoted, shown
from bertkit.runtime.progress import inflected
from bertkit.tasks.base import truncation_hint
from bertkit.tasks.splits import ColumnsOf

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffd]")
_IDENTIFIER = re.compile(r"[\W_]*\d[\W\d_]*|[0-9a-f]{8}[0-9a-f-]*|(https?|www)[:.]\S+", re.IGNORECASE)
_SHARE_OF_IDENTIFIERS = 0.9
_CUT, _ONE_WORD = 0.01, 0.5  # shares from which, and above which, a note becomes a warning
_LEAK_PRECISION, _LEAK_RECALL, _LEAK_EXAMPLES = 0.98, 0.9, 10
_SYMBOLS = "symbols"
_MOST_WORDS = 100_000  # different words that are tokenized, the most frequent ones
_UNKNOWN, _UNKNOWN_SCRIPT = 0.005, 0.5  # shares of words with an unknown piece
_MANY_OF_SCRIPT = 0.001  # share of all words above which a note becomes a warning
_LEAST_WORDS, _LEAST_OF_LANGUAGE = 20, 200
_MANY_PIECES = 2.5  # mean per word; English words in BERT's English vocabulary have about 1.2, in other languages' 3


@rule("empty-text")
def empty_text(subject: Subject) -> Iterator[Finding]:
    """Finds texts without visible characters."""
    for texts in subject.texts:
        rows = [row for row, values in enumerate(texts.rows()) if any(map(is_missing, values))]
        if rows:
            yield warning(
                texts.place(rows[0]),
                f"{_describe_share(len(rows), texts, 'has', 'have')} a text without visible characters; this is the "
                "first",
                "remove these rows, or complete their texts",
            )


@rule("one-word-text", "splits")
def one_word_text(subject: Subject) -> Iterator[Finding]:
    """Finds texts of one word."""
    for texts in subject.texts:
        for column, values in texts.columns.items():
            rows = [row for row, text in enumerate(values) if len(words_of(text)) == 1 and not is_missing(text)]
            if rows:
                level = warning if len(rows) > _ONE_WORD * len(values) else note
                yield level(
                    texts.place(rows[0]),
                    f"{_describe_share(len(rows), texts, 'has', 'have')} one word in {column}; the first is "
                    + shown(values[rows[0]].strip()),
                    "check that this is the column to read, and that its texts are complete",
                )


@rule("truncation", "truncation", "task")
def truncation(subject: Subject) -> Iterator[Finding]:
    """Reports the share of inputs and tokens that are cut off."""
    for name, cut in subject.truncation.items():
        if cut.examples:
            level = warning if cut.examples >= _CUT * cut.of_examples else note
            yield level(
                name,
                f"{cut.examples:,} of {cut.of_examples:,} inputs ({100 * cut.examples / cut.of_examples:.1f} %) "
                f"{inflected(cut.examples, 'exceeds', 'exceed')} data.max_seq_length "
                f"{subject.recipe.data.max_seq_length}; {cut.tokens:,} of {cut.of_tokens:,} tokens "
                f"({100 * cut.tokens / cut.of_tokens:.1f} %) {inflected(cut.tokens, 'is', 'are')} not read",
                truncation_hint(subject.task),
            )


@rule("lost-labels", "features", "splits", "task")
def lost_labels(subject: Subject) -> Iterator[Finding]:
    """Reports labels in a part of the text that no input contains as a whole."""
    for name, features in subject.features.items():
        lost = checked(subject.task).lost_labels(ColumnsOf(features), ColumnsOf(subject.splits[name].examples))
        if lost and lost[0]:
            effect = "not learned" if name == "train" else "cannot be predicted"
            yield warning(
                name,
                f"{lost[0]:,} of {lost[1]:,} labelled answers {inflected(lost[0], 'is', 'are')} in no input as a "
                f"whole, and {effect}",
                "set a larger --max-seq-length, or a larger overlap of the windows (--doc-stride, --stride)",
            )


@rule("control-characters")
def control_characters(subject: Subject) -> Iterator[Finding]:
    """Finds control characters and the replacement character U+FFFD, which a failed decoding leaves."""
    for texts in subject.texts:
        rows = [row for row, values in enumerate(texts.rows()) if any(map(_CONTROL.search, values))]
        if rows:
            signs = Counter(chain.from_iterable(_CONTROL.findall(text) for text in texts.unique()))
            named = ", ".join(f"{count} × U+{ord(sign):04X}" for sign, count in signs.most_common(3))
            yield warning(
                texts.place(rows[0]),
                f"{_describe_share(len(rows), texts, 'has', 'have')} control or replacement characters ({named}); "
                "this is the first",
                "convert the source to UTF-8 again, or remove these characters",
            )


@rule("mojibake")
def mojibake(subject: Subject) -> Iterator[Finding]:
    """Finds text that was decoded with the wrong encoding, by the heuristic of the library ftfy."""
    ftfy = extra("ftfy.badness")
    if ftfy is None:
        return  # the rule `extra` reports it
    for texts in subject.texts:
        bad = {text for text in texts.unique() if not text.isascii() and ftfy.is_bad(text)}
        rows = [row for row, values in enumerate(texts.rows()) if not bad.isdisjoint(values)] if bad else []
        if rows:
            text = next(values[rows[0]] for values in texts.columns.values() if values[rows[0]] in bad)
            place = next(place for place, sign in enumerate(text) if not sign.isascii())
            yield warning(
                texts.place(rows[0]),
                f"{_describe_share(len(rows), texts, 'looks', 'look')} as if decoded with a wrong encoding; the first "
                f"has {text[max(0, place - 20) : place + 20].strip()!r}",
                "read the source in its own encoding and write UTF-8; the Python library ftfy repairs most such texts",
            )


@rule("id-column", "splits")
def id_column(subject: Subject) -> Iterator[Finding]:
    """Finds text columns that hold numbers, hashes or addresses."""
    for texts in subject.texts[:1]:
        for column, values in texts.columns.items():
            matching = [text for text in values if _IDENTIFIER.fullmatch(text.strip())]
            if len(matching) > _SHARE_OF_IDENTIFIERS * len(values):
                yield warning(
                    f"{texts.name}, column {column}",
                    f"{_describe_share(len(matching), texts, 'is', 'are')} numbers, identifiers or addresses, such as "
                    f"{matching[0].strip()[:40]!r}",
                    "check that this is the column to read; --text-column, and of words --token-column, give another",
                )


@rule("leak", "splits")
def leak(subject: Subject) -> Iterator[Finding]:
    """Finds a column or a word that determines the class of an example alone; of a class all such words at once."""
    classes = subject.classes.get("train", [])
    if not subject.texts or any(len(names) != 1 for names in classes) or len({names[0] for names in classes}) < 2:
        return
    texts, labels = subject.texts[0], [names[0] for names in classes]
    for column, values in texts.columns.items():
        different = len(set(values))
        if 1 < different <= len(values) / _LEAK_EXAMPLES and different == len(set(zip(values, labels, strict=True))):
            yield warning(
                f"train, column {column}",
                f"the column has {different} different values, and each of them has one label",
                "check that the column holds the text, and not a copy of the label",
            )
    sizes = Counter(labels)
    having: Counter[str] = Counter()
    by_class: Counter[tuple[str, str]] = Counter()
    for row, label in zip(texts.rows(), labels, strict=True):
        words = list(dict.fromkeys(word for text in row for word in text.split()))
        having.update(words)
        by_class.update((word, label) for word in words)
    telling: dict[str, list[str]] = {}  # words of a class, the most frequent first
    for (word, label), count in by_class.most_common():
        if count < _LEAK_EXAMPLES:
            break
        if count / sizes[label] >= _LEAK_RECALL and count >= _LEAK_PRECISION * having[word]:
            telling.setdefault(label, []).append(word)
    for label, (word, *others) in telling.items():
        count = by_class[word, label]
        verb = inflected(len(others), "tells", "tell")
        yield warning(
            "train",
            f"the word {shown(word)} is in {100 * count / sizes[label]:.1f} % of the {sizes[label]:,} examples of "
            f"{label!r}, and {100 * count / having[word]:.1f} % of the {having[word]:,} examples with it have this "
            f"label{f'; {quoted(others)} {verb} it as well' if others else ''}",
            f"remove the {inflected(len(others) + 1, 'word if it is', 'words if they are')} not known when the model "
            "is used, such as a mark of the source",
        )


def _describe_share(count: int, texts: Texts, singular: str, plural: str) -> str:
    """Returns how many of the texts they are, and the verb that follows."""
    total = len(next(iter(texts.columns.values())))
    return f"{count:,} of {total:,} texts ({100 * count / total:.1f} %) {inflected(count, singular, plural)}"


@dataclass
class ScriptCount:
    """Counts of the words of a script.

    Attributes:
        script: its name, as of `script_of`.
        words: occurrences of words.
        unknown: occurrences of words with an unknown piece.
        pieces: pieces of the words without an unknown piece, of which one with other signs than letters counts once.
        example: the most frequent word with an unknown piece.
    """

    script: str
    words: int = 0
    unknown: int = 0
    pieces: int = 0
    example: str = ""

    @property
    def is_unknown(self) -> bool:
        """Returns whether the vocabulary does not have the script."""
        is_frequent = self.unknown >= _LEAST_WORDS and self.unknown > _UNKNOWN_SCRIPT * self.words
        return self.script != _SYMBOLS and is_frequent

    @property
    def where(self) -> str:
        """Returns the script in words that follow a noun."""
        return "without letters" if self.script == _SYMBOLS else f"in {self.script} script"


@cache
def script_of(sign: str) -> str:
    """Returns the script of a letter, by its Unicode name; ``symbols`` for other characters.

    >>> script_of("a"), script_of("я"), script_of("語"), script_of("7")
    ('Latin', 'Cyrillic', 'Cjk', 'symbols')
    """
    return unicodedata.name(sign, "other").split()[0].capitalize() if sign.isalpha() else _SYMBOLS


def count_scripts(subject: Subject) -> list[ScriptCount]:
    """Tokenizes the different words of the data and counts their pieces, by script."""
    known = subject.words.most_common(_MOST_WORDS)
    tokenizer = subject.tokenizer
    if not known:
        return []
    scripts: dict[str, ScriptCount] = {}
    # The space makes byte-level tokenizers read each as a word within a text.
    encoded = tokenizer([f" {word}" for word, _ in known], add_special_tokens=False)["input_ids"]
    unknown = tokenizer.unk_token_id
    for (word, count), pieces in zip(known, encoded, strict=True):
        letter = next(filter(str.isalpha, word), word[0])
        script = script_of(letter)
        of_script = scripts.setdefault(script, ScriptCount(script))
        of_script.words += count
        if unknown is not None and unknown in pieces:
            of_script.unknown += count
            of_script.example = of_script.example or word
        else:  # punctuation is split off, which says nothing about the language
            of_script.pieces += count * (len(pieces) if word.isalpha() else 1)
    return list(scripts.values())


@rule("unknown-script", "tokenizer")
def unknown_script(subject: Subject) -> Iterator[Finding]:
    """Finds scripts whose words are mostly unknown to the vocabulary."""
    total = sum(subject.words.values())
    for counts in subject.once(count_scripts):
        if counts.is_unknown:
            level = warning if counts.words >= _MANY_OF_SCRIPT * total else note
            yield level(
                "data",
                f"{counts.unknown:,} of {counts.words:,} words {counts.where} "
                f"({100 * counts.unknown / counts.words:.1f} %) have pieces that the vocabulary of "
                f"{subject.checkpoint or 'the tokenizer'} does not have, such as {counts.example[:40]!r}",
                "use a checkpoint for these languages, such as google-bert/bert-base-multilingual-cased",
            )


@rule("unknown-tokens", "tokenizer")
def unknown_tokens(subject: Subject) -> Iterator[Finding]:
    """Reports the share of words with unknown pieces, by script; without the scripts of `unknown_script`."""
    for counts in subject.once(count_scripts):
        if counts.unknown > max(_LEAST_WORDS, _UNKNOWN * counts.words) and not counts.is_unknown:
            yield warning(
                "data",
                f"{counts.unknown:,} of {counts.words:,} words {counts.where} "
                f"({100 * counts.unknown / counts.words:.1f} %) have a piece {subject.tokenizer.unk_token}, the most "
                f"frequent is {counts.example[:40]!r}",
                "check the encoding of the text, or use a checkpoint whose vocabulary has these characters",
            )


@rule("fragmented-words", "tokenizer")
def fragmented_words(subject: Subject) -> Iterator[Finding]:
    """Finds scripts whose words are split into many pieces, as those of a language without a vocabulary are."""
    for counts in subject.once(count_scripts):
        known = counts.words - counts.unknown
        if counts.script == _SYMBOLS or known < _LEAST_OF_LANGUAGE or counts.pieces <= _MANY_PIECES * known:
            continue
        yield warning(
            "data",
            f"words in {counts.script} script have {counts.pieces / known:.1f} pieces on average; in the language of a "
            "vocabulary they have 1.1 to 1.6, so this text is probably in another language",
            "use a checkpoint for the language of the text",
        )
