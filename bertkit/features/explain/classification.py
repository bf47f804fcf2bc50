"""Attribution of labels and numbers of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.attribution import Subject, Target, index_of, pieces_like, subject_of
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import number_of_window
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import counted
from bertkit.tasks.base import one_array, padded
from bertkit.tasks.classification.text_classification import TextClassification

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 3  # labels of a multi-label prediction


@subject_of.register
def subject_of_texts(
    task: TextClassification, network: Network, texts: Sequence[str], label: str | None, window: int | None
) -> Subject:
    """Returns what `subject_of` does."""
    # One column of texts, or two of pairs; the settings of a checkpoint that records no task name none.
    columns = list(task.read_input(["a\tb"]))
    if len(texts) != len(columns):
        raise DataError(f"{task.name} reads {counted(len(columns), 'text')} ({', '.join(columns)}), got {len(texts)}")
    examples = {column: [text] for column, text in zip(columns, texts, strict=True)}
    features = task.encode(examples, network.tokenizer)
    logits = one_array(network.outputs(features))
    prediction = task_inference(task).format_prediction(task.decode(logits, features, examples)[0])
    chosen = _choose_labels(task, logits, label)
    row = features["input_ids"][0]
    rows = row if task.data.long_text == "chunk" else [row]
    number, note = number_of_window(window, len(rows)), ""
    if len(rows) > 1:
        import torch

        # Each window on its own: the prediction joins them.
        windows = zip(*(features[name][0] for name in network.inputs), strict=True)
        inputs = [dict(zip(network.inputs, values, strict=True)) for values in windows]
        batch = network.on_device(padded(inputs, network.tokenizer, network.inputs))
        with torch.inference_mode():
            logits = network.model(**batch)["logits"].float().cpu().numpy()
        number = number_of_window(window, len(rows), int(logits[:, chosen[0]].argmax()))
        note = (
            f"the prediction is of all {len(rows)} windows together; the numbers are of window {number} alone, by "
            "default the one with the largest output for the label"
        )
    pieces = pieces_like(network, texts, rows[number], number)
    targets = _make_targets(task, logits[number], chosen)
    return Subject(prediction, pieces, targets, lambda batch: network.model(**batch), note=note)


def _choose_labels(task: TextClassification, logits: np.ndarray, label: str | None) -> list[int]:
    """Returns the id of the given label, or those of the predicted ones, of several labels at most three and at least
    the most probable one; logits are (1, C)."""
    if task.problem_type == "regression":
        if label is not None:
            raise DataError(f"label {label!r}: {task.name} predicts a number; remove it")
        return [0]
    if label is not None:
        return [index_of(label, task.settings.label_names, "one of the labels")]
    if task.problem_type == "multi_label_classification":
        probabilities = task.probabilities(logits)[0]
        labels = np.flatnonzero(task.predicted(logits)[0])
        order = labels if len(labels) else np.array([probabilities.argmax()])  # each label has its temperature
        return sorted(order.tolist(), key=lambda index: -probabilities[index])[:_MOST]
    return [int(task.predicted(logits)[0])]


def _make_targets(task: TextClassification, logits: np.ndarray, chosen: Sequence[int]) -> list[Target]:
    """Returns the numbers of an input that are attributed: those of chosen labels, from its logits (C,)."""
    if task.problem_type == "regression":
        name = str(task.settings.label_column or "score")
        return [Target(name, lambda outputs: outputs["logits"][:, 0], None, "score")]
    names, probabilities = task.settings.label_names, task.probabilities(logits[None])[0]
    temperatures = getattr(task, "temperatures", None)

    def target(index: int) -> Target:
        def logit(outputs: Any) -> Tensor:
            return outputs["logits"][:, index]

        def probability(outputs: Any) -> Tensor:
            logits = outputs["logits"].float()
            logits = logits if temperatures is None else logits / logits.new_tensor(temperatures)
            is_multi_label = task.problem_type == "multi_label_classification"
            return (logits.sigmoid() if is_multi_label else logits.softmax(dim=-1))[:, index]

        return Target(names[index], logit, float(probabilities[index]), as_probability=probability)

    return [target(index) for index in chosen]
