"""Attribution of labels and numbers of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.errors import DataError
from bertkit.explain.network import Network
from bertkit.explain.subjects import Subject, Target, index_of, outputs_of, pieces_like, subject_of
from bertkit.inference.predicted import predicted
from bertkit.progress import counted
from bertkit.tasks.classification.text_classification import TextClassification

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 3  # labels of a multi-label prediction


@subject_of.register
def _(task: TextClassification, network: Network, texts: Sequence[str], label: str | None) -> Subject:
    columns = list(task.read_input(["a\tb"]))  # one column of texts, or two of pairs
    if len(texts) != len(columns):
        raise DataError(f"{task.name} reads {counted(len(columns), 'text')} ({', '.join(columns)}), got {len(texts)}")
    examples = {column: [text] for column, text in zip(columns, texts, strict=True)}
    features = task.encode(examples, network.tokenizer)
    rows = features["input_ids"]
    windows = rows[0] if task.data.long_text == "chunk" else rows
    if len(windows) > 1:
        raise DataError(f"the text has {len(windows)} windows, and words are attributed to in one; give a shorter text")
    pieces = pieces_like(network, texts, windows[0])
    logits = outputs_of(network, pieces.batch(network))["logits"].float().cpu().numpy()
    prediction = predicted(task).format_prediction(task.decode(logits, features, examples)[0])
    return Subject(
        prediction,
        pieces.ids,
        pieces.segments,
        pieces.words,
        _targets(task, logits, label),
        lambda batch: network.model(**batch),
    )


def _targets(task: TextClassification, logits: np.ndarray, label: str | None) -> list[Target]:
    """Returns the chosen label, or the predicted ones; logits are (1, C)."""
    names = task.task.label_names
    if task.problem_type == "regression":
        if label is not None:
            raise DataError(f"label {label!r}: {task.name} predicts a number; remove it")
        return [Target(str(task.task.label_column or "score"), lambda outputs: outputs["logits"][:, 0], None, "score")]
    probabilities = task.probabilities(logits)[0]
    if label is not None:
        chosen = [index_of(label, names, "one of the labels")]
    elif task.problem_type == "multi_label_classification":
        labels = np.flatnonzero(task.predicted(logits)[0])
        order = labels if len(labels) else np.array([logits[0].argmax()])
        chosen = sorted(order.tolist(), key=lambda index: -probabilities[index])[:_MOST]
    else:
        chosen = [int(task.predicted(logits)[0])]

    temperature = getattr(task.task, "temperature", None) or 1.0

    def target(index: int) -> Target:
        def logit(outputs: Any) -> Tensor:
            return outputs["logits"][:, index]

        def probability(outputs: Any) -> Tensor:
            logits = outputs["logits"].float() / temperature
            is_multi_label = task.problem_type == "multi_label_classification"
            return (logits.sigmoid() if is_multi_label else logits.softmax(dim=-1))[:, index]

        return Target(names[index], logit, float(probabilities[index]), as_probability=probability)

    return [target(index) for index in chosen]
