"""Out of memory: the step is done again with fewer examples at once, and the numbers are those of a larger device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertkit import BertForSequenceClassification
from bertkit.runtime.errors import PlacementError
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import Labels, arguments_for


def examples() -> list[dict[str, torch.Tensor]]:
    draw = torch.Generator().manual_seed(5)
    return [
        {"labels": torch.randint(0, 2, (), generator=draw), "input_ids": torch.randint(5, 60, (8,), generator=draw)}
        | {"attention_mask": torch.ones(8, dtype=torch.int64)}
        for _ in range(13)
    ]


def run_out(grad: torch.Tensor) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def trained(config: Any, folder: Any, capacity: int, fails_in: str = "forward", **arguments: Any):
    """A training on a device that has memory for ``capacity`` examples: the trainer, and each step's loss and norm."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    forward = model.forward

    def limited(input_ids: torch.Tensor, **rest: Any) -> Any:
        fits = len(input_ids) <= capacity
        if not fits and fails_in == "forward":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand more")
        outputs = forward(input_ids=input_ids, **rest)
        if not fits:
            outputs.logits.register_hook(
                lambda grad: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory."))
            )
        return outputs

    model.forward = limited
    trainer = BertkitTrainer(
        what="test",
        model=model,
        objective=Labels(),
        args=arguments_for(
            folder,
            learning_rate=1e-2,
            save_steps=2,
            remove_unused_columns=False,
            **{"per_device_train_batch_size": 6, "gradient_accumulation_steps": 1, "num_train_epochs": 2, **arguments},
        ),
        train_dataset=examples(),
    )
    trainer.train(resume_from_checkpoint=arguments.get("resume_from_checkpoint"))
    steps = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return trainer, [(entry["loss"], entry["grad_norm"]) for entry in steps]


@pytest.mark.parametrize("fails_in", ["forward", "backward"])
@pytest.mark.parametrize(("at_once", "accumulated"), [(6, 1), (3, 2)])
def test_half_at_once_gives_the_same_numbers(tmp_path, tiny_config, capsys, fails_in, at_once, accumulated):
    cut = {"per_device_train_batch_size": at_once, "gradient_accumulation_steps": accumulated}
    _, expected = trained(tiny_config, tmp_path / "large", 100, **cut)
    assert capsys.readouterr().err.count("out of memory") == 0
    trainer, curve = trained(tiny_config, tmp_path / "small", 2, fails_in, **cut)
    assert len(curve) == 6
    for step, of_large in zip(curve, expected, strict=True):
        assert step == pytest.approx(of_large, rel=1e-5)
    assert trainer.args.per_device_train_batch_size == at_once
    lines = [line for line in capsys.readouterr().err.splitlines() if "out of memory" in line]
    assert len(lines) == (2 if at_once == 6 else 1)  # 6, 3, 1; or 3, 1: said once each
    assert "continuing with 1 at once" in lines[-1]
    assert "--set placement.per_device_train_batch_size=1" in lines[-1]


def test_resumption_with_more_memory(tmp_path, tiny_config):
    _, expected = trained(tiny_config, tmp_path / "large", 100)
    trained(tiny_config, tmp_path / "small", 2)
    _, curve = trained(
        tiny_config, tmp_path / "small", 100, resume_from_checkpoint=str(tmp_path / "small" / "checkpoint-2")
    )
    for step, of_large in zip(curve, expected, strict=True):
        assert step == pytest.approx(of_large, rel=1e-5)


def test_too_little_for_one_example_says_what_helps(tmp_path, tiny_config):
    with pytest.raises(PlacementError, match=r"with 1 sequence at once .* placement.gradient_checkpointing=true"):
        trained(tiny_config, tmp_path, 0)


def test_other_errors_are_not_taken_for_it(tmp_path, tiny_config, monkeypatch, capsys):
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a shape is wrong")

    monkeypatch.setattr(BertForSequenceClassification, "forward", fail)
    with pytest.raises(RuntimeError, match="a shape is wrong"):
        trained(tiny_config, tmp_path, 100)
    assert "out of memory" not in capsys.readouterr().err
