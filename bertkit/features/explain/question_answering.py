"""Attribution of the start and the end of an answer, and both over the passage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.attribution import Curve, Subject, Target, subject_of
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, number_of_window, pieces_with, words_at
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError
from bertkit.tasks.base import softmax
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.question_answering.windows import pair_form

if TYPE_CHECKING:
    from torch import Tensor

_SPANS = 5


@subject_of.register
def _(
    task: QuestionAnsweringTask, network: Network, texts: Sequence[str], label: str | None, window: int | None
) -> Subject:
    if label is not None:
        raise DataError(f"label {label!r}: {task.name} has no labels; remove it")
    if len(texts) != 2:
        raise DataError(f"{task.name} reads two texts, a question and a context; give both")
    columns = {"question": [texts[0]], "context": [texts[1]]}
    features = task.encode(columns, network.tokenizer)
    outputs: Any = network.outputs(features)
    predicted = task.decode(outputs, features, columns)[0]
    prediction = task_inference(task).format_prediction(predicted)
    count = len(features["input_ids"])
    note = "" if predicted["answer"] else "no answer is predicted; the numbers are of the best span"
    chosen = number_of_window(window, count)
    if window is not None and count > 1:  # the best answer in this window
        features = {name: [values[chosen]] for name, values in features.items()}
        outputs = outputs[0][chosen : chosen + 1], outputs[1][chosen : chosen + 1]
        note = f"the prediction is of all {count} windows; the numbers are of the best answer in window {window}"
    decoded = task.decoded_spans(outputs, features, columns)[0]
    if not decoded.spans:
        raise DataError("the tokenizer leaves nothing of the context; give one with at least one word")
    row, start, end = _place(features, decoded.spans[0].start, decoded.spans[0].end, outputs)
    starts, ends = features["char_starts"][row], features["char_ends"][row]
    pieces = _find_pieces(network, texts, features, row, row if window is None else chosen, count)
    first = features["context_begin"][row]
    probabilities = [softmax(each[row : row + 1, : len(pieces.ids)])[0] for each in outputs]

    def target(name: str, key: str, position: int, probability: float) -> Target:
        def logit(outputs: Any) -> Tensor:
            return outputs[key][:, position]

        def of_tokens(outputs: Any) -> Tensor:
            return outputs[key].float().softmax(dim=-1)[:, position]

        return Target(name, logit, probability, as_probability=of_tokens)

    curve = Curve(
        [texts[1][a:b] for a, b in zip(starts, ends, strict=True)],
        probabilities[0][first : first + len(starts)],
        probabilities[1][first : first + len(starts)],
        [(span.text, span.probability) for span in decoded.spans[:_SPANS]]
        + ([("(no answer)", decoded.null_probability)] if task.settings.version_2_with_negative else []),
    )
    targets = [
        target(f"start at “{curve.words[start]}”", "start_logits", first + start, float(curve.start[start])),
        target(f"end at “{curve.words[end]}”", "end_logits", first + end, float(curve.end[end])),
    ]
    return Subject(prediction, pieces, targets, lambda batch: network.model(**batch), curve, note)


def _find_pieces(network: Network, texts: Sequence[str], features: Any, row: int, window: int, windows: int) -> Pieces:
    """Returns the pieces of a window: the question, which may be cut, and a part of the context."""
    ids, form = features["input_ids"][row], pair_form(network.tokenizer)
    begin = features["context_begin"][row]
    first, last = len(form.specials[0]), begin - len(form.specials[1])
    places = ((first, last, 0), (begin, len(ids) - len(form.specials[2]), features["first_token"][row]))
    words = []
    for segment, (text, (start, end, token)) in enumerate(zip(texts, places, strict=True)):
        read = network.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        part = slice(token, token + end - start)
        words += words_at(text, segment, read.word_ids(0)[part], read["offset_mapping"][part], start)
    segments = features["token_type_ids"][row]
    return pieces_with(network, texts, ids, segments, words, window=window, windows=windows)


def _place(features: Any, start: int, end: int, outputs: tuple[np.ndarray, np.ndarray]) -> tuple[int, int, int]:
    """Returns the row of a span given by its characters, the one with the highest score, and its tokens there.

    Several tokens may have one character, such as the bytes of an emoji; the span is of those with the highest score.
    """
    places = []
    for window, (starts, ends) in enumerate(zip(features["char_starts"], features["char_ends"], strict=True)):
        begin = features["context_begin"][window]
        firsts, lasts = np.flatnonzero(np.equal(starts, start)), np.flatnonzero(np.equal(ends, end))
        for first, last in product(firsts.tolist(), lasts.tolist()):
            if first <= last:
                score = outputs[0][window, begin + first] + outputs[1][window, begin + last]
                places.append((float(score), window, first, last))
    _, window, first, last = max(places)
    return window, first, last
