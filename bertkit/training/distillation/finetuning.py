"""Fine-tuning with a teacher: a fine-tuned checkpoint, whose outputs for each batch the student learns from too.

Dimension letters: B rows, S tokens of an input, C classes, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from bertkit.inference.networks import refuse_ensemble
from bertkit.model.checkpoint.encoders import check_positions, model_inputs, saved_head
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.loss_bert import mean_loss
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import DistillationSettings
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError
from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import counted, without_library_bars
from bertkit.tasks.base import Task, head_name
from bertkit.tasks.splits import ColumnsOf, Split
from bertkit.tasks.stock import labels_of, matched_names
from bertkit.training.distillation.losses import Distilled, cosine_distance, distilled
from bertkit.training.distillation.teacher import (
    HIDDEN,
    OutputRecorder,
    Teacher,
    check_same_tokenizer,
    check_width,
    computing_all,
)
from bertkit.training.initialization import Initialization
from bertkit.training.progress import has_several_inputs
from bertkit.training.steps import Objective

_COMPARED = 200  # training examples that both tokenizers encode
_CHECKED = 8  # rows whose outputs of the teacher are checked
_ROWS, _TOKENS = "taught", "taught_tokens"  # columns of a batch: 1, or NaN for what does not count
_NOT_OUTPUTS = ("loss", "hidden_states", "attentions")

Collate = Callable[..., Mapping[str, Tensor]]


class FinetunedTeacher(Teacher):
    """A fine-tuned checkpoint, checked against the task of the student.

    Raises:
        CheckpointError: the teacher cannot be loaded, or was trained for another task.
        DataError: its labels are not those of the data.
        RecipeError: it does not read inputs of the recipe's length.
    """

    def __init__(self, settings: DistillationSettings, task: Task):
        name = settings.teacher
        refuse_ensemble(name)
        config = load_config(name, any_encoder=True)
        saved = (config.architectures or ["none"])[0]
        head = saved_head(config) if isinstance(task.head, str) else saved
        if head != head_name(task):
            raise CheckpointError(
                f"train.distill.teacher: {name} has the head {saved}; the task "
                f"{task.name} needs {head_name(task)}; give a checkpoint that was fine-tuned for this task"
            )
        check_positions(task.data.max_seq_length, config, name)
        self._order = _order_of_labels(task, config, name)
        with without_library_bars():
            model, _ = load_model(task.head, name, config, new_head=False)
        task.prepare(model)
        super().__init__(settings, model, OutputRecorder({HIDDEN: computing_all(model)} if settings.hidden else {}))
        self._task = task

    def check_tokenizer(self, tokenizer: PreTrainedTokenizerBase, student: str, train: Split) -> None:
        """Checks that the student's tokenizer gives the ids that the teacher was trained on.

        The vocabularies are compared, and the ids of the first training examples, which also depend on lower-casing,
        accents and special tokens.

        Raises:
            CheckpointError: they differ; the message has the first difference.
        """
        own = load_tokenizer(self.name, config=self.model.config)

        def others() -> Iterator[str]:
            examples = ColumnsOf(train.examples.select(range(min(_COMPARED, len(train.examples)))))
            rows = (self._task.encode(examples, each)["input_ids"] for each in (own, tokenizer))
            for number, (one, two) in enumerate(zip_longest(*rows), 1):
                if one != two:
                    yield f"the ids of input {number} of {train.source}"

        check_same_tokenizer(self.name, own, student, tokenizer, others())

    def outputs(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the outputs for a batch without labels.

        Returns:
            Name of a model output → (B, …, C), classes in the order of the student's, or (B, S); with a weight of
            hidden states also `HIDDEN`, (B, S, H).
        """
        outputs = {
            name: values
            for name, values in self.run(batch).items()
            if name not in _NOT_OUTPUTS and isinstance(values, Tensor)
        }
        if self._order is not None:
            outputs = {name: values[..., self._order] for name, values in outputs.items()}
        return {**outputs, **self.recorder.pop()}


class TaughtTask(Objective):
    """Task with a teacher: ``(1 - alpha) · labels + alpha · (soft + hidden · cosine)``.

    See `bertkit.recipe.settings.DistillationSettings`.
    """

    def __init__(self, task: Objective, kind: Distilled, teacher: FinetunedTeacher, student: PreTrainedModel):
        self._task, self._kind, self._teacher, self.teacher_bytes = task, kind, teacher, teacher.nbytes
        self._recorder = OutputRecorder({HIDDEN: computing_all(student)} if teacher.settings.hidden else {})
        extra = [name for name in teacher.inputs if name not in model_inputs(student.config)]
        self.label_columns: Sequence[str] = (*task.label_columns, _ROWS, _TOKENS, *extra)

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the labelled items, the teacher's, and the tokens whose hidden states are compared, (3,) float32."""
        rows, tokens = _counted(batch)
        none = torch.zeros((), device=rows.device)
        labels = self._task.count(batch) if self._teacher.settings.weight < 1 else none
        hidden = none
        if self._teacher.settings.hidden:
            hidden = (batch["attention_mask"] * rows.unsqueeze(1)).sum()
        return torch.stack([count.float() for count in (labels, self._kind.count(rows, tokens), hidden)])

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss as `bertkit.tasks.base.Task.loss`; ``count`` has the numbers of `count`."""
        settings, (of_labels, of_teacher, of_hidden) = self._teacher.settings, count
        names = {*self._task.label_columns, _ROWS, _TOKENS}
        # Micro-batches that fill up the last step have -100 in what the student does not get.
        inputs = {name: values.clamp(min=0) for name, values in batch.items() if name not in names}
        expected = self._teacher.outputs(inputs)
        is_finite = torch.stack([values.isfinite().all() for values in expected.values()]).all()
        rows, tokens = _counted(batch)
        hidden = expected.pop(HIDDEN, None)
        compared = {name: _only(values, rows, tokens) for name, values in expected.items()}
        loss = mean_loss(self._kind.loss(outputs, compared, settings.temperature), of_teacher)
        if hidden is not None:
            states = self._recorder.pop()[HIDDEN]
            hidden = _only(hidden, rows, batch["attention_mask"] != 0)
            loss = loss + settings.hidden * mean_loss(cosine_distance(states, hidden), of_hidden)
        loss = loss.where(is_finite, torch.nan)  # NaN of the teacher is not taken for a missing output
        if settings.weight == 1:
            return loss
        return (1 - settings.weight) * self._task.loss(outputs, batch, of_labels) + settings.weight * loss

    def forget(self) -> None:
        """Frees the recorded states of a failed micro-batch, whose graph would keep its activations."""
        self._recorder.pop()


def finetuned_teacher(
    recipe: Recipe, task: Task, train: Split, start: Initialization, placement: Placement
) -> FinetunedTeacher:
    """Returns the teacher of a recipe, checked against task, labels and tokenizer.

    Raises:
        BertkitError: the teacher cannot be loaded, or does not fit the student or the data.
    """
    settings = recipe.distillation
    assert settings is not None
    if settings.objective == "minilm":
        raise RecipeError(
            f"recipe {recipe.name}: train.distill.objective: minilm is for pre-training (--corpus); remove it"
        )
    if task.joins_batch:
        raise RecipeError(
            f"recipe {recipe.name}: train.distill: the loss of {task.name} compares the examples of a batch, and that "
            "of a teacher is one of single examples; remove it"
        )
    first = ColumnsOf(train.examples.select(range(1)))
    if settings.weight < 1 and not set(task.label_columns) <= set(task.encode(first, start.tokenizer)):
        raise DataError(
            f"{train.source}: the rows have no labels, so they can be learnt from the teacher only: that needs "
            f"train.distill.alpha 1, got {settings.weight:g}; give --alpha 1, or rows with labels"
        )
    for key in ("class_weights", "label_smoothing_factor"):
        if settings.weight == 1 and recipe.train.get(key):
            raise RecipeError(
                f"recipe {recipe.name}: train.{key}: changes the loss of the labels, which train.distill.alpha 1 "
                "leaves out; remove one of them"
            )
    if placement.device == "xla":
        raise RecipeError(f"recipe {recipe.name}: train.distill: is not supported on XLA; use another placement")
    teacher = FinetunedTeacher(settings, task)
    check_width(settings, teacher.model.config, start.config)
    teacher.check_tokenizer(start.tokenizer, start.name, train)
    return teacher


def taught_task(
    task: Objective,
    of_data: Task,
    teacher: FinetunedTeacher,
    student: PreTrainedModel,
    rows: Sequence[Any],
    collate: Collate,
) -> tuple[TaughtTask, Collate]:
    """Returns a task with a teacher, and a collator whose batches also say which outputs of the teacher count.

    Args:
        task, of_data: the task with the loss of the labels, and as it is.
        teacher: the teacher; this moves it to the CPU, and its first batch to the device of the training.
        student: the model that is trained, on the CPU.
        rows: the encoded training set.
        collate: the collator of the task, with the inputs of both models.

    Raises:
        CheckpointError: an output of the teacher for the first rows is not finite.
        RecipeError: hidden states have a weight, and an example has several inputs.
    """
    first = [rows[row] for row in range(min(_CHECKED, len(rows)))]
    if teacher.settings.hidden and has_several_inputs(first):
        raise RecipeError(
            "train.distill.hidden: an example has several inputs here (windows or choices), which is not supported; "
            "remove --hidden"
        )
    labels = of_data.label_columns
    batch = {name: values for name, values in collate(first).items() if name not in labels}
    teacher.check_finite(teacher.outputs(batch))
    kind = distilled(of_data)
    return TaughtTask(task, kind, teacher, student), partial(_collate, collate, kind)


def _collate(collate: Collate, kind: Distilled, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    batch = dict(collate(rows))
    batch[_ROWS] = torch.ones(len(rows))
    tokens = [kind.predicted_tokens(row) for row in rows]
    if tokens[0] is not None:
        batch[_TOKENS] = torch.full(batch["input_ids"].shape, torch.nan)
        for marks, of_row in zip(batch[_TOKENS], tokens, strict=True):
            marks[: len(of_row or ())].masked_fill_(torch.tensor(of_row), 1.0)
    return batch


def _counted(batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Returns which rows of a batch count, (B,) bool, and which of their tokens, (B, S) bool or None."""
    tokens = ~batch[_TOKENS].isnan() if _TOKENS in batch else None
    return ~batch[_ROWS].isnan(), tokens


def _only(values: Tensor, rows: Tensor, tokens: Tensor | None) -> Tensor:
    """Returns outputs of a teacher, (B, …) or (B, S, …), with NaN in place of what does not count."""
    counts = rows.view(-1, *[1] * (values.dim() - 1))
    if tokens is not None:
        counts = counts & tokens.view(*tokens.shape, *[1] * (values.dim() - 2))
    return values.where(counts, torch.nan)


def _order_of_labels(task: Task, config: PreTrainedConfig, name: str) -> list[int] | None:
    """Returns the places of the student's labels among those of the teacher; ``None`` for the same order.

    Raises:
        CheckpointError: the outputs of the teacher mean something else, or it has more labels.
        DataError: it lacks a label.
    """
    own = task.config()
    problem, names = own.get("problem_type"), [str(label) for label in (own.get("id2label") or {}).values()]
    is_number = problem == "regression"
    if problem and (config.problem_type not in (None, problem) or (is_number and config.num_labels != 1)):
        raise CheckpointError(
            f"train.distill.teacher: {name} is for {config.problem_type or 'classes'} with "
            f"{counted(config.num_labels, 'output')}, and the task {task.name} is {problem}; give a checkpoint that "
            "was fine-tuned for this task"
        )
    if is_number or not names:  # a number has no label, and an answer has positions
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
