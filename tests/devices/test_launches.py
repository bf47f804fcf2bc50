"""Kernels that a step starts: a GPU with a small model waits for each start, so their number bounds its speed.

They are counted on the CPU, with the weights of layers cast as on a GPU, for a model without dropout, which a GPU
computes by one kernel and a CPU by three.
"""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import TrainerCallback

import bertkit
from bertkit.model.joined import JOINED, LENGTHS, joined_sequences
from bertkit.training.casts import cast_by_layer

from .conftest import finetune

LAYERS = 2  # of the fixture `checkpoint`
NO_KERNEL = ("empty", "detach", "alias", "_unsafe_view", "scalar_tensor", "_local_scalar_dense", "_record_function")
"""Starts of the names of operations that are no views, and start no kernel."""


class _Calls(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not func.is_view and not name.startswith(NO_KERNEL):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class Launches(TrainerCallback):
    """Counts the kernels of the third step of a training, from the end of the second one, by their operation."""

    def __init__(self) -> None:
        self._calls, self._casts = _Calls(), ExitStack()

    def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
        self._casts.enter_context(cast_by_layer(model))

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._casts.close()

    @property
    def counts(self) -> Counter[str]:
        return self._calls.counts

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            self._calls.__enter__()
        if state.global_step == 3:
            self._calls.__exit__(None, None, None)


class Kept(TrainerCallback):
    """Notes the tensors that there are after each step: a graph of CUDA plays a step at the same addresses again."""

    def __init__(self) -> None:
        self.after: list[Counter[tuple[torch.dtype, torch.Size]]] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
        self.after.append(Counter((each.dtype, each.shape) for each in tensors if each.numel() > 1))


RUN = {
    "train.max_steps": 4,
    "train.logging_steps": 4,
    "train.global_train_batch_size": 4,
    "train.save_strategy": "no",
    "model.hidden_dropout_prob": 0.0,
    "model.attention_probs_dropout_prob": 0.0,
    "placement.device": "cpu",
    "placement.mixed_precision": "bf16",
    "placement.cpu_speed_ups": False,
}
LIMIT = {"of a layer": 44, "fine-tuning": 110, "pre-training": 160}
"""Kernels of a layer, and of all else."""
LIMIT_WITHOUT_PADDING = {"of a layer": 38, "joining": 12, "others": 36}
"""The same for the forward and backward pass of joined sequences, and what joining them adds."""


COLD = {"train.head": "random", "train.contrast_steps": 0, "train.eval_strategy": "no", "data.folds": 0}


def test_a_step_leaves_no_tensors_behind(tmp_path: Path, checkpoint: Path):
    kept = Kept()
    of_run = {**RUN, **COLD, "placement.fixed_shapes": True}
    finetune("classification", tmp_path, checkpoint, of_run, callbacks=[kept])
    assert len(kept.after) == 4
    # The first step makes the state of the optimizer, the last has no batch after it.
    assert kept.after[1] == kept.after[2]


def assert_few(counts: Counter[str], of_others: int) -> None:
    limit = LIMIT["of a layer"] * LAYERS + of_others
    assert 50 < counts.total() <= limit, f"{counts.total()} kernels in a step: {counts.most_common()}"


def test_finetuning(tmp_path: Path, checkpoint: Path):
    launches = Launches()
    finetune("classification", tmp_path, checkpoint, {**RUN, **COLD}, callbacks=[launches])
    assert_few(launches.counts, LIMIT["fine-tuning"])


def test_joined_sequences_start_few_kernels_besides_their_layers():
    """On torch's device without values, which calls the attention of a GPU."""
    counts = []
    for layers in (1, 3):
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "hidden_dropout_prob": 0.0}
        model = bertkit.BertForSequenceClassification(bertkit.BertConfig(num_hidden_layers=layers, **sizes))
        model.set_attn_implementation(JOINED)
        model = model.to("meta", torch.bfloat16)
        ids = torch.zeros(4, 9, dtype=torch.long, device="meta")
        with joined_sequences(model), _Calls() as calls:
            lengths = {LENGTHS: [9, 6, 4, 1]}
            outputs = model(input_ids=ids, attention_mask=ids, token_type_ids=ids, **lengths)
            outputs.logits.sum().backward()
        counts.append(calls.counts)
    of_layer, *others = LIMIT_WITHOUT_PADDING.values()
    assert counts[1].total() - counts[0].total() <= 2 * of_layer, counts[1] - counts[0]
    assert counts[0].total() <= of_layer + sum(others), counts[0]


def test_pretraining(tmp_path: Path, checkpoint: Path, corpus: Path):
    launches = Launches()
    sizes = {"data.max_seq_length": 32, "data.max_predictions_per_seq": 5}
    bertkit.pretrain(
        corpus=[corpus],
        model=str(checkpoint),
        output_dir=tmp_path / "out",
        callbacks=[launches],
        overrides={**RUN, **sizes},
    )
    assert_few(launches.counts, LIMIT["pre-training"])
