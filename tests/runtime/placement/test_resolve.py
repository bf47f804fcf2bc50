"""Placement: the global batch is kept for any number of processes; impossible values are refused with possible ones."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
import torch

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement import processor, resolve
from bertkit.runtime.placement.inference import inference_device, inference_dtype
from bertkit.runtime.placement.resolve import (
    PlacementSettings,
    ProcessesNeeded,
    check_processes,
    computes_bf16_fast,
    place,
)

CPU = {"device": "cpu", "mixed_precision": "no"}


@pytest.mark.parametrize(
    ("processes", "per_device", "batch", "max_seq_length", "expected"),
    [
        (1, None, 32, 128, (32, 1)),
        (1, 4, 32, 128, (4, 8)),
        (2, None, 32, 128, (16, 1)),
        (2, 4, 32, 128, (4, 4)),
        (32, None, 32, 128, (1, 1)),
        (1, None, 256, 128, (32, 8)),
        (1, None, 256, 512, (8, 32)),
        (1, 64, 256, 512, (64, 4)),
    ],
)
def test_the_global_batch_is_divided(monkeypatch, processes, per_device, batch, max_seq_length, expected):
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    placement = place(PlacementSettings(per_device_train_batch_size=per_device, **CPU), batch, max_seq_length)
    assert (placement.per_device_train_batch_size, placement.gradient_accumulation_steps) == expected
    assert placement.global_train_batch_size == batch


def test_an_indivisible_batch_names_possible_sizes(monkeypatch):
    with pytest.raises(PlacementError, match=r"5 does not divide the 32 .* use one of 1, 2, 4, 8, 16, 32"):
        place(PlacementSettings(per_device_train_batch_size=5, **CPU), 32)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(
        PlacementError, match="32 sequences cannot be divided evenly among 3 processes; use a multiple of 3"
    ):
        place(PlacementSettings(**CPU), 32)


@pytest.mark.parametrize(
    ("has_bf16", "strategy", "expected"), [(True, "ddp", "bf16"), (False, "ddp", "fp16"), (False, "fsdp", "no")]
)
def test_old_gpus_train_in_fp16(monkeypatch, has_bf16, strategy, expected):
    """As T4 and V100; sharded weights have no fp16."""
    monkeypatch.setattr(resolve, "find_device", lambda _: "cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    monkeypatch.setenv("WORLD_SIZE", "2")
    placement = place(PlacementSettings(strategy=strategy), 8)
    assert placement.mixed_precision == expected
    assert placement.training_arguments()["dataloader_num_workers"] == 2


def test_fp16_on_a_cpu_is_refused():
    with pytest.raises(PlacementError, match="fp16 needs a GPU"):
        place(PlacementSettings(device="cpu", mixed_precision="fp16"), 8)


@pytest.mark.parametrize(
    ("flags", "fast"), [("fpu avx512f avx512_bf16", True), ("amx_bf16", True), ("fpu avx512f", False)]
)
def test_bf16_needs_instructions_of_the_cpu(monkeypatch, flags, fast):
    monkeypatch.setattr(processor, "_cpuinfo", lambda: ["processor\t: 0", f"flags\t\t: {flags}"])
    assert computes_bf16_fast("cpu") is fast
    monkeypatch.setattr(processor, "_cpuinfo", list)
    assert not computes_bf16_fast("cpu")


def test_the_arguments_say_what_was_decided():
    placement = place(PlacementSettings(device="cpu", mixed_precision="bf16"), 8)
    arguments = placement.training_arguments()
    assert placement.autocast_dtype == torch.bfloat16
    assert not arguments["fp16"]
    assert arguments["use_cpu"]
    assert arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"] == 8


# ---- processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpus(monkeypatch):
    """``gpus(n)``: as on a machine with n of them."""

    def see(number: int) -> None:
        monkeypatch.setattr("bertkit.runtime.placement.resolve.visible_gpus", lambda: number)

    return see


@pytest.mark.parametrize(
    ("number", "settings", "wanted"),
    [
        (0, {"num_processes": 2}, 2),
        (8, {"num_processes": 2}, 2),
        (8, {"strategy": "ddp"}, 8),
        (8, {"strategy": "fsdp"}, 8),
        (8, {"strategy": "fsdp", "num_processes": 4}, 4),
        (8, {"device": "cpu", "num_processes": 3}, 3),
    ],
)
def test_processes_without_a_launcher_are_needed(gpus, number, settings, wanted):
    gpus(number)
    with pytest.raises(ProcessesNeeded, match=f"{wanted} processes are required") as error:
        check_processes(PlacementSettings(**settings))
    assert error.value.num_processes == wanted


@pytest.mark.parametrize(
    ("number", "settings"),
    [(0, {}), (1, {}), (1, {"strategy": "ddp"}), (8, {"num_processes": 1}), (8, {"device": "cpu"})],
)
def test_one_process_is_enough(gpus, number, settings):
    gpus(number)
    check_processes(PlacementSettings(**settings))


@pytest.mark.parametrize(
    ("number", "settings", "message"),
    [
        (4, {}, "4 GPUs are visible; give --placement ddp to train on all of them"),
        (0, {"strategy": "ddp"}, "give --num-processes"),
        (4, {"strategy": "ddp", "device": "cpu"}, "give --num-processes"),
        (1, {"strategy": "fsdp"}, "at least 2 GPUs, but only 1 is visible"),
    ],
)
def test_what_cannot_be_started_is_refused(gpus, number, settings, message):
    gpus(number)
    with pytest.raises(PlacementError, match=message) as error:
        check_processes(PlacementSettings(**settings))
    assert not isinstance(error.value, ProcessesNeeded)


def test_a_launcher_starts_the_wanted_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    check_processes(PlacementSettings(num_processes=2))
    check_processes(PlacementSettings(strategy="fsdp"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")  # four machines with one GPU each
    check_processes(PlacementSettings(strategy="fsdp", num_processes=1))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(PlacementError, match="num_processes: 4, but the launcher has started 2 on this machine"):
        check_processes(PlacementSettings(num_processes=4))
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(PlacementError, match="fsdp needs at least 2 processes, but only one was started"):
        check_processes(PlacementSettings(strategy="fsdp"))
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(PlacementError, match="num_processes: fsdp needs at least 2 processes, got 1"):
        check_processes(PlacementSettings(strategy="fsdp", num_processes=1))


def test_a_required_gpu_must_be_there(monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    with pytest.raises(PlacementError, match=r"placement.device: gpu, but torch finds no usable GPU"):
        place(PlacementSettings(device="gpu", num_processes=1), 8)
    with pytest.raises(PlacementError, match=r"placement.device: gpu, but torch finds no usable GPU"):
        check_processes(PlacementSettings(device="gpu", strategy="ddp"))


def test_accelerates_launcher_may_say_strategy_and_precision(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    placement = place(PlacementSettings(device="cpu"), 8)
    assert (placement.strategy, placement.mixed_precision) == ("fsdp", "bf16")
    placement = place(PlacementSettings(strategy="ddp", **CPU), 8)
    assert (placement.strategy, placement.mixed_precision) == ("ddp", "no")
    monkeypatch.setattr("bertkit.runtime.placement.resolve.find_device", lambda settings: "cuda")
    with pytest.raises(PlacementError, match="fp16 is not supported with fsdp"):
        place(PlacementSettings(strategy="fsdp", mixed_precision="fp16"), 8)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")  # which is what auto follows
    with pytest.raises(PlacementError, match=r"fp16 is not supported with fsdp; use bf16 or no$"):
        place(PlacementSettings(), 8)


def test_one_process_predicts(gpus, monkeypatch):
    gpus(8)
    assert inference_device("cpu") == "cpu"
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(PlacementError, match="a single process, and this is one of 2; use bertkit without a launcher"):
        inference_device("cpu")


# ---- XLA ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_xla(monkeypatch):
    """``on_xla("TPU")``: a machine on which torch_xla is, and computes on that."""

    def pretend(device_type: str) -> None:
        runtime = SimpleNamespace(device_type=lambda: device_type)
        monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(runtime=runtime))
        monkeypatch.setattr("bertkit.runtime.placement.resolve._finds_xla", lambda: True)

    return pretend


@pytest.mark.parametrize(("device_type", "precision"), [("TPU", "bf16"), ("CPU", "no")])
def test_xla_is_found_with_its_precision(on_xla, device_type, precision):
    on_xla(device_type)
    placement = place(PlacementSettings(), 32)
    assert (placement.device, placement.mixed_precision, placement.fixed_shapes) == ("xla", precision, True)
    assert inference_device() == "cpu"
    assert not place(PlacementSettings(fixed_shapes=False), 32).fixed_shapes


def test_bf16_is_not_left_to_accelerate(on_xla):
    on_xla("TPU")
    placement = place(PlacementSettings(), 32)
    assert placement.autocast_dtype == torch.bfloat16
    assert "bf16" not in placement.training_arguments()
    assert place(PlacementSettings(mixed_precision="no"), 32).autocast_dtype is None


def test_the_cpu_is_refused_beside_xla(on_xla):
    on_xla("CPU")
    placement = place(PlacementSettings(device="cpu"), 32)  # enough to predict, which accelerate has no part in
    assert placement.device == "cpu"
    with pytest.raises(PlacementError, match="USE_TORCH_XLA=0"):
        placement.training_arguments()


def test_what_xla_cannot_do_is_refused(on_xla, monkeypatch):
    monkeypatch.setattr("bertkit.runtime.placement.resolve._finds_xla", lambda: False)
    with pytest.raises(PlacementError, match="torch_xla cannot be imported"):
        place(PlacementSettings(device="xla"), 32)
    on_xla("TPU")
    with pytest.raises(PlacementError, match="fp16 needs a GPU; on this XLA"):
        place(PlacementSettings(mixed_precision="fp16"), 32)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(PlacementError, match="4 processes on XLA"):
        place(PlacementSettings(device="xla"), 32)


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [
        ("auto", "cpu", "float32"),
        ("auto", "cuda", "float16"),
        ("auto", "mps", "float32"),
        ("float32", "cuda", "float32"),
        ("fp16", "cuda", "float16"),
        ("bf16", "cpu", "bfloat16"),
    ],
)
def test_the_precision_of_inference(precision, device, expected):
    assert str(inference_dtype(precision, device)) == f"torch.{expected}"


def test_precisions_that_inference_does_not_have():
    with pytest.raises(PlacementError, match="fp16 needs a GPU; on this CPU use float32, bf16 or auto"):
        inference_dtype("fp16", "cpu")
    with pytest.raises(PlacementError, match="--precision half: expected auto, float32, bf16, fp16"):
        inference_dtype("half", "cpu")


CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize("given", [None, "7"])
def test_few_kernels_are_kept_unless_given(monkeypatch, given):
    for name in CACHES:
        monkeypatch.delenv(name, raising=False)
        if given is not None:
            monkeypatch.setenv(name, given)
    assert inference_device("cpu") == "cpu"
    assert [os.environ[name] for name in CACHES] == [given or "64"] * 2
