"""Losses against a teacher: the formulas of the papers, missing items, and gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.training.distillation.losses import (
    cosine_distance,
    distilled,
    relation_divergence,
    soft_binary_cross_entropy,
    soft_cross_entropy,
    squared_error,
)

pytestmark = pytest.mark.numeric

NAN = float("nan")


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_the_soft_loss_is_the_divergence_plus_the_entropy_of_the_teacher(temperature):
    student, teacher = numbers(6, 4), numbers(6, 4, seed=1)
    targets = F.softmax(teacher / temperature, dim=-1)
    divergence = F.kl_div(F.log_softmax(student / temperature, dim=-1), targets, reduction="sum")
    entropy = -(targets * targets.log()).sum()
    expected = temperature**2 * (divergence + entropy)
    torch.testing.assert_close(soft_cross_entropy(student, teacher, temperature), expected)


def test_the_gradient_is_that_of_hinton():
    """Equation 2 of Hinton et al. (2015), times the squared temperature: T (q - p)."""
    student, teacher = numbers(5, 3).requires_grad_(), numbers(5, 3, seed=1)
    soft_cross_entropy(student, teacher, 3.0).backward()
    expected = 3.0 * (F.softmax(student.detach() / 3, dim=-1) - F.softmax(teacher / 3, dim=-1))
    torch.testing.assert_close(student.grad, expected)


def test_missing_items_and_padding_do_not_count():
    student = numbers(2, 5, 3).requires_grad_()
    teacher = numbers(2, 5, 3, seed=1)
    teacher[0, 2] = teacher[1, 0] = teacher[:, 4] = NAN
    loss = soft_cross_entropy(student, teacher, 2.0)
    kept = [(0, 0), (0, 1), (0, 3), (1, 1), (1, 2), (1, 3)]
    expected = sum(soft_cross_entropy(student[place][None], teacher[place][None], 2.0) for place in kept)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert student.grad.isfinite().all()
    assert not student.grad[0, 2].any()
    assert not student.grad[:, 4].any()


def test_positions_beyond_an_input_have_no_probability():
    student = numbers(2, 6)
    student[1, 4:] = torch.finfo(torch.float32).min  # as `mask_padding` leaves them
    student.requires_grad_()
    teacher = numbers(2, 6, seed=1)
    teacher[1, 4:] = NAN
    loss = soft_cross_entropy(student, teacher, 2.0)
    expected = soft_cross_entropy(student[:1], teacher[:1], 2.0)
    torch.testing.assert_close(loss, expected + soft_cross_entropy(student[1:, :4], teacher[1:, :4], 2.0))
    loss.backward()
    assert student.grad.isfinite().all()


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_padding_choices_have_no_probability(temperature):
    student, teacher = numbers(2, 3), numbers(2, 3, seed=1)
    student[1, 2] = teacher[1, 2] = torch.finfo(torch.float32).min  # as multiple choice leaves them
    student.requires_grad_()
    loss = soft_cross_entropy(student, teacher, temperature)
    parts = soft_cross_entropy(student[:1], teacher[:1], temperature)
    parts = parts + soft_cross_entropy(student[1:, :2], teacher[1:, :2], temperature)
    torch.testing.assert_close(loss, parts)
    loss.backward()
    assert student.grad.isfinite().all()


def test_a_batch_without_items_has_a_loss_of_zero():
    student = numbers(2, 3).requires_grad_()
    nothing = torch.full((2, 3), NAN)
    for loss in (
        soft_cross_entropy(student, nothing, 2.0),
        soft_binary_cross_entropy(student, nothing, 2.0),
        squared_error(student, nothing),
        cosine_distance(student[None], nothing[None]),
    ):
        student.grad = None
        loss.backward()
        assert loss == 0
        assert not student.grad.any()


def test_several_labels_are_independent_of_each_other():
    student, teacher = numbers(4, 3), numbers(4, 3, seed=1)
    alone = [
        soft_cross_entropy(
            torch.stack([torch.zeros(4), student[:, label]], -1),
            torch.stack([torch.zeros(4), teacher[:, label]], -1),
            2.0,
        )
        for label in range(3)
    ]
    torch.testing.assert_close(soft_binary_cross_entropy(student, teacher, 2.0), sum(alone) / 3)


def test_numbers_have_a_squared_error():
    teacher = torch.tensor([[1.0], [NAN], [3.0]])
    assert squared_error(torch.tensor([[2.0], [7.0], [3.5]]), teacher) == pytest.approx(1.25)


def test_the_cosine_is_that_of_torch():
    student, teacher = numbers(2, 3, 8), numbers(2, 3, 8, seed=1)
    flat = [each.reshape(-1, 8).clone() for each in (student, teacher)]
    expected = F.cosine_embedding_loss(*flat, torch.ones(6), reduction="sum")
    torch.testing.assert_close(cosine_distance(student, teacher), expected)
    teacher[0, 2] = NAN
    torch.testing.assert_close(
        cosine_distance(student, teacher) + (1 - F.cosine_similarity(student[0, 2], flat[1][2], dim=-1)), expected
    )


def test_half_precision_is_computed_in_float32():
    student, teacher = numbers(3, 4, 8).to(torch.bfloat16), numbers(3, 4, 8, seed=1).half()
    assert cosine_distance(student, teacher).dtype == torch.float32
    assert soft_cross_entropy(student, teacher.float(), 2.0).dtype == torch.float32


def relations_of_a_token(vectors, token, head, heads):
    """MiniLMv2's equation, for one token and one head: attention of its vector to those of all tokens."""
    width = vectors.shape[-1] // heads
    own = vectors[:, head * width : (head + 1) * width]
    return F.softmax(torch.stack([own[token] @ other / width**0.5 for other in own]), dim=-1)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_relations_are_those_of_the_paper(heads):
    student, teacher = numbers(2, 5, 8) / 3, numbers(2, 5, 12, seed=1) / 3
    expected = 0.0
    for row, length in enumerate((5, 3)):
        ours, theirs = student[row, :length], teacher[row, :length]
        for token in range(length):
            for head in range(heads):
                p, q = (relations_of_a_token(each, token, head, heads) for each in (theirs, ours))
                expected += (p * (p / q).log()).sum() / heads
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    torch.testing.assert_close(relation_divergence(student, teacher, mask, heads), expected)


def test_padding_has_no_relations_and_no_gradient():
    student, teacher = numbers(2, 5, 8).requires_grad_(), numbers(2, 5, 8, seed=1)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    loss = relation_divergence(student, teacher, mask, 2)
    torch.testing.assert_close(loss, relation_divergence(student[:1, :3], teacher[:1, :3], mask[:1, :3], 2))
    loss.backward()
    assert student.grad[0, :3].any()
    assert not student.grad[0, 3:].any()
    assert not student.grad[1].any()


def test_a_student_fits_a_temperature_of_its_own():
    """A teacher has one by default, if it has validation examples enough."""
    settings = TaskSettings(problem="single_label", label_names=["a", "b"], temperature=1.5)
    tasks = [ClassificationTask(replace(settings, calibrate=how), DataSettings()) for how in (None, True, False)]
    assert [distilled(task).unfitted().settings.temperature for task in tasks] == [None, None, 1.5]


@pytest.mark.parametrize(
    ("problem", "threshold", "expected"),
    [
        ("multi_label", {"a": 0.3, "b": 0.7}, "tuned"),
        ("multi_label", {"a": 0.3}, {"a": 0.3}),
        ("multi_label", 0.4, 0.4),
        ("single_label", {"b": 0.7}, {"b": 0.7}),
    ],
)
def test_a_student_tunes_thresholds_of_its_own(problem, threshold, expected):
    settings = TaskSettings(problem=problem, label_names=["a", "b"], threshold=threshold)
    task = distilled(ClassificationTask(settings, DataSettings())).unfitted()
    assert task.settings.threshold == expected
