"""Two processes of 16, and four micro-batches of 8, give the numbers of one batch of 32: a run of two phases, through
the command line that a user would launch."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.multiprocess

SMALL = """--max-steps 4 --global-train-batch-size 32 --max-seq-length 32 --placement cpu
    --set train.logging_steps=1
    --set model.num_hidden_layers=1 --set model.hidden_size=32 --set model.intermediate_size=64
    --set model.hidden_dropout_prob=0 --set model.attention_probs_dropout_prob=0
    --set data.max_predictions_per_seq=5 --set train.learning_rate=1e-3""".split()
SMALL += ["--set", "data.phases={16: 0.5, 32: 0.5}"]


def launch(processes: int, arguments: list[str], home) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, *launcher, "-m", "bertkit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def curve(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    names = (
        "loss",
        "masked_lm_loss",
        "next_sentence_loss",
        "grad_norm",
        "masked_lm_accuracy",
        "next_sentence_accuracy",
    )
    return [[entry[name] for name in names if name in entry] for entry in history if "loss" in entry]


@pytest.mark.parametrize("pair_objective", ["nsp", "none"])
def test_pretraining(tmp_path, pair_objective):
    rng = random.Random(0)
    words = "the cat dog sees likes a small old red house tree river near under and".split()
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(10):
        lines = [" ".join(rng.choices(words, k=rng.randint(4, 9))).capitalize() + "." for _ in range(20)]
        (corpus / f"{number}.txt").write_text("\n".join(lines))
    ways = {"1 × 32": (1, 32), "4 × 8": (1, 8), "2 processes × 16": (2, 16)}
    results, curves = {}, {}
    for way, (processes, per_device) in ways.items():
        out = tmp_path / way
        command = ["pretrain", "--recipe", "bert-tiny", "--corpus", str(corpus), "--vocab-size", "90", "--json"]
        command += ["--pair-objective", pair_objective]
        cut = ["--set", f"placement.per_device_train_batch_size={per_device}"]
        done = launch(processes, [*command, "--output-dir", str(out), *SMALL, *cut], tmp_path / f"home {way}")
        assert done.returncode == 0, done.stderr
        results[way] = json.loads(done.stdout)  # one process speaks
        assert done.stderr.count("placement:") == 1
        assert "Warning" not in done.stderr
        curves[way] = curve(out)
    for way in ways:
        assert len(curves[way]) == 4
        np.testing.assert_allclose(curves[way], curves["1 × 32"], rtol=1e-5, err_msg=way)
        for name in [name for name in results["1 × 32"] if name.endswith(("_loss", "_accuracy"))]:
            assert results[way][name] == pytest.approx(results["1 × 32"][name], rel=1e-5)
