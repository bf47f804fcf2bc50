"""Attribution of the tags of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.errors import DataError, quoted
from bertkit.explain.network import Network
from bertkit.explain.pieces import Word
from bertkit.explain.subjects import Subject, Target, outputs_of, subject_of
from bertkit.metrics.entities import OUTSIDE
from bertkit.tasks.ner.inputs import NO_WORD
from bertkit.tasks.ner.task import NerTask

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 5  # words whose tags are attributed


@subject_of.register
def _(task: NerTask, network: Network, texts: Sequence[str], label: str | None) -> Subject:
    if len(texts) != 1:
        raise DataError(f"{task.name} reads one text, got {len(texts)}")
    # Words, also for a checkpoint that records no task, which reads raw texts whole.
    columns = {"tokens": NerTask.read_input(task, list(texts))["tokens"]}
    features = task.encode(columns, network.tokenizer)
    if len(features["input_ids"]) > 1:
        raise DataError(
            f"the text has {len(features['input_ids'])} windows, and words are attributed to in one; give a shorter "
            "text"
        )
    ids = np.array(features["input_ids"][0])
    tokens = columns["tokens"][0]
    words = _words(np.array(features["word_ids"][0]), tokens)
    if not words:
        raise DataError("the tokenizer leaves no word of the text; give a text with at least one word")
    subject = Subject("", ids, np.zeros_like(ids), words, [], lambda batch: network.model(**batch))
    outputs = outputs_of(network, subject.batch(network, ids[None]))["logits"].float().cpu().numpy()
    probabilities = task.word_probabilities(outputs, features, columns)[0]
    names, best = task.model_labels, probabilities.argmax(axis=-1)
    tags = [f"{token}/{names[index]}" for token, index in zip(tokens, best, strict=True)]

    def target(number: int, word: Word) -> Target:
        position, index = word.start, int(best[number])

        def logit(outputs: Any) -> Tensor:
            return outputs["logits"][:, position, index]

        def probability(outputs: Any) -> Tensor:
            return outputs["logits"][:, position].float().softmax(dim=-1)[:, index]

        name = f"{word.text}: {names[index]}"
        return Target(name, logit, float(probabilities[number, index]), as_probability=probability)

    numbers = _chosen(tokens, [str(names[index]) for index in best], label)
    by_number = {int(features["word_ids"][0][word.start]): word for word in words}
    targets = [target(number, by_number[number]) for number in numbers if number in by_number]
    return Subject(" ".join(tags), ids, subject.segments, words, targets, subject.call)


def _words(word_ids: np.ndarray, tokens: Sequence[str]) -> list[Word]:
    """Returns the words with all of their tokens; the last token is the separator."""
    starts = [
        position
        for position in range(len(word_ids))
        if word_ids[position] != NO_WORD and (position == 0 or word_ids[position] != word_ids[position - 1])
    ]
    ends = [*starts[1:], len(word_ids) - 1]
    return [Word(tokens[word_ids[start]], 0, start, end) for start, end in zip(starts, ends, strict=True)]


def _chosen(tokens: Sequence[str], tags: Sequence[str], label: str | None) -> list[int]:
    """Returns the numbers of the words whose tags are attributed: the given one, or those with tags, or the first."""
    if label is not None:
        if label not in tokens:
            raise DataError(f"label {label!r}: expected a word of the text: {quoted(dict.fromkeys(tokens))}")
        return [number for number, token in enumerate(tokens) if token == label][:_MOST]
    tagged = [number for number, tag in enumerate(tags) if tag != OUTSIDE]
    return (tagged or [0])[:_MOST]
