"""Lengths of batches on CPUs: rounded up in fine-tuning, grouped in pre-training; the same examples and numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForPreTraining
from bertkit.training.cpu import group_by_length, rounded_length
from bertkit.training.runs import resolve as module
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import SMALL, assert_same_runs, curve
from tests.training.runs.test_pretrain import run

pytestmark = pytest.mark.numeric

PADDED_TO, PREDICTIONS = 72, 3
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def test_few_lengths_are_at_most_a_sixteenth_longer():
    lengths = range(1, 513)
    assert all(length <= rounded_length(512, length) <= length * 17 / 16 for length in lengths)
    assert len({rounded_length(512, length) for length in lengths}) == 96
    assert rounded_length(500, 501) == 501


@pytest.fixture
def train(tuned, glue, monkeypatch):
    """Fine-tunes into a folder of the given name; lengths grow by 3, since these texts are too short for rounding."""
    monkeypatch.setattr(module, "rounded_length", lambda longest, length: min(length + 3, longest))

    def run(name: str, **placement: Any) -> Any:
        overrides = {**SMALL, "data.max_seq_length": 16, "data.max_train_samples": 27}
        overrides |= {f"placement.{key}": value for key, value in placement.items()}
        return tuned("sst2", overrides, name, data_dir=glue)

    return run


def test_a_fine_tuning_gives_what_it_gives_without(train):
    """With all speed-ups of CPUs, with none, and with one length: without dropout they change no number."""
    plain = train("plain", cpu_speed_ups=False)
    for name, placement in (("fast", {"cpu_speed_ups": True}), ("fixed", {"fixed_shapes": True})):
        assert_same_runs(train(name, **placement), plain)


@pytest.mark.parametrize(
    ("placement", "expected"), [({}, 9), ({"cpu_speed_ups": False}, 6), ({"fixed_shapes": True}, 16)]
)
def test_rounding_is_on_in_fine_tuning(train, monkeypatch, placement, expected):
    class Stopped(Exception):
        pass

    def first_batches(trainer, **_):
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
            assert next(iter(loader))["input_ids"].shape[1] == expected
        raise Stopped

    monkeypatch.setattr(BertkitTrainer, "train", first_batches)
    with pytest.raises(Stopped):
        train("run", **placement)


def micro_batches(*lengths: list[int]) -> list[dict[str, torch.Tensor]]:
    """Examples of these lengths; the ids of each are its own."""
    batches, number = [], 0
    for of_batch in lengths:
        mask = (torch.arange(PADDED_TO) < torch.tensor(of_batch)[:, None]).long()
        numbers = torch.arange(number, number + len(of_batch))
        number += len(of_batch)
        positions = torch.arange(PREDICTIONS).expand(len(of_batch), -1)
        batches.append(
            {
                "input_ids": (10 + numbers[:, None]) * mask,
                "attention_mask": mask,
                "token_type_ids": (torch.arange(PADDED_TO) > 2).long() * mask,
                "masked_positions": positions,
                "labels": 10 + numbers[:, None] + positions,
                "next_sentence_label": numbers % 2,
            }
        )
    return batches


def rows(batches: list[dict[str, torch.Tensor]]) -> set[tuple[tuple[int, ...], ...]]:
    """All examples, without their padding."""
    found = set()
    for batch in batches:
        for row, length in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
            values = {**batch, **{name: batch[name][:, :length] for name in ("input_ids", "token_type_ids")}}
            found.add(
                tuple(
                    tuple(values[name][row].reshape(-1).tolist())
                    for name in ("input_ids", "token_type_ids", "masked_positions", "labels", "next_sentence_label")
                )
            )
    return found


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([[5, 72], [33, 6]], [(2, 72), (2, 6)]),
        ([[5, 32, 4], [33, 64, 6], [3, 7, 9]], [(3, 64), (3, 9), (3, 5)]),
        ([[8, 9, 65], [5]], [(3, 68), (1, 5)]),
        ([[12, 41]], [(2, 42)]),
        ([], []),
    ],
)
def test_grouped_batches_keep_examples_and_sizes(lengths, expected):
    before = micro_batches(*lengths)
    after = group_by_length(before)
    assert [tuple(batch["input_ids"].shape) for batch in after] == expected
    assert rows(after) == rows(before)
    assert len(rows(after)) == sum(map(len, lengths))
    for batch in after:
        assert batch["attention_mask"].shape == batch["token_type_ids"].shape == batch["input_ids"].shape
        assert batch["labels"].shape == (len(batch["input_ids"]), PREDICTIONS)


def test_grouped_losses_and_gradients_are_the_same():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(vocab_size=30, **sizes, **NO_DROPOUT)).double().train()

    def step(batches):
        model.zero_grad()
        losses = [model(**batch, num_items_in_batch=6 * PREDICTIONS, num_pairs_in_batch=6).loss for batch in batches]
        sum(losses).backward()
        return sum(losses).item(), [weight.grad.clone() for weight in model.parameters()]

    before = micro_batches([5, 40, 3], [17, 72, 6])
    (loss, gradients), (grouped_loss, grouped_gradients) = step(before), step(group_by_length(before))
    assert grouped_loss == pytest.approx(loss, rel=1e-12)
    for one, other in zip(grouped_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


LONGER = {"data.max_seq_length": 64, "model.max_position_embeddings": 64, "data.short_seq_prob": 0.5}


def test_a_grouped_run_has_the_same_curve(corpus, tmp_path):
    settings = {**LONGER, **{f"model.{name}": value for name, value in NO_DROPOUT.items()}}
    settings |= {"placement.per_device_train_batch_size": 4}
    grouped = run(corpus, tmp_path / "grouped", **settings)
    padded = run(corpus, tmp_path / "padded", **settings, **{"placement.cpu_speed_ups": False})
    for one, other in zip(curve(grouped.output_dir), curve(padded.output_dir), strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    seen = [json.loads((each.output_dir / "run.json").read_text())["tokens_seen"] for each in (grouped, padded)]
    assert seen[0] == seen[1] > 0


@pytest.mark.parametrize(
    ("overrides", "is_on"),
    [
        ({}, True),
        ({"placement.cpu_speed_ups": False}, False),
        ({"placement.fixed_shapes": True}, False),
        ({"train.torch_compile": True}, False),  # else it would compile for each length
        ({"train.torch_compile_backend": "inductor"}, False),
    ],
)
def test_grouping_is_on_where_shapes_may_differ(corpus, tmp_path, monkeypatch, overrides, is_on):
    class Stopped(Exception):
        pass

    def first_step(trainer, **_):
        batches, _ = trainer.get_batch_samples(iter(trainer.get_train_dataloader()), 16, torch.device("cpu"))
        assert [len(batch["input_ids"]) for batch in batches] == [1] * 16
        lengths = [batch["input_ids"].shape[1] for batch in batches]
        assert lengths == sorted(lengths, reverse=True)
        assert (lengths[0], lengths[-1] < 64) == (64, is_on)
        raise Stopped

    monkeypatch.setattr(BertkitTrainer, "train", first_step)
    with pytest.raises(Stopped):
        run(corpus, tmp_path / "run", **LONGER, **{"placement.per_device_train_batch_size": 1}, **overrides)
