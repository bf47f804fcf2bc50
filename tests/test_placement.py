"""Placement: the global batch is kept, whatever the processes; what cannot be is refused with what can."""

from __future__ import annotations

import pytest

from bertkit.errors import PlacementError
from bertkit.placement import PlacementSettings, computes_bf16_fast, place

CPU = {"device": "cpu", "mixed_precision": "no"}


@pytest.mark.parametrize(
    ("processes", "per_device", "expected"),
    [(1, None, (32, 1)), (1, 4, (4, 8)), (2, None, (16, 1)), (2, 4, (4, 4)), (32, None, (1, 1))],
)
def test_the_global_batch_is_per_device_times_accumulation_times_processes(
    monkeypatch, processes, per_device, expected
):
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    placement = place(PlacementSettings(per_device_train_batch_size=per_device, **CPU), 32)
    assert (placement.per_device_train_batch_size, placement.gradient_accumulation_steps) == expected
    assert placement.global_train_batch_size == 32


def test_a_large_batch_is_accumulated_on_a_cpu():
    placement = place(PlacementSettings(**CPU), 256)
    assert (placement.per_device_train_batch_size, placement.gradient_accumulation_steps) == (32, 8)


def test_longer_sequences_make_smaller_batches_a_device_and_the_same_global_one():
    placement = place(PlacementSettings(**CPU), 256, max_seq_length=512)
    assert (placement.per_device_train_batch_size, placement.gradient_accumulation_steps) == (8, 32)
    assert place(PlacementSettings(per_device_train_batch_size=64, **CPU), 256, 512).per_device_train_batch_size == 64


def test_a_batch_that_cannot_be_cut_is_refused_with_sizes_that_can(monkeypatch):
    with pytest.raises(PlacementError, match=r"5 does not divide the 32 .* one of these does: 1, 2, 4, 8, 16, 32"):
        place(PlacementSettings(per_device_train_batch_size=5, **CPU), 32)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(
        PlacementError, match="32 sequences cannot be shared evenly by 3 processes; use a multiple of 3"
    ):
        place(PlacementSettings(**CPU), 32)


def test_fp16_on_a_cpu_is_refused():
    with pytest.raises(PlacementError, match="fp16 needs a GPU"):
        place(PlacementSettings(device="cpu", mixed_precision="fp16"), 8)


@pytest.mark.parametrize(
    ("flags", "fast"), [("fpu avx512f avx512_bf16", True), ("amx_bf16", True), ("fpu avx512f", False)]
)
def test_bf16_is_chosen_where_the_cpu_has_instructions_for_it(tmp_path, flags, fast):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert computes_bf16_fast("cpu", cpuinfo) is fast
    assert not computes_bf16_fast("cpu", tmp_path / "missing")


def test_the_arguments_say_what_was_decided():
    arguments = place(PlacementSettings(device="cpu", mixed_precision="bf16"), 8).training_arguments()
    assert arguments["bf16"]
    assert not arguments["fp16"]
    assert arguments["use_cpu"]
    assert arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"] == 8
