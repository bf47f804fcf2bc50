"""Losses of a student against the outputs of its teacher (Hinton et al. 2015, Sanh et al. 2019, Wang et al. 2021), and
the outputs that a kind of task compares: `distilled`.

The outputs of a teacher are floating-point tensors in which NaN marks what does not count. An item is a vector along
the last dimension: the class logits of an input or a token, the scores of the positions of an input, a hidden state. An
item whose first number is NaN is missing; NaN after it is padding. Losses are sums over the items: the caller divides
them by the number of those of the global batch, such as `Distilled.count`.

Dimension letters: B inputs, S tokens, C classes, H hidden size, R relation heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertkit.model.loss_bert import at_least_float32
from bertkit.tasks.base import Task
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.ner.inputs import NO_WORD
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.question_answering.task import QuestionAnsweringTask


def soft_cross_entropy(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Computes the cross-entropy between the distributions of teacher and student, times the squared temperature.

    Args:
        logits: scores of the student, (B, C), (B, S, C), or (B, S) if the positions are the classes.
        teacher: those of the teacher.
        temperature: divides the scores of both.

    Returns:
        Sum over the items, 0-d: ``-T² Σ softmax(teacher / T) · log softmax(logits / T)``, in nats.

    Example:
        >>> scores = torch.tensor([[0.0, 0.0]])
        >>> round(soft_cross_entropy(scores, scores, 2.0).item(), 4)  # 4 ln 2
        2.7726
    """
    logits, teacher = _in_one_dtype(logits, teacher)
    absent = teacher.isnan()
    # -inf would make the gradients of missing items NaN; padding choices have the lowest number, of which a temperature
    # below 1 makes -inf.
    lowest = torch.finfo(logits.dtype).min
    ours, theirs = ((each / temperature).clamp(min=lowest).masked_fill(absent, lowest) for each in (logits, teacher))
    student = F.log_softmax(ours, dim=-1).masked_fill(absent, 0.0)
    targets = F.softmax(theirs, dim=-1).masked_fill(absent, 0.0)
    return -(targets * student).sum() * temperature**2


def soft_binary_cross_entropy(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Computes the binary cross-entropy between the probabilities of teacher and student of C independent labels, times
    the squared temperature: the mean over the labels, summed over the items, 0-d.

    Args:
        logits, teacher: (B, C).
        temperature: as for `soft_cross_entropy`.
    """
    logits, teacher = _in_one_dtype(logits, teacher)
    absent = teacher.isnan()
    targets = (teacher / temperature).masked_fill(absent, 0.0).sigmoid()
    losses = F.binary_cross_entropy_with_logits(logits / temperature, targets, reduction="none")
    return losses.masked_fill(absent, 0.0).mean(dim=-1).sum() * temperature**2


def squared_error(scores: Tensor, teacher: Tensor) -> Tensor:
    """Computes the squared error of the scores, (B, 1) each, summed over the items."""
    scores, teacher = _in_one_dtype(scores, teacher)
    return (scores - teacher.where(~teacher.isnan(), scores.detach())).square().mean(dim=-1).sum()


def cosine_distance(states: Tensor, teacher: Tensor) -> Tensor:
    """Computes 1 minus the cosine of the angle between hidden states, summed over the tokens.

    Args:
        states: (B, S, H), or (N, H) of N tokens.
        teacher: those of the teacher.
    """
    states, teacher = _in_one_dtype(states, teacher)
    absent = teacher[..., 0].isnan()
    cosines = F.cosine_similarity(states, teacher.masked_fill(absent.unsqueeze(-1), 1.0), dim=-1)
    return (1 - cosines).masked_fill(absent, 0.0).sum()


def relation_divergence(states: Tensor, teacher: Tensor, attention_mask: Tensor, heads: int) -> Tensor:
    """Computes the divergence of self-attention relations (MiniLMv2, Wang et al. 2021, arXiv:2012.15828, §3).

    The last dimension of the queries, keys or values is split into R relation heads; R need not be the number of
    attention heads. In a relation head with the vectors A of width d, the relation of token t to all tokens is
    ``softmax(A_t · Aᵀ / √d)``. Padding has no relations.

    Args:
        states: queries, keys or values of the student, (B, S, H).
        teacher: those of the teacher, (B, S, H′), of the same kind.
        attention_mask: (B, S), 0 = padding.
        heads: R, a divisor of H and H′.

    Returns:
        Sum over the tokens, 0-d: the mean over the heads of ``KL(teacher's relations ‖ student's relations)``, in nats.
    """
    is_padding = attention_mask == 0
    relations = []  # their logarithms, (B, R, S, S)
    for each in (states, teacher):
        by_head = at_least_float32(each).reshape(*each.shape[:2], heads, -1).transpose(1, 2)  # (B, R, S, d)
        scores = by_head @ by_head.transpose(-1, -2) / by_head.shape[-1] ** 0.5
        # The lowest number and not -inf: its gradient would be NaN.
        scores = scores.masked_fill(is_padding[:, None, None], torch.finfo(scores.dtype).min)
        relations.append(F.log_softmax(scores, dim=-1))
    ours, theirs = relations
    divergence = F.kl_div(ours, theirs, reduction="none", log_target=True).sum(dim=-1)  # (B, R, S)
    return divergence.mean(dim=1).masked_fill(is_padding, 0.0).sum()


def _in_one_dtype(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Returns both in the dtype of the student, but at least in float32."""
    student = at_least_float32(student)
    return student, teacher.to(student.dtype)


# ---- by kind of task ------------------------------------------------------------------------------------------------


class Distilled:
    """Distillation of a task. By default each row has one vector of ``logits``, and the loss is the cross-entropy.

    Args:
        task: the task of teacher and student.
    """

    def __init__(self, task: Task):
        self.task: Any = task

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool] | None:
        """Returns which tokens of an encoded row have outputs that count; None if the row has one output."""
        return None

    def count(self, rows: Tensor, tokens: Tensor | None) -> Tensor:
        """Counts the items whose losses `loss` sums, 0-d.

        Args:
            rows: (B,) bool, the rows that count.
            tokens: (B, S) bool, their tokens of `predicted_tokens`; None without these.
        """
        return rows.sum()

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the loss of model outputs against those of a teacher, summed over the items, 0-d.

        Args:
            outputs: outputs of the student.
            teacher: outputs of the teacher by the same names; NaN marks what does not count.
            temperature: of the distributions.
        """
        return soft_cross_entropy(outputs["logits"], teacher["logits"], temperature)

    def unfitted(self) -> Task:
        """Returns the task without the values that `Task.learn_from` has fitted to a checkpoint."""
        return self.task


@singledispatch
def distilled(task: Task) -> Distilled:
    """Returns the distillation of a task, by its class."""
    return Distilled(task)


@distilled.register(TextClassification)
class DistilledClassification(Distilled):
    """Distillation of texts with one label, several labels, or a number."""

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the loss; of several labels the binary cross-entropy, of numbers the squared error."""
        if self.task.problem_type == "regression":
            return squared_error(outputs["logits"], teacher["logits"])
        if self.task.problem_type == "multi_label_classification":
            return soft_binary_cross_entropy(outputs["logits"], teacher["logits"], temperature)
        return super().loss(outputs, teacher, temperature)

    def unfitted(self) -> Task:
        """Returns the task without a fitted temperature, and without fitted thresholds of several labels.

        A threshold of the second of two classes stays: it may have been given.
        """
        settings, changes = self.task.settings, dict[str, Any]()
        if getattr(settings, "calibrate", False) is not False:  # fitted by default too
            changes["temperature"] = None
        threshold = getattr(settings, "threshold", None)
        if isinstance(threshold, Mapping) and threshold.keys() == {*settings.label_names}:  # as `learn_from` fits them
            changes["threshold"] = "tuned"
        return self.task.with_settings(**changes) if changes else self.task


@distilled.register(NerTask)
class DistilledTags(Distilled):
    """Distillation of words with tags. Only the output of the first token of each word counts."""

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool]:
        return [word != NO_WORD for word in row["word_ids"]]

    def count(self, rows: Tensor, tokens: Tensor | None) -> Tensor:
        assert tokens is not None
        return (tokens & rows.unsqueeze(1)).sum()


@distilled.register(QuestionAnsweringTask)
class DistilledAnswers(Distilled):
    """Distillation of questions, whose answers can start and end at any token of an input."""

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool]:
        return [True] * len(row["input_ids"])

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the mean of the cross-entropies of the start and of the end position, summed over the inputs."""
        start, end = (
            soft_cross_entropy(outputs[name], teacher[name], temperature) for name in ("start_logits", "end_logits")
        )
        return (start + end) / 2

    def unfitted(self) -> Task:
        return self.task.with_settings(predict_threshold=None)
