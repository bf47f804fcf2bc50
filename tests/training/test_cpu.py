"""The one door to the speed-ups of CPUs: where they are on, and what they leave as it is where they are off."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForSequenceClassification
from bertkit.runtime.placement import processor
from bertkit.runtime.placement.processor import OneDnnLinear
from bertkit.runtime.placement.resolve import Placement, PlacementSettings, place
from bertkit.training.cpu import attention_kernel, cpu_speed_ups, rounded_length
from bertkit.training.runs.resolve import padding_rule

ALL = {"lengths", "micro_batches", "dropout", "products"}


def placement(**changes: Any) -> Placement:
    names = {field.name for field in dataclasses.fields(PlacementSettings)} - {"device", "strategy", "num_processes"}
    settings = {name: changes.pop(name) for name in names & changes.keys()}
    here = place(PlacementSettings(device="cpu", mixed_precision="no", **settings), 8)
    return dataclasses.replace(here, **changes)


def found(where: Placement, compiles: bool) -> set[str]:
    """Which of them change what they are given."""
    speed_ups = cpu_speed_ups(where, compiles=compiles, is_padded=True)

    batches = [{"input_ids": torch.ones(2, 9), "attention_mask": torch.ones(2, 9, dtype=torch.long)}]
    names = set()
    if padding_rule(where, speed_ups) is rounded_length:
        names.add("lengths")
    if speed_ups.micro_batches(batches) is not batches:
        names.add("micro_batches")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    model: Any = BertForSequenceClassification(BertConfig(vocab_size=60, **sizes))
    before = attention_kernel(model)
    assert before == ("sdpa", None)
    with speed_ups.applied(model):
        kernel, mask = attention_kernel(model)
        assert kernel == "sdpa"
        names |= {"dropout"} if mask == 1 else set()
        names |= {"products"} if isinstance(model.classifier, OneDnnLinear) else set()
    assert attention_kernel(model) == before
    assert type(model.classifier) is torch.nn.Linear
    return names


@pytest.mark.parametrize(
    ("changes", "compiles", "expected"),
    [
        ({}, False, ALL),
        ({"cpu_speed_ups": False}, False, set()),
        ({"device": "cuda"}, False, set()),
        ({"fixed_shapes": True}, False, ALL - {"lengths", "micro_batches"}),
        ({}, True, set()),
        ({"strategy": "fsdp", "num_processes": 2}, False, ALL),
    ],
)
def test_where_they_are_on(changes, compiles, expected, monkeypatch):
    monkeypatch.setattr(processor, "outruns_mkl", lambda: True)
    assert found(placement(**changes), compiles) == expected


FAULTS = """
import resource, torch
from bertkit.training.cpu import keep_freed_memory
kept = {keep} and keep_freed_memory()
def step():
    return [torch.empty(10_000_000).fill_(1) for _ in range(3)]  # three times 40 MB
for _ in range(8):
    step()  # until there is room for what comes and goes
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> tuple[str, int]:
    program = FAULTS.format(keep=keep)
    kept, count = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    return kept, int(count)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so soon")
def test_freed_memory_is_reused():
    kept, with_it = faults(keep=True)
    not_kept, without = faults(keep=False)
    assert (kept, not_kept) == ("True", "False")
    assert with_it < without / 10
