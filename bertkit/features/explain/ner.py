"""Attribution of the tags of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.attribution import Subject, Target, subject_of
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, Word, number_of_window, pieces_with
from bertkit.metrics.entities import OUTSIDE
from bertkit.runtime.errors import DataError, quoted
from bertkit.tasks.ner.inputs import NO_WORD, word_pieces
from bertkit.tasks.ner.task import NerTask

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 5  # words whose tags are attributed


@subject_of.register
def _(task: NerTask, network: Network, texts: Sequence[str], label: str | None, window: int | None) -> Subject:
    if len(texts) != 1:
        raise DataError(f"{task.name} reads one text, got {len(texts)}")
    # Words, also for a checkpoint that records no task, which reads raw texts whole.
    columns = {"tokens": NerTask.read_input(task, list(texts))["tokens"]}
    features = task.encode(columns, network.tokenizer)
    tokens = columns["tokens"][0]
    # A word is tagged in one window.
    window_of = {word: row for row, words in enumerate(features["word_ids"]) for word in words if word != NO_WORD}
    if not window_of:
        raise DataError("the tokenizer leaves no word of the text; give a text with at least one word")
    probabilities = task.word_probabilities(network.outputs(features), features, columns)[0]
    names, best = task.model_labels, probabilities.argmax(axis=-1)
    tags = [str(names[index]) for index in best]
    numbers, window = _choose_words(tokens, tags, label, window, window_of, len(features["input_ids"]))
    pieces = _find_pieces(network, texts, tokens, features, window)
    word_at = {int(features["word_ids"][window][word.start]): word for word in pieces.words}

    def target(number: int, word: Word) -> Target:
        position, index = word.start, int(best[number])

        def logit(outputs: Any) -> Tensor:
            return outputs["logits"][:, position, index]

        def probability(outputs: Any) -> Tensor:
            return outputs["logits"][:, position].float().softmax(dim=-1)[:, index]

        name = f"{word.text}: {names[index]}"
        return Target(name, logit, float(probabilities[number, index]), as_probability=probability)

    prediction = " ".join(f"{token}/{tag}" for token, tag in zip(tokens, tags, strict=True))
    targets = [target(number, word_at[number]) for number in numbers[:_MOST]]
    return Subject(prediction, pieces, targets, lambda batch: network.model(**batch))


def _choose_words(
    tokens: Sequence[str],
    tags: Sequence[str],
    label: str | None,
    window: int | None,
    window_of: Mapping[int, int],
    windows: int,
) -> tuple[list[int], int]:
    """Returns the numbers of the words whose tags are attributed, and that of the window which tags all of them.

    They are those of the given label; without one those with tags. In a window without tags they are all of its words,
    and where no word has one, the first word that the tokenizer leaves. ``window_of`` has the window of each word of
    which the tokenizer leaves something.
    """
    if label is None:
        chosen = [number for number, tag in enumerate(tags) if tag != OUTSIDE and number in window_of]
        chosen = chosen or [min(window_of)]
    elif label in tokens:
        chosen = [number for number, token in enumerate(tokens) if token == label and number in window_of]
    else:
        raise DataError(f"label {label!r}: expected a word of the text: {quoted(dict.fromkeys(tokens))}")
    if not chosen:
        raise DataError(f"label {label!r}: the tokenizer leaves nothing of this word; give another word of the text")
    window = number_of_window(window, windows, window_of[chosen[0]])
    numbers = [number for number in chosen if window_of[number] == window]
    if label is not None and not numbers:
        raise DataError(f"label {label!r}: it is tagged in another window than {window}")
    numbers = numbers or [number for number, row in window_of.items() if row == window]
    if not numbers:
        raise DataError(f"window {window}: it tags no word; choose another window")
    return numbers, window


def _find_pieces(network: Network, texts: Sequence[str], tokens: Sequence[str], features: Any, window: int) -> Pieces:
    """Returns the pieces of a window: all of its words, also those that are tagged in another one."""
    lengths = np.array([len(pieces) for pieces in word_pieces([tokens], network.tokenizer)[0]])
    ends = lengths.cumsum()
    ids, word_ids = features["input_ids"][window], np.array(features["word_ids"][window])
    position = int(np.flatnonzero(word_ids != NO_WORD)[0])
    first = int(ends[word_ids[position]] - lengths[word_ids[position]]) - position  # place of the first token
    last = len(ids) - 1  # the separator
    words = [
        Word(token, 0, max(int(end - length) - first, 1), min(int(end) - first, last))
        for token, length, end in zip(tokens, lengths, ends, strict=True)
        if length and end - first > 1 and end - length - first < last
    ]
    segments = features["token_type_ids"][window]
    return pieces_with(network, texts, ids, segments, words, window=window, windows=len(features["input_ids"]))
