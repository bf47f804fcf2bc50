"""On XLA, here the CPU of PJRT, a run gives the numbers that it gives on the CPU, and compiles a few times and not in
every step: through the command line, with scripts/xla_environment.sh."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertkit.runtime.progress import is_score
from tests.invariants.conftest import NO_DROPOUT
from tests.training.conftest import logged

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="no torch_xla; see docs/guides/tpu.md"),
]

ON = {"cpu": {"USE_TORCH_XLA": "0"}, "tpu": {"USE_TORCH_XLA": "1", "PJRT_DEVICE": "CPU"}}
PROGRAM = """
import atexit, os, sys
if os.environ["USE_TORCH_XLA"] == "1":
    from torch_xla.debug import metrics
    atexit.register(lambda: print(f"compilations: {metrics.metric_data('CompileTime')[0]}", file=sys.stderr))
from bertkit.__main__ import main
main()
"""
SETTINGS = """train.logging_steps=1 train.learning_rate=1e-3 train.global_train_batch_size=8
    placement.per_device_train_batch_size=4 placement.per_device_eval_batch_size=8""".split()
SIZES = """model.num_hidden_layers=1 model.hidden_size=32 model.num_attention_heads=2 model.intermediate_size=64
    model.max_position_embeddings=32 data.max_predictions_per_seq=5""".split()


def run(placement: str, out: Path, *arguments: object, settings: list[str] = SETTINGS) -> int:
    """Runs ``bertkit ARGUMENTS --output-dir OUT`` on the CPU or on XLA; returns how often XLA compiled."""
    home = {"HF_HOME": str(out.parent / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments), "--output-dir", str(out), *NO_DROPOUT]
    command += ["--placement", placement, *(part for each in settings for part in ("--set", each))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home, **ON[placement]})
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "run.json").read_text())["placement"]["device"] == {"tpu": "xla"}.get(placement, "cpu")
    count = re.search(r"compilations: (\d+)", done.stderr)
    return int(count[1]) if count else 0


def assert_same(one: Path, other: Path) -> None:
    for name in ("loss", "grad_norm", "num_input_tokens_seen"):
        np.testing.assert_allclose(logged(one, name), logged(other, name), rtol=1e-5)
    results = [json.loads((out / "all_results.json").read_text()) for out in (one, other)]
    scores, expected = ({key: each[key] for key in each if is_score(key) and "train" not in key} for each in results)
    assert scores == pytest.approx(expected, rel=1e-5)


def test_pretraining_in_two_phases(corpus, tmp_path):
    command = ["pretrain", "--recipe", "bert-tiny", "--corpus", corpus, "--vocab-size", 90, "--max-steps", 8]
    command += ["--max-seq-length", 32]
    settings = [*SETTINGS, *SIZES, "data.phases={16: 0.5, 32: 0.5}"]
    compilations = {place: run(place, tmp_path / place, *command, settings=settings) for place in ON}
    assert_same(tmp_path / "tpu", tmp_path / "cpu")
    assert 0 < compilations["tpu"] <= 50


def test_glue_accumulated_saved_and_resumed(start, glue_folder, tmp_path):
    """The sentences of neither split are divided evenly by the batches; XLA compiles no more for more steps."""
    command = ["finetune", "glue", "--task", "sst2", "--data-dir", glue_folder, "--model", start]
    command += ["--num-train-epochs", 4, "--max-seq-length", 24]
    settings = [*SETTINGS, "train.save_steps=7"]
    compilations = {place: run(place, tmp_path / place, *command, settings=settings) for place in ON}
    assert_same(tmp_path / "tpu", tmp_path / "cpu")
    assert len(logged(tmp_path / "tpu")) == 20
    longer = run("tpu", tmp_path / "longer", *command, "--num-train-epochs", 8, settings=settings)
    assert 0 < longer <= compilations["tpu"] + 2

    for place in ON:
        resumed = tmp_path / f"resumed on {place}"
        resumed.mkdir()
        for name in ("recipe.yaml", "run.json"):
            shutil.copy(tmp_path / "tpu" / name, resumed)
        shutil.copytree(tmp_path / "tpu" / "checkpoint-14", resumed / "checkpoint-14")
        run(place, resumed, *command, "--resume", settings=settings)
        assert_same(resumed, tmp_path / "cpu")
