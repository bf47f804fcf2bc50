"""How tokenizers cut the words of texts, and how well masked language models expect them.

Words are those of `bertkit.tasks.ner.inputs.split_words` with a letter or a digit, whatever a tokenizer takes for a
word, so that numbers of checkpoints with other vocabularies can be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bertkit.inference.fill_mask import MaskedWord, MaskFiller
from bertkit.metrics.intervals import t_interval
from bertkit.model.checkpoint.encoders import longest_input
from bertkit.tasks.ner.inputs import Word, split_words, word_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_EXAMPLES = 10
_AROUND = 16  # words on each side of a masked one


@dataclass(frozen=True)
class Wording:
    """How a tokenizer cuts the words of texts.

    Attributes:
        words: number of words.
        pieces_per_word: mean number of pieces of a word.
        split: share of words of several pieces, in [0, 1].
        unknown: share of words with a piece for characters that the vocabulary lacks, in [0, 1].
        too_long: share of the texts, or pairs, with more tokens than the model reads, in [0, 1].
        longest: number of tokens that the model reads.
        most_split: the most frequent words of several pieces, and their pieces.
        most_unknown: the most frequent words with unknown pieces.
    """

    words: int
    pieces_per_word: float
    split: float
    unknown: float
    too_long: float
    longest: int
    most_split: list[tuple[str, list[str]]]
    most_unknown: list[str]


def wording_of(texts: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, longest: int) -> Wording:
    """Cuts the words of N texts."""
    sentences = [[word.text for word in split_words(text) if word.is_readable] for row in texts for text in row]
    counts: Counter[str] = Counter(word for sentence in sentences for word in sentence)
    pieces = dict(zip(counts, word_pieces([list(counts)], tokenizer)[0], strict=True))
    total = max(1, counts.total())
    split = {word: number for word, number in counts.items() if len(pieces[word]) > 1}
    unknown = {word: number for word, number in counts.items() if tokenizer.unk_token_id in pieces[word]}
    encoded = tokenizer(*map(list, zip(*texts, strict=True)), truncation=False, verbose=False)["input_ids"]
    return Wording(
        counts.total(),
        sum(number * len(pieces[word]) for word, number in counts.items()) / total,
        sum(split.values()) / total,
        sum(unknown.values()) / total,
        sum(len(ids) > longest for ids in encoded) / max(1, len(texts)),
        longest,
        [(word, tokenizer.convert_ids_to_tokens(pieces[word])) for word, _ in Counter(split).most_common(_EXAMPLES)],
        [word for word, _ in Counter(unknown).most_common(_EXAMPLES)],
    )


# ---- pseudo-perplexity ----------------------------------------------------------------------------------------------


class WordInContext(NamedTuple):
    """A word that is masked.

    Attributes:
        words: the words of its text, punctuation among them.
        place: number of the word.
        text: the text.
    """

    words: Sequence[Word]
    place: int
    text: str

    def around(self, number: int) -> tuple[str, int, int]:
        """Returns the text of up to ``number`` words on each side, and the start and end of the word in it."""
        first = self.words[max(0, self.place - number)].start
        last = self.words[min(len(self.words) - 1, self.place + number)].end
        word = self.words[self.place]
        return self.text[first:last], word.start - first, word.end - first


def draw_words(texts: Sequence[Sequence[str]], number: int, seed: int) -> list[WordInContext]:
    """Draws words of all texts at random, each once, the same ones for all checkpoints; all if there are fewer."""
    generator = np.random.default_rng(seed)
    every = [
        WordInContext(words, place, text)
        for text, words in ((text, split_words(text)) for row in texts for text in row)
        for place, word in enumerate(words)
        if word.is_readable
    ]
    return [every[place] for place in generator.permutation(len(every))[:number].tolist()]


def log_probabilities(words: Sequence[WordInContext], filler: MaskFiller) -> np.ndarray:
    """Returns the log-probability of each word with up to 16 words on both sides, (N,) float64.

    It is the sum over the pieces of the word, each predicted while it and the later ones are masked. NaN for words
    without a piece, and for words that are longer alone than the model reads.

    Args:
        words: N words.
        filler: the masked language model.

    Raises:
        CheckpointError: an output is NaN or infinite.
    """
    longest = longest_input(filler.model.config)
    texts: list[dict[str, list[int]]] = []
    masked: list[MaskedWord] = []
    for row, word in enumerate(words):
        number = _AROUND
        while True:
            text, start, end = word.around(number)
            encoded = filler.tokenizer(text, return_offsets_mapping=True, return_token_type_ids=True, verbose=False)
            if len(encoded["input_ids"]) <= longest or number == 0:
                break
            number //= 2
        places = [
            place for place, (first, last) in enumerate(encoded["offset_mapping"]) if max(first, start) < min(last, end)
        ]
        texts.append({name: encoded[name] for name in ("input_ids", "token_type_ids")})
        if places and len(encoded["input_ids"]) <= longest:
            masked.append(MaskedWord(row, places[0], places[-1] + 1))
    logs = np.full(len(words), np.nan)
    for place, (log, _) in zip(masked, filler.predict_words(texts, masked), strict=True):
        logs[place.row] = log
    return logs


def perplexity(logs: np.ndarray) -> tuple[float, tuple[float, float] | None]:
    """Returns the pseudo-perplexity per word of log-probabilities (N,), and its 95 % interval over words, from 1 on.

    >>> perplexity(np.log([0.5, 0.5]))
    (2.0, None)
    """
    interval = t_interval(-logs)
    ends = None if interval is None else (_exp(max(interval[0], 0.0)), _exp(interval[1]))
    return _exp(float(-logs.mean())), ends


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
