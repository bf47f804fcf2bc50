r"""Model inputs: words of raw text, pieces of words, and windows in which each word is tagged once.

Published data sets have their own rules, mostly close to those of the Penn Treebank. The rules for raw text here are
short and apply to every script:

1. Letters, digits and underscores that follow each other are a word, with the marks that modify them.
2. Such words stay one where an apostrophe, a hyphen, a full stop or an ampersand stands between them (``O'Neil``,
   ``well-known``, ``U.S``, ``AT&T``), and where a comma or a colon stands between digits (``3,000``, ``10:30``).
3. A Chinese character is a word.
4. Any other visible character is a word, with the marks that modify it.

White space is in no word, and neither are invisible characters that do not follow a character of a word, such as a mark
of the direction of text: tokenizers remove them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import regex

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.tasks.windows import Window, most_context, windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

NO_WORD = -1
Words = list[str]

# \p{Cf} contains the joiners within Arabic, Indic and emoji sequences, and the zero-width space.
_WORD = regex.compile(
    r"""
    (?(DEFINE)
        (?P<marks> [\p{M}\p{Cf}]* )
        (?P<run> (?: [\p{L}\p{N}_--\p{Han}] (?&marks) )+ ) )
    \p{Han} (?&marks)
    | (?&run) (?: (?: ['’\-.&] | (?<=\p{Nd}) [,:] (?=\p{Nd}) ) (?&run) )*
    | [^\s\p{Cf}\p{Cc}] (?&marks)
    """,
    regex.VERBOSE | regex.VERSION1,
)

# The copies of `_backend`, with the number of tokens at that time. To serialize a tokenizer of 250,000 pieces takes
# 0.2 s, which is too long for each request to a server.
_copies: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[int, Tokenizer]] = WeakKeyDictionary()


class Word(NamedTuple):
    """Word of a text.

    Attributes:
        text: ``text[start:end]`` of the whole text.
        start, end: character positions in the text; ``end`` is exclusive.
    """

    text: str
    start: int
    end: int

    @property
    def is_readable(self) -> bool:
        """Whether it has a letter or a digit; punctuation has neither."""
        return any(map(str.isalnum, self.text))


def split_words(text: str) -> list[Word]:
    """Splits a text into words, in order; every visible character is in exactly one word.

    >>> [word.text for word in split_words("Mr. O'Neil paid $3,000 (in the U.S.), didn't he?")]
    ['Mr', '.', "O'Neil", 'paid', '$', '3,000', '(', 'in', 'the', 'U.S', '.', ')', ',', "didn't", 'he', '?']
    >>> split_words("北京 é")
    [Word(text='北', start=0, end=1), Word(text='京', start=1, end=2), Word(text='é', start=3, end=4)]
    """
    return [Word(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


def word_pieces(sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Returns for each sentence and word the ids of its pieces by a fast tokenizer, without special tokens.

    A word has the same pieces as within a text, after a space. A word that the tokenizer removes (empty, zero-width,
    control characters) has none.
    """
    encodings = _backend(tokenizer).encode_batch(
        [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
    )
    pieces: list[list[list[int]]] = [[[] for _ in words] for words in sentences]
    for of_sentence, encoding in zip(pieces, encodings, strict=True):
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word is not None:
                of_sentence[word].append(token)
    return pieces


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Returns the backend tokenizer; for byte-level BPE as in RoBERTa, a copy that adds a space before every word.

    Such tokenizers encode a space as a part of the following piece. Separate words have no space, and would become
    pieces that occur in pre-training only within words or at the start of a text.
    """
    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    if not _steps_without_space(backend):
        return backend
    tokens, copy = _copies.get(tokenizer, (-1, backend))
    if tokens != len(tokenizer):
        from tokenizers import Tokenizer

        copy = Tokenizer.from_str(backend.to_str())
        for step in _steps_without_space(copy):
            step.add_prefix_space = True
        _copies[tokenizer] = len(tokenizer), copy
    return copy


def _steps_without_space(backend: Tokenizer) -> list[Any]:
    """Returns the steps of the pre-tokenizer that encode a space with the following piece, but add none."""
    from tokenizers.pre_tokenizers import Sequence as Steps

    whole: Any = backend.pre_tokenizer
    steps: Any = whole if isinstance(whole, Steps) else [whole]
    return [step for step in steps if getattr(step, "add_prefix_space", None) is False]


def neighbours(
    sentences: Sequence[Words], documents: Sequence[Hashable], at_most: int
) -> tuple[list[Words], list[Words]]:
    """Returns for each sentence the nearest ``at_most`` words before it and after it in the same document.

    The sentences of a document are consecutive.

    >>> neighbours([["a", "b"], ["c"], ["d"]], [0, 0, 1], at_most=1)
    ([[], ['b'], []], [['c'], [], []])
    """
    before: list[Words] = []
    after: list[Words] = []
    for _, group in groupby(range(len(sentences)), key=lambda row: documents[row]):
        rows = list(group)
        words = [word for row in rows for word in sentences[row]]
        start = 0
        for row in rows:
            end = start + len(sentences[row])
            before.append(words[max(0, start - at_most) : start])
            after.append(words[end : end + at_most])
            start = end
    return before, after


def widened(sentence: Window, room: int, length: int) -> Window:
    """Extends the window of a sentence on both sides up to ``room`` tokens, equally where the text of ``length`` tokens
    allows it.

    >>> widened(Window(10, 14), 10, 100), widened(Window(1, 5), 10, 100), widened(Window(2, 4), 10, 5)
    (Window(start=7, end=17), Window(start=0, end=10), Window(start=0, end=5))
    """
    spare = room - (sentence.end - sentence.start)
    after = min(length - sentence.end, max(spare - spare // 2, spare - sentence.start))
    start = max(0, sentence.start - (spare - after))
    return Window(start, sentence.end + after)


@dataclass(frozen=True)
class InputForm:
    """Builder of model inputs from sentences.

    Attributes:
        max_seq_length: maximum tokens of an input, including [CLS] and [SEP].
        overlap: pieces that neighbouring windows of a long sentence share.
        cls, sep: token ids of [CLS] and [SEP].
        inside: for each label, the label of the other pieces of the word; None leaves these pieces unlabelled.
    """

    max_seq_length: int
    overlap: int
    cls: int
    sep: int
    inside: Sequence[int] | None = None

    @property
    def room(self) -> int:
        """Maximum number of pieces in an input."""
        return self.max_seq_length - 2

    def inputs(
        self,
        sentence: Sequence[Sequence[int]],
        before: Sequence[Sequence[int]] = (),
        after: Sequence[Sequence[int]] = (),
        labels: Sequence[int] | None = None,
    ) -> list[tuple[list[int], list[int], list[int]]]:
        """Builds the inputs of a sentence: a single one, or overlapping windows if the sentence is too long.

        Every word that has a piece is tagged once, in the window in which its first piece has the most context. A
        sentence that fits is extended with as many neighbouring pieces as fit; these are not tagged.

        Args:
            sentence: pieces of every word.
            before, after: pieces of the neighbouring words.
            labels: one label per word.

        Returns:
            For each input of S tokens three lists: the token ids, including [CLS] and [SEP]; at the first piece of each
            word that is tagged in this input the index of the word in its sentence, from 0, `NO_WORD` elsewhere; and
            the labels at these positions, and with `inside` at the other pieces of these words, `IGNORE_INDEX`
            elsewhere and in a sentence without labels.
        """
        pieces = list(chain.from_iterable(sentence))
        if len(pieces) <= self.room:
            text = list(chain(*before, pieces, *after))
            start = sum(map(len, before))
            spans = [widened(Window(start, start + len(pieces)), self.room, len(text))]
        else:
            start, text, spans = 0, pieces, windows(len(pieces), self.room, self.overlap, full=True)
        inputs = [
            (
                [self.cls, *text[span.start : span.end], self.sep],
                [NO_WORD] * (span.end - span.start + 2),
                [IGNORE_INDEX] * (span.end - span.start + 2),
            )
            for span in spans
        ]
        best_window = most_context(spans) if len(spans) > 1 else None
        begins = accumulate(map(len, sentence), initial=start)
        for word, (begin, of_word) in enumerate(zip(begins, sentence, strict=False)):
            if not of_word:
                continue
            index = 0 if best_window is None else best_window[begin]
            span, (_, word_ids, label_ids) = spans[index], inputs[index]
            at = begin - span.start + 1  # after [CLS]
            word_ids[at] = word
            if labels is not None:
                label_ids[at] = labels[word]
                if self.inside is not None:
                    end = min(at + len(of_word), len(label_ids) - 1)
                    label_ids[at + 1 : end] = [self.inside[labels[word]]] * (end - at - 1)
        return inputs
