"""The order of an epoch: every example once, like lengths together, a function of seed and epoch. Losses of all heads:
means over the global batch, for every family of encoders."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, default_data_collator

from bertkit.model import joined
from bertkit.model.checkpoint.encoders import head_class
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.placement.resolve import JOINED
from bertkit.tasks.classification.pooling import pool_windows
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.training.batches import LengthGroups
from bertkit.training.objectives import WeightedObjective
from bertkit.training.steps import TaskObjective
from bertkit.training.trainer import BertkitTrainer

from .conftest import Labels, arguments_for

pytestmark = pytest.mark.numeric

LENGTHS = random.Random(0).choices(range(5, 60), k=640)


def order(seed: int, epoch: int) -> list[int]:
    groups = LengthGroups(LENGTHS, 16, seed)
    groups.set_epoch(epoch)
    return list(groups)


def test_every_example_comes_once_in_an_order_of_seed_and_epoch_alone():
    assert sorted(order(42, 3)) == list(range(640))
    random.seed(9)
    assert order(42, 1) == order(42, 1)
    assert order(42, 1) != order(42, 2)
    assert order(42, 1) != order(43, 1)
    assert order(0, 1) != order(1, 0)


def test_a_global_batch_holds_inputs_of_like_length():
    grouped = order(42, 0)
    batches = [[LENGTHS[index] for index in grouped[start : start + 16]] for start in range(0, 640, 16)]
    padding = sum(max(batch) * len(batch) for batch in batches) - sum(LENGTHS)
    at_random = [LENGTHS[start : start + 16] for start in range(0, 640, 16)]
    assert padding < 0.25 * (sum(max(batch) * len(batch) for batch in at_random) - sum(LENGTHS))


# ---- losses ---------------------------------------------------------------------------------------------------------

LENGTH = 10
HEADS = ["SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice"]
WAYS = [(8, 1), (4, 2), (2, 4)]  # examples at once, times accumulated


def examples(head: str) -> list[dict[str, torch.Tensor]]:
    """Eight of them, in which not every one counts, and not as much as the next one: a mean of means would differ."""
    draw = torch.Generator().manual_seed(5)
    shape = (8, 2, LENGTH) if head == "MultipleChoice" else (8, LENGTH)
    ids = torch.randint(5, 60, shape, generator=draw)
    mask = (torch.arange(LENGTH) < torch.randint(4, LENGTH + 1, (*shape[:-1], 1), generator=draw)).long()
    columns = {"input_ids": ids, "attention_mask": mask}
    ignored = torch.tensor([False, True, False, False, True, True, False, False])
    if head == "TokenClassification":
        columns["labels"] = torch.randint(0, 3, ids.shape, generator=draw).where(mask.bool(), -100)
    elif head == "QuestionAnswering":
        columns["start_positions"] = torch.randint(0, 4, (8,), generator=draw).where(~ignored, LENGTH)
        columns["end_positions"] = torch.randint(4, LENGTH, (8,), generator=draw).where(~ignored, LENGTH)
    else:
        columns["labels"] = torch.randint(0, 2, (8,), generator=draw).where(~ignored, -100)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def network(config: Any, head: str) -> torch.nn.Module:
    config.num_labels = 2 if head == "QuestionAnswering" else 3
    torch.manual_seed(0)
    try:
        return head_class(f"BertFor{head}", config, "here")(config)
    except CheckpointError as error:
        pytest.skip(str(error))


def trained(model, data, folder, at_once: int, accumulated: int, collate=default_data_collator, objective=None):
    """Two steps over all examples: the trainer, and the loss and the gradient's norm of each step."""
    of_data = TaskObjective(QuestionAnsweringTask(None, None)) if "start_positions" in data[0] else Labels()
    trainer = BertkitTrainer(
        what="test",
        objective=objective or of_data,
        model=copy.deepcopy(model),
        args=arguments_for(
            folder,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=accumulated,
            per_device_eval_batch_size=8,
            max_steps=2,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            save_strategy="no",
            remove_unused_columns=False,
        ),
        train_dataset=data,
        eval_dataset=data,
        data_collator=collate,
    )
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return trainer, [(entry["loss"], entry["grad_norm"]) for entry in steps]


def plain(model, data, collate=default_data_collator) -> tuple[float, float]:
    """The model's own loss of all examples at once, and the norm of its gradient."""
    model = copy.deepcopy(model).train()
    loss = model(**collate(data)).loss
    loss.backward()
    squares = [parameter.grad.square().sum() for parameter in model.parameters() if parameter.grad is not None]
    return loss.item(), torch.stack(squares).sum().sqrt().item()


@pytest.mark.parametrize("head", HEADS)
def test_the_loss_is_the_mean_over_the_global_batch_however_it_is_cut(encoder, head, tmp_path):
    model, data = network(encoder, head), examples(head)
    ways = WAYS if head == "SequenceClassification" else WAYS[-1:]
    curves = []
    for way in ways:
        trainer, curve = trained(model, data, tmp_path, *way)
        curves.append(curve)
    assert curves[0][0] == pytest.approx(plain(model, data), rel=1e-5)
    for curve in curves[1:]:
        for step, of_one_batch in zip(curve, curves[0], strict=True):
            assert step == pytest.approx(of_one_batch, rel=1e-5)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(plain(trainer.model, data)[0], rel=1e-5)


roberta = pytest.mark.parametrize("encoder", ["roberta"], indirect=True)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
@roberta
def test_numbers_and_sets_of_labels_have_the_loss_of_their_problem(encoder, problem, tmp_path):
    encoder.problem_type = problem
    model, data = network(encoder, "SequenceClassification"), examples("SequenceClassification")
    targets = torch.rand(8, 3, generator=torch.Generator().manual_seed(1))
    for row, target in zip(data, targets, strict=True):
        row["labels"] = target if problem == "regression" else target.round()
    _, curve = trained(model, data, tmp_path, 2, 4, objective=Labels(problem))
    assert curve[0] == pytest.approx(plain(model, data), rel=1e-5)


@roberta
def test_label_smoothing_is_over_the_global_batch_too(encoder, tmp_path):
    model, data = network(encoder, "SequenceClassification"), examples("SequenceClassification")
    _, curve = trained(model, data, tmp_path, 2, 4, objective=WeightedObjective(smoothing=0.1))
    batch = default_data_collator(data)
    labels = batch.pop("labels")
    expected = torch.nn.functional.cross_entropy(model(**batch).logits, labels, label_smoothing=0.1)
    assert curve[0][0] == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("encoder", ["bertkit", "roberta"], indirect=True)
def test_a_document_of_many_windows_counts_as_one_of_few(encoder, tmp_path):
    def collate(documents: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        windows = torch.cat([document["input_ids"] for document in documents])
        counts = torch.tensor([len(document["input_ids"]) for document in documents])
        labels = torch.stack([document["labels"] for document in documents])
        return {"labels": labels, "input_ids": windows, "window_counts": counts}

    model, data = network(encoder, "SequenceClassification"), examples("SequenceClassification")
    pool_windows(model, "mean")
    ids = torch.stack([row["input_ids"] for row in data])
    documents = [{"input_ids": ids[: 1 + row % 3], "labels": data[row]["labels"]} for row in range(8)]
    trainer, curve = trained(model, documents, tmp_path, 2, 4, collate)
    assert curve[0] == pytest.approx(plain(model, documents, collate), rel=1e-5)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(plain(trainer.model, documents, collate)[0], rel=1e-5)
    assert trainer.predict(documents).predictions.shape == (8, 3)


def test_the_model_stays_out_of_the_autocast_of_accelerate(tmp_path):
    """With ``placement.mixed_precision=fp16`` accelerate would wrap it; bf16 is its precision that a CPU has."""
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    model = BertForSequenceClassification(config)
    arguments = arguments_for(tmp_path, max_steps=1, save_strategy="no", remove_unused_columns=False)
    arguments.mixed_precision = "bf16"
    rows = [{"input_ids": [2, 5, 3], "attention_mask": [1, 1, 1], "labels": label} for label in (0, 1)]
    trainer = BertkitTrainer(
        what="test",
        model=model,
        args=arguments,
        objective=Labels(),
        train_dataset=rows,
        data_collator=default_data_collator,
        precision=torch.bfloat16,
    )
    assert trainer.accelerator.native_amp
    trainer.train()
    outputs = trainer.predict(rows).predictions
    model.eval()
    with torch.no_grad():
        expected = model(torch.tensor([[2, 5, 3]] * 2)).logits.numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-7)  # in bf16 the third digit would differ
    assert "forward" not in vars(trainer.model)


def test_a_trainer_of_other_rows_collates_as_the_first(tmp_path):
    model = BertForSequenceClassification(BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    model.set_attn_implementation(JOINED)
    rows = [{"input_ids": [2, 5, 3], "attention_mask": [1, 1, 1], "labels": 0}]
    first = BertkitTrainer(
        what="test",
        model=model,
        args=arguments_for(tmp_path),
        objective=Labels(),
        train_dataset=rows,
        data_collator=default_data_collator,
    )
    other = first.for_other_rows(rows, first.args)
    assert joined.LENGTHS in other.data_collator(rows)
    assert other.collate is first.collate is default_data_collator  # without the lengths, for the model alone
