"""On XLA, here the CPU of PJRT, a run gives the numbers that it gives on the CPU, and compiles a few times and not in
every step: through the command line, with scripts/xla_environment.sh."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="no torch_xla; see docs/guides/tpu.md"),
]

ON = {"cpu": {"USE_TORCH_XLA": "0"}, "tpu": {"USE_TORCH_XLA": "1", "PJRT_DEVICE": "CPU"}}
WORDS = "the cat dog sees likes a small old red house tree river near under and".split()
SETTINGS = """train.logging_steps=1 train.learning_rate=1e-3 train.global_train_batch_size=8
    model.hidden_dropout_prob=0 model.attention_probs_dropout_prob=0 placement.per_device_eval_batch_size=8""".split()
SIZES = """model.num_hidden_layers=1 model.hidden_size=32 model.num_attention_heads=2 model.intermediate_size=64
    model.max_position_embeddings=32 data.max_predictions_per_seq=5""".split()


def run(placement: str, out: Path, *arguments: object, settings: list[str] = SETTINGS) -> None:
    """``bertkit ARGUMENTS --output-dir OUT`` on the CPU or on XLA."""
    home = {"HF_HOME": str(out.parent / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bertkit", *map(str, arguments), "--output-dir", str(out)]
    command += ["--placement", placement, *(part for each in settings for part in ("--set", each))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home, **ON[placement]})
    assert done.returncode == 0, done.stderr


def curve(out: Path) -> list[list[float]]:
    """Loss, gradient norm and tokens of each step."""
    names = ("loss", "grad_norm", "num_input_tokens_seen")
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    return [[entry[name] for name in names] for entry in history if "grad_norm" in entry]


def results(out: Path) -> dict[str, float]:
    """The scores: no times, and not the mean loss of a training, which is of the steps since it was resumed."""
    found = json.loads((out / "all_results.json").read_text())
    return {key: found[key] for key in found if key.startswith("eval_") and not key.endswith(("runtime", "second"))}


def same(one: Path, other: Path) -> None:
    np.testing.assert_allclose(curve(one), curve(other), rtol=1e-5)
    assert results(one) == pytest.approx(results(other), rel=1e-5)


def compilations(out: Path) -> int:
    record: dict[str, Any] = json.loads((out / "run.json").read_text())
    assert record["placement"]["device"] == "xla"
    return record["compilations"]["count"]


def sentence(rng: random.Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, most)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, folder = random.Random(0), tmp_path_factory.mktemp("corpus")
    for number in range(10):
        lines = [f"{sentence(rng, 9).capitalize()}." for _ in range(20)]
        (folder / f"{number}.txt").write_text("\n".join(lines))
    return folder


def pretrained(corpus: Path, placement: str, out: Path) -> Path:
    phases = "data.phases={16: 0.5, 32: 0.5}"
    command = ["pretrain", "--recipe", "bert-tiny", "--corpus", corpus, "--vocab-size", 90, "--max-steps", 8]
    run(placement, out, *command, "--max-seq-length", 32, settings=[*SETTINGS, *SIZES, phases])
    return out


@pytest.fixture(scope="module")
def on_cpu(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT, pre-trained on the CPU."""
    return pretrained(corpus, "cpu", tmp_path_factory.mktemp("pretrained") / "cpu")


def test_pretraining_in_two_phases(corpus, on_cpu, tmp_path):
    on_xla = pretrained(corpus, "tpu", tmp_path / "xla")
    same(on_xla, on_cpu)
    # Of either phase a step without a learning rate or one with it, an evaluation, an end of the log; and what begins.
    assert compilations(on_xla) <= 20


@pytest.fixture(scope="module")
def sst2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """37 and 21 sentences, which no batch divides."""
    rng, folder = random.Random(1), tmp_path_factory.mktemp("glue")
    (folder / "SST-2").mkdir()
    for name, number in (("train", 37), ("dev", 21)):
        rows = [f"{sentence(rng, 16)} {('awful', 'lovely')[row % 2]}\t{row % 2}\n" for row in range(number)]
        (folder / "SST-2" / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (folder / "SST-2" / "test.tsv").write_text("index\tsentence\n0\tthe cat\n1\tthe old dog\n")
    return folder


def test_glue_is_resumed_here_and_on_cpu(on_cpu, sst2, tmp_path):
    command = ["finetune", "glue", "--task", "sst2", "--data-dir", sst2, "--model", on_cpu]
    command += ["--num-train-epochs", 4, "--max-seq-length", 24]
    settings = [*SETTINGS, "placement.per_device_train_batch_size=4", "train.save_steps=7"]
    run("cpu", tmp_path / "cpu", *command, settings=settings)
    run("tpu", tmp_path / "xla", *command, settings=settings)
    same(tmp_path / "xla", tmp_path / "cpu")
    assert len(curve(tmp_path / "xla")) == 20
    assert compilations(tmp_path / "xla") <= 20

    for placement in ("tpu", "cpu"):
        resumed = tmp_path / f"resumed on {placement}"
        resumed.mkdir()
        for name in ("recipe.yaml", "run.json"):
            shutil.copy(tmp_path / "xla" / name, resumed)
        shutil.copytree(tmp_path / "xla" / "checkpoint-14", resumed / "checkpoint-14")
        run(placement, resumed, *command, "--resume", settings=settings)
        same(resumed, tmp_path / "cpu")


def test_ner(on_cpu, tmp_path):
    rng = random.Random(2)
    for name, number in (("train", 19), ("dev", 11)):
        rows = [
            [(word, "B-PET" if word in ("cat", "dog") else "O") for word in sentence(rng, 20).split()]
            for _ in range(number)
        ]
        text = "\n".join("".join(f"{word} {tag}\n" for word, tag in row) for row in rows)
        (tmp_path / f"{name}.conll").write_text(text)
    command = ["finetune", "ner", "--train-file", tmp_path / "train.conll", "--validation-file", tmp_path / "dev.conll"]
    command += ["--model", on_cpu, "--num-train-epochs", 2, "--max-seq-length", 16]
    for placement in ON:
        run(placement, tmp_path / placement, *command)
    same(tmp_path / "tpu", tmp_path / "cpu")


def test_squad_compiles_no_more_often_for_more_steps(on_cpu, tmp_path):
    rng = random.Random(3)
    for name, number in (("train", 19), ("dev", 11)):
        paragraphs = []
        for row in range(number):
            context = f"{sentence(rng, 20)} cat {sentence(rng, 9)}"
            answer = {"text": "cat", "answer_start": context.index("cat")}
            asked = {"id": f"{name} {row}", "question": "the dog sees", "answers": [answer]}
            paragraphs.append({"context": context, "qas": [asked]})
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    command = ["finetune", "squad", "--train-file", tmp_path / "train.json", "--validation-file", tmp_path / "dev.json"]
    command += ["--model", on_cpu, "--max-seq-length", 24, "--max-query-length", 6, "--doc-stride", 4]
    command += ["--set", "placement.fixed_shapes=true"]  # on the CPU too: how far inputs are padded is in this loss
    for placement in ON:
        run(placement, tmp_path / placement, *command, "--max-steps", 4)
    same(tmp_path / "tpu", tmp_path / "cpu")
    run("tpu", tmp_path / "longer", *command, "--max-steps", 12)
    assert compilations(tmp_path / "longer") <= compilations(tmp_path / "tpu") + 1
