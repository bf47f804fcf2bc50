"""The rules of the released BERT's ``create_pretraining_data.py`` in plain Python: what bertkit's data is timed beside.

An implementation of its own, for reading and for comparison: lists, loops and one ``random.Random``, nothing vectorised
and nothing kept on disk; with the rules of ``tokenization.py`` (uncased), that the script imports. It works on token
ids where the script works on strings, which is to its advantage. It asks the generator for the same numbers in the same
order as the script, so that from the same seed it gives the same examples (`released_script.py` checks that).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

Sentence = list[int]
Document = list[Sentence]

IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F))


@dataclass(frozen=True)
class Rules:
    """The script's flags and their defaults.

    Attributes:
        max_seq_length: tokens of an example, [CLS] and both [SEP] counted.
        max_predictions_per_seq: at most so many tokens of an example are predicted.
        masked_lm_prob: share of the tokens, special ones counted, that is predicted.
        short_seq_prob: probability that a document is cut into shorter examples in a pass.
        whole_words: choose whole words to predict, not single pieces.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    whole_words: bool = False


@dataclass(frozen=True)
class Pieces:
    """Vocabulary: its size, the ids of the special tokens, and a mask of the pieces that continue a word."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    continuations: frozenset[int] = frozenset()

    @classmethod
    def of(cls, vocabulary: dict[str, int]) -> Pieces:
        """Builds the pieces of a WordPiece vocabulary, piece → id, that has BERT's special tokens."""
        return cls(
            size=len(vocabulary),
            pad=vocabulary["[PAD]"],
            cls=vocabulary["[CLS]"],
            sep=vocabulary["[SEP]"],
            mask=vocabulary["[MASK]"],
            continuations=frozenset(number for piece, number in vocabulary.items() if piece.startswith("##")),
        )


class Pair(NamedTuple):
    """Two segments of text, and whether the second is from elsewhere."""

    a: list[int]
    b: list[int]
    is_random_next: bool


class Example(NamedTuple):
    """A pair with its special tokens, masked; ``positions`` ascend and ``labels`` are the ids that stood there."""

    input_ids: list[int]
    segment_ids: list[int]
    positions: list[int]
    labels: list[int]
    is_random_next: bool


class Tokenizer:
    """Uncased text → ids of the longest pieces of a WordPiece vocabulary, word by word, character by character."""

    LONGEST_WORD = 100  # characters, as in the tokenizers library; the script has 200

    def __init__(self, vocabulary: dict[str, int]):
        self.vocabulary = vocabulary
        self.unknown = vocabulary["[UNK]"]

    def __call__(self, text: str) -> Sentence:
        return [piece for word in words_in(text) for piece in self.pieces_of(word)]

    def pieces_of(self, word: str) -> list[int]:
        """From the left, the longest known piece each time; ``[UNK]`` for the whole word where there is none."""
        if len(word) > self.LONGEST_WORD:
            return [self.unknown]
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                if (piece := self.vocabulary.get(prefix + word[start:end])) is not None:
                    break
            else:
                return [self.unknown]
            pieces.append(piece)
            start = end
        return pieces


def words_in(text: str) -> list[str]:
    """Lower-case words without accents; every punctuation mark and every Chinese character is a word."""
    spaced = []
    for character in text:
        if is_chinese(character):
            spaced += [" ", character, " "]
        elif character.isspace():
            spaced.append(" ")
        elif unicodedata.category(character)[0] != "C" and character != "\ufffd":
            spaced.append(character)
    words: list[str] = []
    for run in "".join(spaced).split():
        open_word = False
        for character in unicodedata.normalize("NFD", run.lower()):
            if unicodedata.category(character) == "Mn":
                continue
            if is_punctuation(character):
                words.append(character)
                open_word = False
            elif open_word:
                words[-1] += character
            else:
                words.append(character)
                open_word = True
    return words


def is_chinese(character: str) -> bool:
    """In one of Unicode's blocks of CJK ideographs; Japanese kana and Korean Hangul are not."""
    return character >= "\u3400" and any(first <= ord(character) <= last for first, last in IDEOGRAPHS)


def is_punctuation(character: str) -> bool:
    """Unicode's punctuation, and the ASCII symbols such as ``$`` and ``^`` with it."""
    return (character < "\x7f" and not character.isalnum()) or unicodedata.category(character)[0] == "P"


def documents_of(lines: Iterable[str], encode: Callable[[str], Sentence]) -> list[Document]:
    """Documents from text with a sentence a line and a blank line between two documents, tokenized line by line."""
    documents: list[Document] = [[]]
    for line in lines:
        if not (text := line.strip()):
            documents.append([])
        elif sentence := encode(text):
            documents[-1].append(sentence)
    return [document for document in documents if document]


def one_pass(documents: list[Document], rules: Rules, pieces: Pieces, random: Random) -> Iterator[Example]:
    """The examples of one pass over all documents, in their order; the script then shuffles them all."""
    for number in range(len(documents)):
        for pair in pairs_of(documents, number, rules, random):
            yield masked(pair, rules, pieces, random)


def pairs_of(documents: list[Document], number: int, rules: Rules, random: Random) -> Iterator[Pair]:
    """Cuts document ``number`` into pairs: chunks of sentences are filled to the target length, then parted in two."""
    document = documents[number]
    room = rules.max_seq_length - 3
    target = random.randint(2, room) if random.random() < rules.short_seq_prob else room
    start = 0
    while start < len(document):
        end, length = start, 0
        while end < len(document) and length < target:
            length += len(document[end])
            end += 1
        alone = end - start == 1
        middle = end if alone else random.randint(start + 1, end - 1)
        a = joined(document[start:middle])
        if is_random_next := alone or random.random() < 0.5:
            b = text_from_elsewhere(documents, number, target - len(a), random)
        else:
            b = joined(document[middle:end])
        start = middle if is_random_next else end  # after a random B, the sentences it displaced come next
        truncate(a, b, room, random)
        yield Pair(a, b, is_random_next)


def joined(sentences: list[Sentence]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def text_from_elsewhere(documents: list[Document], number: int, target: int, random: Random) -> list[int]:
    """At least ``target`` tokens from a random sentence on, fewer at the end of a document.

    A document other than ``number`` is tried for ten times.
    """
    for _ in range(10):
        other = random.randint(0, len(documents) - 1)
        if other != number:
            break
    tokens: list[int] = []
    for sentence in documents[other][random.randint(0, len(documents[other]) - 1) :]:
        tokens += sentence
        if len(tokens) >= target:
            break
    return tokens


def truncate(a: list[int], b: list[int], room: int, random: Random) -> None:
    """Takes single tokens from the longer list, from ``b`` where they are equal, at either end, until both fit."""
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if random.random() < 0.5 else -1)


def masked(pair: Pair, rules: Rules, pieces: Pieces, random: Random) -> Example:
    """Puts the special tokens around a pair and hides some of its tokens: 80 % [MASK], 10 % any piece, 10 % kept."""
    original = [pieces.cls, *pair.a, pieces.sep, *pair.b, pieces.sep]
    words = words_of(original, rules, pieces)
    random.shuffle(words)
    number = min(rules.max_predictions_per_seq, max(1, round(len(original) * rules.masked_lm_prob)))
    hidden = list(original)
    positions: list[int] = []
    for word in words:
        if len(positions) == number:
            break
        if len(positions) + len(word) > number:
            continue
        for position in word:
            if random.random() < 0.8:
                hidden[position] = pieces.mask
            elif random.random() >= 0.5:
                hidden[position] = random.randint(0, pieces.size - 1)
        positions += word
    positions.sort()
    segments = [0] * (len(pair.a) + 2) + [1] * (len(pair.b) + 1)
    return Example(hidden, segments, positions, [original[position] for position in positions], pair.is_random_next)


def words_of(ids: list[int], rules: Rules, pieces: Pieces) -> list[list[int]]:
    """The positions of each word, special tokens left out; each piece is a word unless ``rules.whole_words``.

    As in the script, a piece ``##x`` that opens segment B, since truncation has cut its word, counts to the last word
    of A. (bertkit's words end at [SEP].)
    """
    words: list[list[int]] = []
    for position, piece in enumerate(ids):
        if piece in (pieces.cls, pieces.sep):
            continue
        if rules.whole_words and piece in pieces.continuations and words:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def features(example: Example, rules: Rules, pieces: Pieces) -> dict[str, list[int] | list[float]]:
    """The script's features of an example: lists padded to ``max_seq_length`` and ``max_predictions_per_seq``."""
    padding = rules.max_seq_length - len(example.input_ids)
    unused = rules.max_predictions_per_seq - len(example.positions)
    return {
        "input_ids": example.input_ids + [pieces.pad] * padding,
        "input_mask": [1] * len(example.input_ids) + [0] * padding,
        "segment_ids": example.segment_ids + [0] * padding,
        "masked_lm_positions": example.positions + [0] * unused,
        "masked_lm_ids": example.labels + [0] * unused,
        "masked_lm_weights": [1.0] * len(example.positions) + [0.0] * unused,
        "next_sentence_labels": [int(example.is_random_next)],
    }
