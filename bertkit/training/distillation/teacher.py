"""The teacher of a student: checked against the task and the tokenizer of the student, and run on encoded inputs.

Dimension letters: N inputs, S tokens of an input, C classes, H hidden size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from bertkit.checkpoint.encoders import model_inputs, saved_head
from bertkit.checkpoint.load import check_positions, load_config, load_model, load_tokenizer
from bertkit.errors import CheckpointError, RecipeError
from bertkit.inference.ensemble import refuse_ensemble
from bertkit.inference.forward import forward_in_batches
from bertkit.json_text import dumps
from bertkit.progress import Reached, unreported, without_library_bars
from bertkit.recipe.distillation import DistillationSettings
from bertkit.tasks.base import Task
from bertkit.tasks.label_names import matched_names
from bertkit.tasks.splits import ColumnsOf, Split
from bertkit.tasks.stock import labels_of

HIDDEN = "hidden"
"""Name of the last hidden states among the outputs of a teacher."""

_BATCH = 64  # inputs
_COMPARED = 200  # training examples that both tokenizers encode
_NOT_OUTPUTS = ("loss", "hidden_states", "attentions")
# Fields of a configuration that do not change what the network computes.
_NAMES = ("_name_or_path", "architectures", "auto_map", "bertkit_task", "id2label", "label2id", "transformers_version")


class Teacher:
    """A fine-tuned checkpoint that computes the outputs that a student learns from.

    Args:
        settings: teacher and weights of the losses.
        task: task of the student, with the labels of the data.
        device: device of the model.

    Raises:
        CheckpointError: the teacher cannot be loaded, or was trained for another task.
        DataError: its labels are not those of the data.
        RecipeError: it does not read inputs of the recipe's length, or ``hidden`` is set and does not work.
    """

    def __init__(self, settings: DistillationSettings, task: Task, device: torch.device):
        self.name, self.task, self.settings = settings.teacher, task, settings
        refuse_ensemble(self.name)
        self.config: PreTrainedConfig = load_config(self.name, any_encoder=True)
        head = saved_head(self.config)
        if head != task.head:
            saved = (self.config.architectures or ["none"])[0]
            raise CheckpointError(
                f"train.distill.teacher: {self.name} has the head {saved}; the task "
                f"{task.name} needs {task.head}; give a checkpoint that was fine-tuned for this task"
            )
        check_positions(task.data.max_seq_length, self.config, self.name)
        self._order = _order_of_labels(task, self.config, self.name)
        self._inputs = model_inputs(self.config)
        self._device = device

    @cached_property
    def _model(self) -> PreTrainedModel:
        with without_library_bars():
            model, _ = load_model(self.task.head, self.name, self.config, new_head=False)
        self.task.prepare(model)
        return model.requires_grad_(False).eval()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights, of the configuration, and of what else determines the outputs for an input."""
        settings = [self.task.describe(), self._order, self.settings.hidden > 0]
        return model_digest(self._model, self.config, settings)

    def check_tokenizer(self, tokenizer: PreTrainedTokenizerBase, student: str, train: Split) -> None:
        """Checks that the student's tokenizer gives the ids that the teacher was trained on.

        The vocabularies are compared, and the ids of the first training examples, which also depend on lower-casing,
        accents and special tokens.

        Raises:
            CheckpointError: they differ; the message has the first difference.
        """
        own = self._tokenizer
        found = differing_pieces(own, tokenizer)
        if not found:
            examples = ColumnsOf(train.examples.select(range(min(_COMPARED, len(train.examples)))))
            rows = (self.task.encode(examples, each)["input_ids"] for each in (own, tokenizer))
            other = next((number for number, (one, two) in enumerate(zip_longest(*rows)) if one != two), None)
            found = "" if other is None else f"the ids of input {other + 1} of {train.source}"
        if found:
            raise different_tokenizers(self.name, student, found)

    def check_inputs(self, row: Mapping[str, Any]) -> None:
        """Checks that an encoded row has one input, if hidden states have a weight.

        Raises:
            RecipeError: it has several, as windows of a long text.
        """
        inputs = row["input_ids"]
        if self.settings.hidden and len(inputs) and isinstance(inputs[0], list):
            raise RecipeError(
                "train.distill.hidden: an example has several inputs here (windows or choices), which is not "
                "supported; remove --hidden"
            )

    def compute(self, rows: Sequence[Mapping[str, Any]], reached: Reached = unreported) -> list[dict[str, np.ndarray]]:
        """Computes the outputs for encoded rows, in float32 on every device.

        Args:
            rows: N rows of `Task.encode`; labels are not used.
            reached: called with the number of rows done and N.

        Returns:
            Name of a model output → its values for a row: (C,) for one prediction, (S, C) or (S,) for one per token,
            float32, with NaN at tokens without a prediction, and classes in the order of the student's; with
            ``hidden`` also `HIDDEN`, (S, H) float16.

        Raises:
            CheckpointError: an output is not finite.
        """
        wants_hidden = self.settings.hidden > 0

        def collate(chosen: list[int]) -> dict[str, Any]:
            batch = self.task.collate([rows[row] for row in chosen], self._tokenizer, self._inputs)
            return {name: values for name, values in batch.items() if name not in self.task.label_columns}

        def keep(chosen: list[int], outputs: Mapping[str, Any]) -> Iterator[dict[str, np.ndarray]]:
            given = {
                name: values.float().cpu().numpy()
                for name, values in outputs.items()
                if name not in _NOT_OUTPUTS and isinstance(values, torch.Tensor)
            }
            hidden = outputs["hidden_states"][-1].half().cpu().numpy() if wants_hidden else None
            for place, row in enumerate(chosen):
                found = {name: self._of_row(values[place], rows[row]) for name, values in given.items()}
                if hidden is not None:
                    found[HIDDEN] = hidden[place, : len(rows[row]["input_ids"])].copy()
                yield found

        options = {"output_hidden_states": True} if wants_hidden else {}
        lengths = [int(row["length"]) for row in rows]
        model = self._model.to(self._device)
        return forward_in_batches(model, lengths, collate, keep, _BATCH, self.name, reached, **options)

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.name, config=self.config)

    def _of_row(self, values: np.ndarray, row: Mapping[str, Any]) -> np.ndarray:
        tokens = self.task.predicted_tokens(row)
        if tokens is None:
            found = values.copy()
        else:
            found = values[: len(tokens)].copy()
            found[~np.asarray(tokens, bool)] = np.nan
        return found if self._order is None else found[..., self._order]

    def release(self) -> None:
        """Frees the weights; they are loaded again when needed."""
        self.__dict__.pop("_model", None)


def model_digest(model: PreTrainedModel, config: PreTrainedConfig, settings: Sequence[Any] = ()) -> str:
    """Returns the SHA-256 of the weights of a model, of its configuration and of what else determines its outputs."""
    found = hashlib.sha256()
    fields = {name: value for name, value in config.to_dict().items() if name not in _NAMES}
    found.update(dumps([fields, *settings], sort_keys=True, default=str).encode())
    for name, values in sorted(model.state_dict().items()):
        found.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
        found.update(values.cpu().contiguous().flatten().view(torch.uint8).numpy())
    return found.hexdigest()


def differing_pieces(teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase) -> str:
    """Returns how the vocabularies differ, with the first difference; empty if they are the same."""
    theirs, ours = teacher.get_vocab(), student.get_vocab()
    differing = sorted(piece for piece in theirs.keys() | ours.keys() if theirs.get(piece) != ours.get(piece))
    if not differing:
        return ""
    ids = (_shown(differing[0], vocabulary) for vocabulary in (theirs, ours))
    return f"{len(differing)} pieces; {differing[0]!r} is {' and '.join(ids)}"


def different_tokenizers(teacher: str, student: str, found: str) -> CheckpointError:
    """Returns the error that teacher and student have different tokenizers; ``found`` is the first difference."""
    return CheckpointError(
        f"train.distill.teacher: {teacher} and the student, {student}, have different tokenizers: {found}; the teacher "
        "reads the inputs of the student: give a student with the same vocabulary, or take it from the teacher: "
        "--student-layers"
    )


def check_width(settings: DistillationSettings, teacher: PreTrainedConfig, student: PreTrainedConfig) -> None:
    """Checks that the hidden states of teacher and student can be compared, if they have a weight.

    Raises:
        RecipeError: the hidden sizes differ.
    """
    if settings.hidden and student.hidden_size != teacher.hidden_size:
        raise RecipeError(
            f"train.distill.hidden: {settings.teacher} is {teacher.hidden_size} wide and the student "
            f"{student.hidden_size}; hidden states of different sizes have no cosine; remove --hidden"
        )


def _order_of_labels(task: Task, config: PreTrainedConfig, name: str) -> list[int] | None:
    """Returns the places of the student's labels among those of the teacher; ``None`` for the same order.

    Raises:
        DataError: the labels differ.
        CheckpointError: the teacher has more labels.
    """
    names = [str(label) for label in (task.config().get("id2label") or {}).values()]
    if len(names) < 2:  # a number has no label, and an answer has positions
        return None
    known = labels_of(config, name)
    matched, _ = matched_names(names, known, f"train.distill.teacher: {name}")
    order = [known.index(matched[label]) for label in names]
    if len(known) > len(names):
        more = ", ".join(repr(label) for label in known if label not in matched.values())
        raise CheckpointError(
            f"train.distill.teacher: {name} has the labels {', '.join(map(repr, known))}, the data have "
            f"{', '.join(map(repr, names))}; without {more} its probabilities have no meaning; give data with "
            "all of its labels (task.label_names), or another teacher"
        )
    return None if order == list(range(len(order))) else order


def _shown(piece: str, vocabulary: Mapping[str, int]) -> str:
    return f"id {vocabulary[piece]}" if piece in vocabulary else "missing"
