"""Construction of model inputs from the pieces of a sentence, and the position at which each word is tagged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

from bertkit.errors import RecipeError
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.tasks.ner.neighbours import widened
from bertkit.tasks.windows import Window, check_overlap, most_context, windows

NO_WORD = -1


class TaggedInput(NamedTuple):
    """Model input of S tokens.

    Attributes:
        input_ids: token ids, including [CLS] and [SEP].
        word_ids: index of the word in its sentence, from 0, at the first piece of each word that is tagged in this
            input; `NO_WORD` elsewhere.
        labels: labels at these positions, `IGNORE_INDEX` elsewhere; all ignored for a sentence without labels.
    """

    input_ids: list[int]
    word_ids: list[int]
    labels: list[int]


@dataclass(frozen=True)
class InputForm:
    """Builder of model inputs from sentences.

    Attributes:
        max_seq_length: maximum tokens of an input, including [CLS] and [SEP].
        overlap: pieces that neighbouring windows of a long sentence share.
        cls, sep: token ids of [CLS] and [SEP].
        inside: for each label, the label of the other pieces of the word; None leaves these pieces unlabelled.

    Raises:
        RecipeError: ``overlap`` leaves no new piece for a window.
    """

    max_seq_length: int
    overlap: int
    cls: int
    sep: int
    inside: Sequence[int] | None = None

    def __post_init__(self) -> None:
        try:
            check_overlap(self.overlap, self.room)
        except ValueError as error:
            raise RecipeError(f"data.stride: {error}") from error

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
    ) -> list[TaggedInput]:
        """Builds the inputs of a sentence: a single one, or overlapping windows if the sentence is too long.

        Every word that has a piece is tagged once, in the window in which its first piece has the most context. A
        sentence that fits is extended with as many neighbouring pieces as fit; these are not tagged.

        Args:
            sentence: pieces of every word.
            before, after: pieces of the neighbouring words.
            labels: one label per word.

        Returns:
            One or more inputs.
        """
        pieces = list(chain.from_iterable(sentence))
        if len(pieces) <= self.room:
            text = list(chain(*before, pieces, *after))
            start = sum(map(len, before))
            spans = [widened(Window(start, start + len(pieces)), self.room, len(text))]
        else:
            start, text, spans = 0, pieces, windows(len(pieces), self.room, self.overlap, full=True)
        inputs = [
            TaggedInput(
                [self.cls, *text[span.start : span.end], self.sep],
                [NO_WORD] * (span.end - span.start + 2),
                [IGNORE_INDEX] * (span.end - span.start + 2),
            )
            for span in spans
        ]
        chosen = most_context(spans) if len(spans) > 1 else None
        begins = accumulate(map(len, sentence), initial=start)
        for word, (begin, of_word) in enumerate(zip(begins, sentence, strict=False)):
            if not of_word:
                continue
            index = 0 if chosen is None else chosen[begin]
            span, (_, word_ids, label_ids) = spans[index], inputs[index]
            at = begin - span.start + 1  # after [CLS]
            word_ids[at] = word
            if labels is not None:
                label_ids[at] = labels[word]
                if self.inside is not None:
                    end = min(at + len(of_word), len(label_ids) - 1)
                    label_ids[at + 1 : end] = [self.inside[labels[word]]] * (end - at - 1)
        return inputs
