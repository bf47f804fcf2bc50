"""Runs whose layers are compiled: the losses of those that are not, few graphs, and a clear word without a compiler."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, TrainerCallback

import bertkit
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.processes import INTERRUPTED
from bertkit.training.batches import compiled_length
from bertkit.training.compiled import compiled_layers
from tests.training.conftest import SMALL, STRAIGHT, arguments_for, logged

pytestmark = pytest.mark.filterwarnings("default")  # torch's compiler warns of what it does itself

WORDS = "a good bad film story the plot is lovely or awful".split()
COMPILED = {"train.torch_compile": True, "train.torch_compile_backend": "aot_eager"}  # needs no compiler of C++
COLD = {"train.head": "random", "train.contrast_steps": 0, "data.folds": 0, **STRAIGHT}


@pytest.fixture(autouse=True)
def _no_graphs_of_other_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def rows(folder: Path, number: int) -> str:
    """Writes rows whose lengths are spread as those of SST-2: half have up to 9 words, one of a hundred 36 or more."""
    draw = random.Random(3)
    lengths = [min(50, max(1, round(draw.lognormvariate(2.0, 0.75)))) for _ in range(number)]
    lines = [{"text": " ".join(draw.choices(WORDS, k=n)), "label": "ab"[n % 2]} for n in lengths]
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return str(file)


def finetuned(folder: Path, checkpoint: Path, name: str, number: int = 40, **given: Any) -> Path:
    file = rows(folder, number)
    overrides = {**SMALL, **COLD, "data.max_seq_length": 64, **given.pop("overrides", {})}
    overrides |= {f"data.{split}_file": file for split in ("train", "validation")}
    out = folder / name
    bertkit.finetune("finetune/classification", model=str(checkpoint), output_dir=out, overrides=overrides, **given)
    return out


def graphs() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bf16": {"placement.mixed_precision": "bf16"},
    "accumulation": {"placement.per_device_train_batch_size": 2},
    "recomputed activations": {"placement.gradient_checkpointing": True},
    "lora": {"model.lora": {"r": 2}},
    "frozen": {"model.freeze_layers": 1},
    "evaluations and the best checkpoint": {"train.save_strategy": "epoch", "train.num_train_epochs": 2}
    | {"train.eval_strategy": "epoch", "train.load_best_model_at_end": True},
}


@pytest.mark.numeric
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] if settings else []) for case, settings in CASES.items()]
)
def test_losses_and_names_of_weights_are_those_of_a_plain_run(tmp_path: Path, checkpoint: Path, case: str):
    expected = finetuned(tmp_path, checkpoint, "plain", overrides=CASES[case])
    assert graphs() == 0
    out = finetuned(tmp_path, checkpoint, "compiled", overrides={**CASES[case], **COMPILED})
    assert graphs() > 1
    assert logged(out) == pytest.approx(logged(expected), rel=1e-2 if case == "bf16" else 1e-4)
    names, of_plain = (load_file(folder / "model.safetensors").keys() for folder in (out, expected))
    assert names == of_plain


@pytest.mark.slow
def test_an_interrupted_run_continues_to_the_same_result(tmp_path: Path, checkpoint: Path):
    class Preempted(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    overrides = {"train.save_strategy": "steps", "train.save_steps": 100}
    expected = finetuned(tmp_path, checkpoint, "plain", overrides=overrides)
    overrides |= COMPILED
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # signals that are ignored, as under nohup, stay ignored
    try:
        with pytest.raises(SystemExit) as ended:
            finetuned(tmp_path, checkpoint, "compiled", overrides=overrides, callbacks=[Preempted()])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == INTERRUPTED
    assert graphs() > 1
    assert [path.name for path in (tmp_path / "compiled").glob("checkpoint-*")] == ["checkpoint-3"]
    out = finetuned(tmp_path, checkpoint, "compiled", overrides=overrides, resume=True)
    assert logged(out) == pytest.approx(logged(expected), rel=1e-4)


@pytest.mark.slow
def test_a_run_with_a_teacher_is_the_same(tmp_path: Path, checkpoint: Path):
    teacher = finetuned(tmp_path, checkpoint, "teacher")
    outs = []
    for name, compiled in (("plain", {}), ("compiled", COMPILED)):
        outs.append(tmp_path / name)
        overrides = {**SMALL, **COLD, "data.train_file": str(tmp_path / "rows.jsonl"), **compiled}
        bertkit.distill(teacher, checkpoint, output_dir=outs[-1], overrides=overrides)
    assert graphs() > 1
    assert logged(outs[1]) == pytest.approx(logged(outs[0]), rel=1e-4)


@pytest.mark.slow
def test_pretraining_is_the_same(tmp_path: Path, checkpoint: Path, corpus: Path):
    sizes = {"data.max_seq_length": 32, "data.max_predictions_per_seq": 5, "train.max_steps": 4}
    outs = []
    for name, compiled in (("plain", {}), ("compiled", COMPILED)):
        outs.append(tmp_path / name)
        overrides = {**SMALL, **sizes, **compiled}
        bertkit.pretrain(corpus=[corpus], model=str(checkpoint), output_dir=outs[-1], overrides=overrides)
    assert logged(outs[1]) == pytest.approx(logged(outs[0]), rel=1e-4)
    assert 2 <= graphs() <= 3  # layers, the last layer, and what tries the compiler


def test_an_epoch_has_two_graphs_for_each_length(tmp_path: Path, checkpoint: Path):
    seen: set[int] = set()

    class Lengths(TrainerCallback):
        def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
            model.register_forward_pre_hook(self.note, with_kwargs=True)

        def note(self, model: Any, args: Any, inputs: dict[str, Any]) -> None:
            if model.training:
                seen.add(inputs["input_ids"].shape[1])

    finetuned(tmp_path, checkpoint, "run", 203, overrides=COMPILED, callbacks=[Lengths()])
    assert seen == {16, 32, 48, 64}
    assert 2 * len(seen) <= graphs() <= 2 * len(seen) + 1  # all layers but the last, the last; what tries the compiler


@pytest.mark.slow
def test_the_compiler_of_torch_keeps_its_kernels(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    one_length = {"data.max_seq_length": 16}  # each takes kernels of its own
    expected = finetuned(tmp_path, checkpoint, "plain", overrides=one_length)
    out = finetuned(tmp_path, checkpoint, "compiled", overrides={"train.torch_compile": True, **one_length})
    assert logged(out) == pytest.approx(logged(expected), rel=1e-3)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "cache" / "bertkit" / "compiled")
    assert list((tmp_path / "cache" / "bertkit" / "compiled").rglob("*.py"))


def test_a_machine_without_a_compiler_is_told_before_the_run(tmp_path: Path, checkpoint: Path):
    import torch._inductor.config

    patched = torch._inductor.config.patch({"force_disable_caches": True, "cpp.cxx": (None, "no-such-compiler")})
    message = r"train\.torch_compile: no compiler works here, remove it: .*compiler"
    with patched, pytest.raises(RecipeError, match=message):
        finetuned(tmp_path, checkpoint, "run", overrides={"train.torch_compile": True})
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_families_compute_the_same(encoder: Any, tmp_path: Path):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(encoder).train()
    ids = torch.randint(5, 60, (4, 16))
    arguments = arguments_for(
        tmp_path, per_device_train_batch_size=4, torch_compile=True, torch_compile_backend="aot_eager"
    )

    def gradients() -> dict[str, torch.Tensor]:
        model.zero_grad()
        model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.square().sum().backward()
        return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}

    expected = gradients()
    with compiled_layers(model, arguments):
        found = gradients()
    assert (graphs() > 0) is (encoder.model_type != "albert")  # its layers share their weights, and are not compiled
    for name, gradient in gradients().items():
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-4 * float(gradient.abs().max() + 1))


def test_lengths_are_few():
    lengths = {compiled_length(512, length) for length in range(1, 513)}
    assert len(lengths) == 14
    assert all(compiled_length(512, length) >= length for length in range(1, 513))
