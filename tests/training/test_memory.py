"""Output before the first step; the memory formula against the memory that autograd keeps."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import DistilBertConfig, DistilBertModel

from bertkit import BertConfig, BertForPreTraining
from bertkit.runtime.placement.resolve import Placement, PlacementSettings
from bertkit.training.cpu import fast_dropout
from bertkit.training.progress import MemoryEstimate, estimate_memory, measure_longest, start_lines

BATCH, LENGTH, PREDICTIONS = 8, 64, 10
ONE_CPU = Placement(
    device="cpu",
    num_processes=1,
    strategy="single",
    mixed_precision="no",
    per_device_train_batch_size=BATCH,
    gradient_accumulation_steps=4,
    settings=PlacementSettings(),
)


def bert(dropout: float = 0.0) -> BertForPreTraining:
    sizes = {"hidden_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4, "intermediate_size": 512}
    shares = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return BertForPreTraining(BertConfig(vocab_size=1000, max_position_embeddings=LENGTH, **sizes, **shares))


def kept_for_backward(model: BertForPreTraining, is_half: bool) -> int:
    """Bytes of the tensors that a forward pass keeps, parameters aside."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage
        return tensor

    ids = torch.randint(5, 1000, (BATCH, LENGTH))
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs |= {"masked_positions": torch.randint(0, LENGTH, (BATCH, PREDICTIONS))}
    inputs |= {"labels": ids[:, :PREDICTIONS], "next_sentence_label": torch.zeros(BATCH, dtype=torch.int64)}
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=is_half),
    ):
        model.train()(**inputs)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    ("kernel", "dropout", "is_fast", "precision"),
    [
        ("sdpa", 0.0, False, "no"),
        ("sdpa", 0.1, False, "no"),
        ("sdpa", 0.1, True, "no"),
        ("eager", 0.0, False, "no"),
        ("eager", 0.1, False, "no"),
        ("sdpa", 0.0, False, "bf16"),
        ("sdpa", 0.1, True, "bf16"),
    ],
)
def test_activations_are_what_autograd_keeps(kernel, dropout, is_fast, precision):
    model = bert(dropout)
    model.set_attn_implementation(kernel)
    placement = dataclasses.replace(ONE_CPU, mixed_precision=precision)
    with fast_dropout(model) if is_fast else nullcontext():
        expected = estimate_memory(model, placement, LENGTH, PREDICTIONS * 1000).activations
        assert expected == pytest.approx(kept_for_backward(model, precision == "bf16"), rel=0.1)


def test_states_are_16_bytes_for_each_trained_parameter_and_shared_by_fsdp():
    model = bert()
    count = sum(parameter.numel() for parameter in model.parameters())
    assert estimate_memory(model, ONE_CPU, LENGTH).states == 16 * count
    fsdp = dataclasses.replace(ONE_CPU, num_processes=4, strategy="fsdp")
    assert estimate_memory(model, fsdp, LENGTH).states == 4 * count
    model.requires_grad_(False)
    assert estimate_memory(model, ONE_CPU, LENGTH).states == 4 * count


def trainer_of(rows: list[dict[str, Any]]) -> Any:
    objective = SimpleNamespace(logits_per_sequence=0, teacher_bytes=0)
    return SimpleNamespace(model=bert(), train_dataset=rows, objective=objective, args=SimpleNamespace(tf32=None))


def test_the_lines_say_devices_batch_and_memory():
    lines = start_lines(trainer_of([{"input_ids": [1, 2]}]), ONE_CPU, LENGTH)
    threads = torch.get_num_threads()
    cpu = f"cpu with {threads} thread{'s' if threads > 1 else ''}"
    assert lines[:2] == [
        f"placement: {cpu}, 1 process, float32, attention sdpa",
        "batch: 32 sequences per step = 8 per device × 4 accumulated × 1 process; up to 2,048 tokens per step",
    ]
    assert lines[2].startswith(
        "memory: about 58.8 MiB per device = 26.8 MiB of weights, gradients and AdamW's moments + "
    )


def test_what_the_formula_does_not_know_is_not_estimated():
    lines = start_lines(trainer_of([{"input_ids": [[1, 2], [3, 4]]}]), ONE_CPU, LENGTH)  # two choices
    assert "inputs of up to 64 tokens" in lines[1]
    assert "activations that are not estimated" in lines[2]
    other = DistilBertModel(DistilBertConfig(vocab_size=90, dim=32, hidden_dim=64, n_layers=1, n_heads=2))
    assert estimate_memory(other, ONE_CPU, LENGTH).activations is None


def test_the_weights_of_a_teacher_are_named_where_activations_are_not_known():
    line = str(MemoryEstimate(states=3 << 20, activations=None, teacher=2 << 20))
    assert line.startswith(
        "3.0 MiB of weights, gradients and AdamW's moments + 2.0 MiB of the teacher, and activations "
    )


def test_inputs_are_as_long_as_the_longest():
    assert measure_longest(Dataset.from_dict({"length": [3, 9, 4]}), LENGTH) == 9
    assert measure_longest(Dataset.from_dict({"length": [3, 90]}), LENGTH) == LENGTH  # those of all choices together
    assert measure_longest([{"input_ids": [1, 2]}], LENGTH) == LENGTH  # pre-training makes them when they are read
