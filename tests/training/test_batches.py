"""The batches of all processes together: every example once, for any number of processes and examples."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import load_recipe
from bertkit.training.batches import GlobalBatches, check_drop_last, padded_to, part_of_batch, unlabelled

sizes = st.integers(1, 4)


@given(examples=st.integers(1, 60), at_once=sizes, accumulation=sizes, processes=sizes)
def test_steps_hold_the_global_batch_of_one_process(examples, at_once, accumulation, processes):
    of_all = [
        GlobalBatches(range(examples), at_once, accumulation, num_processes=processes, process_index=index)
        for index in range(processes)
    ]
    steps: dict[int, list[int]] = {}
    for batches in of_all:
        drawn = list(batches)
        assert len(drawn) == len(batches) == len(of_all[0])  # all take part in every step
        for number, batch in enumerate(drawn):
            assert 1 <= len(batch) <= at_once
            if not batches.is_filler(number):
                steps.setdefault(number // accumulation, []).extend(batch)
    whole = at_once * accumulation * processes
    expected = [list(range(start, min(start + whole, examples))) for start in range(0, examples, whole)]
    assert [sorted(steps[step]) for step in sorted(steps)] == expected


def test_an_incomplete_batch_is_left_out_on_request():
    batches = GlobalBatches(range(11), 2, 2, num_processes=2, process_index=1, drop_last=True)
    assert list(batches) == [[2, 3], [6, 7]]


def test_a_training_set_smaller_than_a_batch_is_refused():
    recipe = load_recipe("sst2", {"train.dataloader_drop_last": True, "train.global_train_batch_size": 8})
    check_drop_last(recipe, 8)
    with pytest.raises(RecipeError, match=r"dataloader_drop_last: leaves out a batch of fewer than 8, so nothing of 7"):
        check_drop_last(recipe, 7)


def test_parts_of_a_batch_keep_their_windows():
    batch = {"labels": torch.tensor([7, 8, 9]), "window_counts": torch.tensor([2, 1, 3]), "input_ids": torch.arange(6)}
    part = part_of_batch(batch, 1, 3)
    assert {name: values.tolist() for name, values in part.items()} == {
        "labels": [8, 9],
        "window_counts": [1, 3],
        "input_ids": [2, 3, 4, 5],
    }


def test_a_batch_without_its_labels():
    batch = {
        "input_ids": torch.tensor([[1, 2], [3, 4]]),
        "attention_mask": torch.tensor([[1, 1], [1, 1]]),
        "labels": torch.tensor([1, 0]),
        "choice_counts": torch.tensor([2, 3]),
    }
    assert {name: values.tolist() for name, values in unlabelled(batch, ["labels"]).items()} == {
        "input_ids": [[1, 2], [3, 4]],
        "attention_mask": [[1, 0], [1, 0]],
        "labels": [-100, -100],
        "choice_counts": [2, 3],
    }
    assert batch["labels"].tolist() == [1, 0]  # the batch itself stays as it was
    assert unlabelled({"labels": torch.tensor([0.5])}, ["labels"])["labels"].isnan().all()


def test_padding_of_inputs_and_token_values():
    batch = {
        "input_ids": torch.tensor([[1, 2], [3, 4]]),
        "attention_mask": torch.tensor([[1, 1], [1, 0]]),
        "token_type_ids": torch.tensor([[0, 1], [0, 1]]),
        "labels": torch.tensor([[5, 6], [-100, 6]]),
        "start_positions": torch.tensor([1, 0]),
        "numbers": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),  # as many as tokens, but of the text
    }
    tokenizer: Any = SimpleNamespace(pad_token_id=7, pad_token_type_id=2)
    collate = padded_to(partial(max, 3), lambda _: batch, tokenizer, ("labels", "start_positions", "numbers"))
    assert {name: values.tolist() for name, values in collate([]).items()} == {
        "input_ids": [[1, 2, 7], [3, 4, 7]],
        "attention_mask": [[1, 1, 0], [1, 0, 0]],
        "token_type_ids": [[0, 1, 2], [0, 1, 2]],
        "labels": [[5, 6, -100], [-100, 6, -100]],
        "start_positions": [1, 0],
        "numbers": [[0.0, 1.0], [1.0, 0.0]],
    }
