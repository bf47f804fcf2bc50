"""Tasks of stock checkpoints, which do not record for what they were trained: inferred from their configuration.

The head decides the kind of the task, ``id2label`` its labels, ``problem_type`` the form of its predictions, and the
limits of model and tokenizer the length of its inputs. Each kind of task has a subclass that knows what follows for it,
beside the task itself. The rest of bertkit uses the result as any other task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bertkit.checkpoint.encoders import longest_input, saved_head
from bertkit.checkpoint.load import longest_of_tokenizer
from bertkit.errors import CheckpointError, RecipeError
from bertkit.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_TASKS = {
    "BertForSequenceClassification": "bertkit.tasks.classification.stock:StockClassification",
    "BertForTokenClassification": "bertkit.tasks.ner.stock:StockNer",
    "BertForQuestionAnswering": "bertkit.tasks.question_answering.stock:StockQuestionAnswering",
}
_OTHER_USES = {
    "BertForMaskedLM": "fill-mask and embed use its masked language model",
    "BertForPreTraining": "fill-mask and embed use its masked language model",
    "BertModel": "it is an encoder without a head, which embed uses",
}


def is_stock_task(config: PreTrainedConfig) -> bool:
    """Returns whether a checkpoint that records no task has a head from which one can be inferred."""
    return saved_head(config) in _TASKS


def stock_task(config: PreTrainedConfig, name: str, data: Mapping[str, Any]) -> Task:
    """Returns the task of a checkpoint that does not record it.

    Args:
        config: the loaded configuration.
        name: name of the checkpoint, for its tokenizer and for error messages.
        data: values of the ``data`` block that differ from those inferred.

    Raises:
        CheckpointError: the head is of no such task, or its labels are not usable.
        RecipeError: the task has no such ``data`` value.
    """
    head = saved_head(config)
    place = _TASKS.get(head or "")
    if place is None:
        made = ", ".join(config.architectures or ["unknown"])
        use = f"; {_OTHER_USES[head]}" if head in _OTHER_USES else ""
        raise CheckpointError(
            f"{name}: config.json does not say which task this checkpoint ({made}) was fine-tuned for, and its head is "
            f"not that of a sequence classifier, a token classifier or a question answering model{use}; give such a "
            "checkpoint, or a run directory that `bertkit finetune` wrote"
        )
    module, _, class_name = place.partition(":")
    task_class = getattr(import_module(module), class_name)
    known = {field.name for field in dataclasses.fields(task_class.data_settings)}
    for key in data:
        if key not in known:
            raise RecipeError(f"data.{key}: {name} is used for {task_class.kind}, which has no such data setting")
    longest = min(longest_input(config), longest_of_tokenizer(name))
    try:
        task: Task = task_class.of_config(config, name, longest, data)
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    return task


def labels_of(config: PreTrainedConfig, name: str) -> list[str]:
    """Returns the names of a configuration's labels in the order of their ids, each name once.

    Raises:
        CheckpointError: ``id2label`` is empty or lacks an id, or two ids have the same name.
    """
    by_id = config.id2label or {}
    if not by_id:
        raise CheckpointError(f"{name}: config.json has no labels; get a complete copy of the checkpoint")
    if sorted(by_id) != list(range(len(by_id))):
        raise CheckpointError(
            f"{name}: id2label in config.json has the ids {', '.join(map(str, sorted(by_id)))}; expected 0 to "
            f"{len(by_id) - 1}; correct it in a copy of the checkpoint"
        )
    names = [str(by_id[number]) for number in range(len(by_id))]
    twice = sorted({label for label in names if names.count(label) > 1})
    if twice:
        raise CheckpointError(
            f"{name}: id2label in config.json has the name {twice[0]!r} more than once; give each label its own name "
            "in a copy of the checkpoint"
        )
    return names
