"""The steps of a training call nothing that waits for the device.

Here a run on the CPU counts the calls; ``test_meta.py`` runs other tasks where such a call cannot succeed.
"""

from __future__ import annotations

import json
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from transformers import TrainerCallback

import bertkit
from bertkit.training.trainer import BertkitTrainer

pytestmark = pytest.mark.slow

READS = {"item", "tolist", "numpy", "cpu", "nonzero", "masked_select", "equal", "__bool__", "__int__", "__float__"}


class _Waits(TorchFunctionMode):
    """Counts the calls in steps of a training that would wait for a device, by their place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.is_step = False
        self.places: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if self.is_step and (name in READS or _selects(name, args)):
            frame = next(each for each in reversed(traceback.extract_stack()[:-1]) if "torch/" not in each.filename)
            # Whether a mask is needed is asked on a CPU only.
            if not frame.filename.endswith("transformers/masking_utils.py"):
                self.places[f"{name} at {frame.filename}:{frame.lineno}"] += 1
        return func(*args, **kwargs)


def _selects(name: str, args: Any) -> bool:
    """Returns whether a call selects items by a mask, whose number only the device knows."""
    keys = args[1] if name == "__getitem__" and isinstance(args[1], tuple) else args[1:2]
    return name == "__getitem__" and any(isinstance(key, torch.Tensor) and key.dtype == torch.bool for key in keys)


class _Steps(TrainerCallback):
    def __init__(self, waits: _Waits):
        self.waits = waits

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.waits.is_step = True

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.waits.is_step = False


def waits_of(folder: Path, checkpoint: Path, steps: int) -> Counter[str]:
    file, waits = folder / "rows.jsonl", _Waits()
    file.write_text("\n".join(json.dumps({"text": f"a good film {n}", "label": "ab"[n % 2]}) for n in range(40)))
    overrides = {"data.train_file": str(file), "data.validation_file": str(file), "data.max_seq_length": 16}
    overrides |= {"train.max_steps": steps, "train.global_train_batch_size": 4, "train.logging_steps": 50}
    with waits:
        bertkit.finetune(
            "finetune/classification",
            model=str(checkpoint),
            output_dir=folder / "out",
            callbacks=[_Steps(waits)],
            overrides={**overrides, "train.save_strategy": "no", "train.load_best_model_at_end": False},
        )
    return waits.places


def test_a_hundred_steps_wait_never(tmp_path: Path, checkpoint: Path):
    assert waits_of(tmp_path, checkpoint, 100) == {}


@pytest.mark.parametrize("wait", [torch.Tensor.item, torch.Tensor.tolist, torch.nonzero, bool, lambda x: x[x == x]])
def test_a_planted_wait_is_counted(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, wait: Any):
    compute_loss = BertkitTrainer.compute_loss

    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = compute_loss(self, *args, **kwargs)
        if isinstance(loss, torch.Tensor):
            wait(loss.detach())
        return loss

    monkeypatch.setattr(BertkitTrainer, "compute_loss", waiting)
    assert sum(waits_of(tmp_path, checkpoint, 2).values()) == 2
