"""Attribution of the score of an ending to the words of the context and of the ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.features.explain.attribution import Subject, Target, index_of, pieces_like, subject_of
from bertkit.features.explain.network import Network
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError
from bertkit.tasks.multiple_choice import MultipleChoiceTask

if TYPE_CHECKING:
    from torch import Tensor


@subject_of.register
def _(
    task: MultipleChoiceTask, network: Network, texts: Sequence[str], label: str | None, window: int | None
) -> Subject:
    given = "\t".join(texts)
    if "\t" not in given:
        raise DataError(f"{task.name} reads a context, and its endings with tabs between them; give both")
    columns = task.read_input([given])
    features = task.encode(columns, network.tokenizer)
    decoded = task.decode(network.outputs(features), features, columns)[0]
    numbers = list(map(str, range(len(columns["endings"][0]))))
    choice = decoded["choice"] if label is None else index_of(label, numbers, "the number of an ending, one of")
    ending = columns["endings"][0][choice]
    pieces = pieces_like(network, [columns["context"][0], ending], features["input_ids"][0][choice], window)

    def call(batch: Mapping[str, Tensor]) -> Any:
        import torch

        # The score of an ending does not depend on the others, so each input is an example of one ending.
        counts = torch.ones(len(batch["input_ids"]), dtype=torch.long, device=network.model.device)
        return network.model(**{name: values[:, None] for name, values in batch.items()}, choice_counts=counts)

    target = Target(f"ending {choice}", lambda outputs: outputs["logits"][:, 0], decoded["probabilities"][choice])
    prediction = task_inference(task).format_prediction(decoded)
    return Subject(prediction, pieces, [target], call)
