"""The newest complete checkpoint: damage of every kind is recognised, and an older one is used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bertkit.runtime.errors import BertkitError
from bertkit.training.recovery import MANIFEST, find_fault, last_checkpoint, write_manifest
from bertkit.training.runs.finetune import finetune
from tests.training.conftest import SMALL


def checkpoint_of(output_dir: Path, step: int) -> Path:
    folder = output_dir / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    for name, size in (("model.safetensors", 3000), ("optimizer.pt", 500), ("trainer_state.json", 20)):
        (folder / name).write_bytes(random.Random(f"{step} {name}").randbytes(size))
    write_manifest(folder)
    return folder


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path, random.Random], object]] = {
    "empty": lambda path, rng: path.write_bytes(b""),
    "truncated": lambda path, rng: path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)]),
    "longer": lambda path, rng: path.write_bytes(path.read_bytes() + b"\0"),
    "a bit flipped": flip,
    "missing": lambda path, rng: path.unlink(),
    "a folder": lambda path, rng: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json", MANIFEST])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_not_used(tmp_path, capsys, damage, name):
    whole, newest = checkpoint_of(tmp_path, 9), checkpoint_of(tmp_path, 20)
    assert last_checkpoint(tmp_path) == newest
    DAMAGE[damage](newest / name, random.Random(0))
    fault = find_fault(newest)
    assert fault is not None
    assert last_checkpoint(tmp_path) == whole
    assert f"warning: {newest} is not used: {fault}" in capsys.readouterr().err


def test_the_last_step_is_the_newest(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step in (9, 100, 20):
        checkpoint_of(tmp_path, step)
    (tmp_path / "checkpoint-notes").mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize(
    "name",
    [
        "optimizer.pt",
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("model.safetensors", "scheduler.pt", "rng_state.pth")),
    ],
)
def test_a_damaged_checkpoint_is_skipped(tuned, glue, tmp_path, capsys, name):
    overrides = {**SMALL, "train.max_steps": 6, "train.save_steps": 2, "train.save_strategy": "steps"}
    overrides |= {"train.save_total_limit": 5, "data.max_seq_length": 16, "model.hidden_dropout_prob": 0.1}
    # Each checkpoint is one of the end of an epoch, which is evaluated before it: that draws random numbers.
    overrides |= {"train.global_train_batch_size": 48, "train.eval_strategy": "epoch"}
    out = tuned("sst2", overrides, data_dir=glue).output_dir
    expected, damaged = (out / "model.safetensors").read_bytes(), out / "checkpoint-6" / name
    damaged.write_bytes(b"")
    tuned("sst2", overrides, data_dir=glue, resume=True)
    assert (out / "model.safetensors").read_bytes() == expected
    told = capsys.readouterr().err
    assert f"{name} has 0 bytes" in told
    assert f"resuming from {tmp_path / 'run' / 'checkpoint-4'}" in told
    assert find_fault(damaged.parent) is None  # saved again


def test_older_checkpoints_are_removed_last(tuned, glue, tmp_path, monkeypatch):
    """A run killed at any moment of a save has a complete checkpoint."""
    from bertkit.training import trainer

    seen: list[list[str]] = []

    def record(folder: Path) -> None:
        seen.append(sorted(path.parent.name for path in folder.parent.glob(f"*/{MANIFEST}")))
        write_manifest(folder)

    monkeypatch.setattr(trainer, "write_manifest", record)
    overrides = {**SMALL, "train.max_steps": 3, "train.save_steps": 1, "train.save_strategy": "steps"}
    overrides |= {"train.save_total_limit": 1, "data.max_seq_length": 16}
    tuned("sst2", overrides, data_dir=glue)
    assert seen == [[], ["checkpoint-1"], ["checkpoint-2"]]
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-3"]


def test_a_skipped_checkpoint_replaces_no_complete_one(tuned, glue):
    overrides = {**SMALL, "train.max_steps": 4, "train.save_steps": 1, "train.save_strategy": "steps"}
    overrides |= {"train.save_total_limit": 2, "data.max_seq_length": 16}
    out = tuned("sst2", overrides, data_dir=glue).output_dir
    (out / "checkpoint-4" / "optimizer.pt").write_bytes(b"")
    (out / "checkpoint-3").rename(out / "checkpoint-2")  # step 2, so that the run is resumed and saves step 3 first
    (out / "checkpoint-2" / MANIFEST).unlink()
    tuned("sst2", overrides, data_dir=glue, resume=True)
    assert sorted(path.name for path in out.glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]
    assert last_checkpoint(out) == out / "checkpoint-4"


def test_without_a_complete_checkpoint_a_run_starts_again(tuned, glue, capsys):
    overrides = {**SMALL, "train.max_steps": 2, "train.save_steps": 2, "train.save_strategy": "steps"}
    overrides |= {"data.max_seq_length": 16}
    out = tuned("sst2", overrides, data_dir=glue).output_dir
    expected = (out / "model.safetensors").read_bytes()
    (out / "checkpoint-2" / MANIFEST).unlink()
    tuned("sst2", overrides, data_dir=glue, resume=True)
    assert "no complete checkpoint, so from the start" in capsys.readouterr().err
    assert (out / "model.safetensors").read_bytes() == expected


def test_checkpoints_without_a_run_are_refused(checkpoint, tmp_path):
    checkpoint_of(tmp_path, 1)
    with pytest.raises(BertkitError, match=r"no recipe\.yaml"):
        finetune("sst2", model=str(checkpoint), output_dir=tmp_path, resume=True)
