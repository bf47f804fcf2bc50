"""Placements as ``accelerate config`` writes them, read as bertkit's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.errors import RecipeError, listed

# What a file may say beside the keys that are read, because it changes nothing: key → the values that do so.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "compute_environment": ("LOCAL_MACHINE",),
    "debug": (False,),
    "downcast_bf16": (False, "no"),
    "dynamo_config": ({}, None),
    "enable_cpu_affinity": (False,),
    "gpu_ids": ("all", None),
    "machine_rank": (0,),
    "num_machines": (1,),
    "rdzv_backend": ("static",),
    "same_network": (True,),
    "tpu_env": ([], None),
    "tpu_use_cluster": (False,),
    "tpu_use_sudo": (False,),
}
_ANY = ("main_process_ip", "main_process_port", "main_training_function")  # of one machine, or of a script
_STRATEGIES = {"NO": "auto", "MULTI_CPU": "ddp", "MULTI_GPU": "ddp", "FSDP": "fsdp"}
_FSDP = {
    "fsdp_version": (2,),
    "fsdp_auto_wrap_policy": ("TRANSFORMER_BASED_WRAP",),
    "fsdp_cpu_ram_efficient_loading": (False, True),
    "fsdp_offload_params": (False,),
    "fsdp_reshard_after_forward": (True,),
    "fsdp_state_dict_type": ("FULL_STATE_DICT", "SHARDED_STATE_DICT"),
    "fsdp_activation_checkpointing": (False, True),
}


def is_accelerate_file(blocks: Mapping[str, Any]) -> bool:
    """Whether a YAML file is one of accelerate's: each of them has a ``distributed_type``."""
    return "distributed_type" in blocks


def placement_of(blocks: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values of the ``placement`` block that say what a file of accelerate's says.

    Args:
        blocks: the file's content.
        path: of the file, for messages.

    Raises:
        RecipeError: the file says something that bertkit cannot do itself; every such thing is named.
    """
    faults = []
    kind = blocks["distributed_type"]
    if kind not in _STRATEGIES:
        faults.append(f"distributed_type: {kind}")
    read = ("distributed_type", "mixed_precision", "num_processes", "use_cpu", "fsdp_config", *_ANY)
    for key, value in blocks.items():
        if key not in read and value not in _WITHOUT_EFFECT.get(key, ()):
            faults.append(f"{key}: {value}")
    fsdp = blocks.get("fsdp_config") or {}
    faults += [f"fsdp_config.{key}: {value}" for key, value in fsdp.items() if value not in _FSDP.get(key, ())]
    if faults:
        raise RecipeError(
            f"placement {path}: bertkit does not read this of an accelerate file; let accelerate itself start the run, "
            f"accelerate launch --config_file {path} -m bertkit …, without --placement: {listed(faults)}"
        )
    values: dict[str, Any] = {"strategy": _STRATEGIES[kind]}
    if blocks.get("use_cpu") or kind == "MULTI_CPU":
        values["device"] = "cpu"
    if "num_processes" in blocks:
        values["num_processes"] = blocks["num_processes"]
    if blocks.get("mixed_precision") is not None:
        values["mixed_precision"] = blocks["mixed_precision"]
    if fsdp.get("fsdp_activation_checkpointing"):
        values["gradient_checkpointing"] = True
    return values
