"""Evaluations and predictions of a run are in float32, whatever precision it trains in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit import BertConfig, BertModel
from bertkit.training.trainer import BertkitTrainer

from .conftest import finetune

BF16 = {
    "placement.mixed_precision": "bf16",
    "train.num_train_epochs": 2,
    "train.global_train_batch_size": 8,
    "train.learning_rate": 1e-3,
    "train.eval_strategy": "epoch",
}


@pytest.mark.parametrize("kind", ["classification", "regression", "ner", "squad"])
def test_scores_are_found_again(tmp_path: Path, checkpoint: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    """A run in bf16: its training computes logits in bf16, and no evaluation does."""
    dtypes: dict[bool, set[torch.dtype]] = {True: set(), False: set()}
    compute = BertkitTrainer.compute_loss

    def seen(self: Any, model: Any, inputs: Any, return_outputs: bool = False, **count: Any) -> Any:
        loss, outputs = compute(self, model, inputs, return_outputs=True, **count)
        dtypes[model.training].add(next(iter(outputs.values())).dtype)
        return (loss, outputs) if return_outputs else loss

    monkeypatch.setattr(BertkitTrainer, "compute_loss", seen)
    run = finetune(kind, tmp_path, checkpoint, BF16)
    assert dtypes == {True: {torch.bfloat16}, False: {torch.float32}}
    results = json.loads((run / "all_results.json").read_text())
    state = json.loads((run / "trainer_state.json").read_text())
    step = state["best_global_step"] or state["global_step"]
    [shown] = [entry for entry in state["log_history"] if entry["step"] == step and "eval_loss" in entry]
    again = bertkit.evaluate(run, precision="float32").metrics
    scores = {name: value for name, value in results.items() if name in again and name != "eval_samples"}
    assert scores
    for others in (again, shown):
        assert {name: others[name] for name in scores} == pytest.approx(scores, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_keep_the_precision_of_autocast(dtype: torch.dtype):
    """Residuals too, which torch has in float32 on a GPU and, since embeddings are, on a CPU."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=30, hidden_size=32, num_attention_heads=2, intermediate_size=64)).eval()
    ids = torch.randint(1, 30, (2, 9))
    with torch.no_grad():
        exact = model(ids, output_hidden_states=True).hidden_states
        with torch.autocast("cpu", dtype):
            states = model(ids, output_hidden_states=True).hidden_states
    assert {each.dtype for each in states[1:]} == {dtype}
    for near, state in zip(states, exact, strict=True):
        assert (near.float() - state).abs().max() < 0.1  # of values near 1, after 24 sums of eight bits
