"""FSDP is what it says: each of two processes has half of every layer, on CPUs too.

In bf16 the weights that it exchanges are bf16, and those that it keeps, evaluates and saves are float32.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from bertkit import BertForSequenceClassification
from tests.training.conftest import curve

from .conftest import NO_REPORT, TORCHRUN, weights

pytestmark = pytest.mark.multiprocess

# The command line, which tells before its first step how much of the weights this process has.
TELLING = """\
import sys
from bertkit.cli.app import main
from bertkit.training.trainer import BertkitTrainer

get_batch_samples = BertkitTrainer.get_batch_samples

def telling(self, *args):
    weights = list(self.model.parameters())
    here = sum(each.to_local().numel() for each in weights)
    print(f"share: {here / sum(each.numel() for each in weights):.1f}", file=sys.stderr)
    return get_batch_samples(self, *args)

BertkitTrainer.get_batch_samples = telling
main()
"""
# The command line, which tells at its end in which dtypes layers computed, and which the optimizer updated.
DTYPES = """\
import atexit, os, sys
import torch
from bertkit.cli.app import main

used = set()
linear, norm, step = torch.nn.Linear.forward, torch.nn.LayerNorm.forward, torch.optim.AdamW.step

def telling(forward):
    def told(self, inputs):
        outputs = forward(self, inputs)
        used.add(f"{'training' if torch.is_grad_enabled() else 'evaluation'} {self.weight.dtype}")
        return outputs
    return told

def update(self, *args, **kwargs):
    result = step(self, *args, **kwargs)
    tensors = [each for group in self.param_groups for each in group["params"]]
    tensors += [each.grad for each in tensors]
    tensors += [each for state in self.state.values() for each in state.values()]
    used.update(f"update {each.dtype}" for each in tensors)
    return result

torch.nn.Linear.forward, torch.nn.LayerNorm.forward = telling(linear), telling(norm)
torch.optim.AdamW.step = update
atexit.register(lambda: sys.stderr.write("dtypes: " + ", ".join(sorted(used)) + "\\n"))  # at once, beside the other's
main()
"""
BF16 = "--set placement.mixed_precision=bf16 --global-train-batch-size 8 --learning-rate 1e-3".split()
BF16 += "--set train.logging_steps=1 --set train.save_steps=10 --json".split() + NO_REPORT
BF16 += "--set train.eval_strategy=steps --set train.eval_steps=10".split()


def test_each_process_has_its_share(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "telling.py").write_text(TELLING)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, "--max-steps", "1"]
    command += ["--placement", "cpu", "--set", "placement.strategy=fsdp", *NO_REPORT, "--output-dir", tmp_path / "out"]
    done = bertkit(command, TORCHRUN, [tmp_path / "telling.py"])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("share: 0.5") == 2


def loss_in_float32(folder: Path, data: Path) -> float:
    """The mean loss of a run's model on SST-2's validation set, as a later process computes it."""
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts, labels = zip(*(line.split("\t") for line in (data / "dev.tsv").read_text().splitlines()[1:]), strict=True)
    with torch.no_grad():
        logits = model(**tokenizer(list(texts), return_tensors="pt", padding=True)).logits
    return torch.nn.functional.cross_entropy(logits, torch.tensor(list(map(int, labels)))).item()


def test_bf16_is_gathered_and_float32_kept(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "dtypes.py").write_text(DTYPES)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, *BF16]
    command += ["--placement", "cpu", "--max-steps", "20"]
    for strategy in ("ddp", "fsdp"):
        flags = ["--set", f"placement.strategy={strategy}", "--output-dir", tmp_path / strategy]
        done = bertkit([*command, *flags], TORCHRUN, [tmp_path / "dtypes.py"])
        assert done.returncode == 0, done.stderr
        gathered = "bfloat16" if strategy == "fsdp" else "float32"
        told = "dtypes: evaluation torch.float32, training torch.{}, update torch.float32"
        assert done.stderr.count(told.format(gathered)) == 2, done.stderr
    sharded, whole = (np.array(curve(tmp_path / name)) for name in ("fsdp", "ddp"))
    # Losses near 0.7, of which bf16 keeps eight bits.
    np.testing.assert_allclose(sharded[:, 0], whole[:, 0], atol=0.7 * 2**-6)
    assert not np.array_equal(sharded[:, 0], whole[:, 0])
    assert {each.dtype for each in weights(tmp_path / "fsdp").values()} == {np.dtype(np.float32)}


def test_bf16_checkpoints_continue_in_any_placement(bertkit, tmp_path, start, glue_folder):
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, *BF16]
    command += ["--placement", "cpu", "--output-dir", tmp_path / "run"]
    sharded = ["--set", "placement.strategy=fsdp", "--num-processes", "2"]
    for steps, placement in ((10, sharded), (20, []), (30, sharded)):
        resumed = ["--resume"] if steps > 10 else []
        done = bertkit([*command, "--max-steps", str(steps), *placement, *resumed])
        assert done.returncode == 0, done.stderr
        assert not resumed or f"resuming from {tmp_path / 'run' / f'checkpoint-{steps - 10}'}" in done.stderr
    assert len(curve(tmp_path / "run")) == 30
    checkpoint = torch.load(tmp_path / "run" / "checkpoint-30" / "optimizer.pt", weights_only=True)
    assert {each.dtype for state in checkpoint["state"].values() for each in state.values()} == {torch.float32}
    results = json.loads((tmp_path / "run" / "all_results.json").read_text())
    # bf16, whose numbers have eight bits, would change the third digit.
    assert results["eval_loss"] == pytest.approx(loss_in_float32(tmp_path / "run", glue_folder), rel=1e-5)
    evaluated = bertkit(["evaluate", tmp_path / "run", "--json"])
    assert json.loads(evaluated.stdout)["metrics"] == {"eval_accuracy": results["eval_accuracy"]}
