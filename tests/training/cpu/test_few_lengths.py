"""Batches of few lengths: padded to them, on where they apply, and the same numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bertkit.training.cpu import few_lengths as module
from bertkit.training.cpu.few_lengths import rounded_length, with_few_lengths
from bertkit.training.finetune import finetune
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import SMALL, assert_same_runs

TOKENIZER: Any = SimpleNamespace(pad_token_id=7, pad_token_type_id=2)


@pytest.mark.parametrize(("length", "expected"), [(31, 31), (33, 34), (65, 68), (130, 136), (497, 500), (501, 501)])
def test_a_length_is_rounded_up_but_not_beyond_the_longest(length, expected):
    def collate(rows: list[int]) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.ones(len(rows), length, dtype=torch.long), "labels": torch.tensor(rows)}

    batch = with_few_lengths(collate, TOKENIZER, 500, ["labels"])([5, 6])
    assert batch["input_ids"].tolist() == [[1] * length + [TOKENIZER.pad_token_id] * (expected - length)] * 2
    assert batch["labels"].tolist() == [5, 6]


def test_few_lengths_are_at_most_a_sixteenth_longer():
    lengths = range(1, 513)
    assert all(length <= rounded_length(length) <= length * 17 / 16 for length in lengths)
    assert len({rounded_length(length) for length in lengths}) == 96


@pytest.fixture
def train(checkpoint, glue, tmp_path, monkeypatch):
    """Fine-tunes into a folder of the given name; lengths grow by 3, since these texts are too short for rounding."""
    monkeypatch.setattr(module, "rounded_length", lambda length: length + 3)

    def run(name: str, **placement: Any) -> Any:
        overrides = {**SMALL, "data.max_seq_length": 16, "data.max_train_samples": 27}
        overrides |= {f"placement.{key}": value for key, value in placement.items()}
        out = tmp_path / name
        return finetune("sst2", model=str(checkpoint), data_dir=glue, output_dir=out, overrides=overrides)

    return run


def test_a_fine_tuning_gives_what_it_gives_without(train):
    """With all speed-ups of CPUs, with none, and with one length: without dropout they change no number."""
    plain = train("plain", cpu_speed_ups=False)
    for name, placement in (("fast", {"cpu_speed_ups": True}), ("fixed", {"fixed_shapes": True})):
        assert_same_runs(train(name, **placement), plain)


@pytest.mark.parametrize(
    ("placement", "expected"), [({}, 9), ({"cpu_speed_ups": False}, 6), ({"fixed_shapes": True}, 16)]
)
def test_they_are_on_in_fine_tuning(train, monkeypatch, placement, expected):
    class Stopped(Exception):
        pass

    def first_batches(trainer, **_):
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
            assert next(iter(loader))["input_ids"].shape[1] == expected
        raise Stopped

    monkeypatch.setattr(BertkitTrainer, "train", first_batches)
    with pytest.raises(Stopped):
        train("run", **placement)
