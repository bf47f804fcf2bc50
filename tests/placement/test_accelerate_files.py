"""What `accelerate config` writes is read as a placement, and what bertkit cannot do is refused by name."""

from __future__ import annotations

import pytest

from bertkit.errors import RecipeError
from bertkit.recipe.load import load_placement
from bertkit.tasks.registry import validate_recipes

# As `accelerate config` of accelerate 1.15 writes it for two GPUs.
TWO_GPUS = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
downcast_bf16: 'no'
enable_cpu_affinity: false
gpu_ids: all
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""
FSDP = """\
fsdp_config:
  fsdp_version: 2
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
"""


def placement(tmp_path, text):
    path = tmp_path / "my_accelerate.yaml"
    path.write_text(text)
    validate_recipes([path])
    return load_placement(path)


def test_two_gpus(tmp_path):
    assert placement(tmp_path, TWO_GPUS) == {"strategy": "ddp", "num_processes": 2, "mixed_precision": "bf16"}


def test_processes_on_the_cpu(tmp_path):
    text = TWO_GPUS.replace("MULTI_GPU", "MULTI_CPU").replace("bf16\nnum_m", "'no'\nnum_m")
    expected = {"strategy": "ddp", "device": "cpu", "num_processes": 2, "mixed_precision": "no"}
    assert placement(tmp_path, text) == expected


def test_shared_weights(tmp_path):
    values = placement(tmp_path, TWO_GPUS.replace("MULTI_GPU", "FSDP") + FSDP)
    assert (values["strategy"], values["gradient_checkpointing"]) == ("fsdp", True)


def test_what_bertkit_cannot_do_is_named_all_at_once(tmp_path):
    text = TWO_GPUS.replace("num_machines: 1", "num_machines: 2") + FSDP.replace("params: false", "params: true")
    with pytest.raises(RecipeError) as error:
        placement(tmp_path, text)
    for part in ("num_machines: 2", "fsdp_offload_params: True", "accelerate launch --config_file"):
        assert part in str(error.value)
    with pytest.raises(RecipeError, match="distributed_type: DEEPSPEED"):
        placement(tmp_path, TWO_GPUS.replace("MULTI_GPU", "DEEPSPEED"))


def test_a_wrong_value_is_refused_as_in_any_placement(tmp_path):
    with pytest.raises(RecipeError, match="mixed_precision: expected one of auto, no, bf16, fp16, got 'fp8'"):
        placement(tmp_path, TWO_GPUS.replace("mixed_precision: bf16", "mixed_precision: fp8"))
