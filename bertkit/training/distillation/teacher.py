"""Teachers: checkpoints that run on the batches of a student, without gradients, on its device and in its precision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.model.modeling_bert import BertEncoder, BertPreTrainedModel
from bertkit.recipe.settings import DistillationSettings
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.runtime.json_text import dumps

HIDDEN = "hidden"
"""Name of the last hidden states, (B, S, H), among the recorded outputs of teacher and student."""

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Fields of a configuration that do not change what the network computes.
_NAMES = ("_name_or_path", "architectures", "auto_map", "bertkit_task", "id2label", "label2id", "transformers_version")


def computing_all(model: PreTrainedModel) -> nn.Module:
    """Makes a model compute all tokens in its last layer; returns the module whose first output are these (B, S, H)."""
    if not isinstance(model, BertPreTrainedModel):
        return model.base_model
    encoder: BertEncoder = model.base_model.encoder
    encoder.skips_unread = False
    return encoder


class OutputRecorder:
    """Forward hooks that keep the last outputs of modules of a model until they are taken.

    Args:
        modules: name → module. Of several outputs the first one is kept.
    """

    def __init__(self, modules: Mapping[str, nn.Module]):
        self._outputs: dict[str, Tensor] = {}
        for name, module in modules.items():
            # Before the hook of `as_pretraining_model`, which leaves the states of masked tokens only.
            module.register_forward_hook(partial(self._keep, name), prepend=True)

    def _keep(self, name: str, module: nn.Module, inputs: Any, outputs: Any) -> None:
        self._outputs[name] = outputs if isinstance(outputs, Tensor) else outputs[0]

    def pop(self) -> dict[str, Tensor]:
        """Returns the outputs since the last call."""
        outputs, self._outputs = self._outputs, {}
        return outputs


class Teacher:
    """A checkpoint whose outputs a student learns from."""

    def __init__(self, settings: DistillationSettings, model: PreTrainedModel, recorder: OutputRecorder):
        self.name, self.settings = settings.teacher, settings
        self.model: PreTrainedModel = model.requires_grad_(False).eval()
        self.recorder = recorder
        self.inputs = model_inputs(model.config)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights and of the configuration."""
        digest = hashlib.sha256()
        fields = {name: value for name, value in self.model.config.to_dict().items() if name not in _NAMES}
        digest.update(dumps(fields, sort_keys=True, default=str).encode())
        for name, values in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
            digest.update(values.cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return sum(weight.nbytes for weight in self.model.parameters())

    def run(self, batch: Mapping[str, Tensor]) -> Any:
        """Computes the outputs of the model for a batch, on the device of the batch, without gradients.

        Args:
            batch: a batch without labels; token inputs that the teacher does not take are left out.
        """
        used = {name: values for name, values in batch.items() if name in self.inputs or name not in _INPUTS}
        if self.model.device != batch["input_ids"].device:
            self.model.to(batch["input_ids"].device)
        with torch.no_grad():
            return self.model(**used)

    def check_finite(self, outputs: Mapping[str, Tensor]) -> None:
        """Raises CheckpointError if an output of the teacher is not finite; called before the training."""
        if not all(values.isfinite().all() for values in outputs.values()):
            raise CheckpointError(
                f"train.distill.teacher: an output of {self.name} is not finite; its weights are damaged"
            )


def check_same_tokenizer(
    teacher: str,
    teacher_tokenizer: PreTrainedTokenizerBase,
    student: str,
    student_tokenizer: PreTrainedTokenizerBase,
    others: Iterable[str],
) -> None:
    """Checks that the teacher can read the inputs of the student.

    Args:
        teacher, teacher_tokenizer: name of the teacher, and its tokenizer.
        student, student_tokenizer: name of the student, and its tokenizer.
        others: differences of the tokenizers, looked for if they have the same pieces.

    Raises:
        CheckpointError: they differ; the message has the first difference.
    """
    theirs, ours = teacher_tokenizer.get_vocab(), student_tokenizer.get_vocab()
    differing = sorted(piece for piece in theirs.keys() | ours.keys() if theirs.get(piece) != ours.get(piece))
    if differing:
        first = differing[0]
        ids = (f"id {known[first]}" if first in known else "missing" for known in (theirs, ours))
        others = [f"{len(differing)} pieces; {first!r} is {' and '.join(ids)}"]
    if found := next(iter(others), ""):
        raise CheckpointError(
            f"train.distill.teacher: {teacher} and the student, {student}, have different tokenizers: {found}; the "
            "teacher reads the inputs of the student: give a student with the same vocabulary, or take it from the "
            "teacher: --student-layers"
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
