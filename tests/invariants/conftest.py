"""Runs of the command line under several placements, on data and checkpoints that are made here."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import WORDS, write_corpus

NO_DROPOUT = "--set model.hidden_dropout_prob=0 --set model.attention_probs_dropout_prob=0".split()
NO_REPORT = ["--set", "train.report=false"]  # which takes longer than a tiny training
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
Bertkit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bertkit(tmp_path: Path, forks: Any) -> Bertkit:
    """``bertkit(arguments)``: the command in other processes, offline; they are forks, which start sooner.

    With ``real`` they are those that a user starts, with a cache of their own.
    """

    def run(
        arguments: Sequence[str | Path],
        launcher: Sequence[str] = (),
        program: Sequence[str | Path] = ("-m", "bertkit"),
        *,
        real: bool = False,
    ) -> Any:
        environment = {**os.environ, **forks.environment} | ({"HF_HOME": str(tmp_path / "home")} if real else {})
        command = [sys.executable if real else forks.python, *launcher, *program, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=300)

    return run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("texts") / "corpus")


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without dropout whose tokenizer knows the words."""
    import torch

    from bertkit import BertConfig, BertForPreTraining
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("start")
    tokenizer = train_tokenizer([" ".join(WORDS)] * 3, 80, model_max_length=128)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    BertForPreTraining(
        BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes, **dropout)
    ).save_pretrained(folder)
    return folder


def sentence(rng: random.Random, least: int, most: int) -> list[str]:
    return rng.choices(WORDS, k=rng.randint(least, most))


@pytest.fixture(scope="session")
def glue_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SST-2 in GLUE's layout: 37 sentences to train on, 11 to score, 7 to predict, none of which divides evenly."""
    rng, folder = random.Random(1), tmp_path_factory.mktemp("glue")
    for split, number in (("train", 37), ("dev", 11), ("test", 7)):
        rows = [(" ".join(sentence(rng, 3, 14)), rng.randint(0, 1)) for _ in range(number)]
        header = "index\tsentence" if split == "test" else "sentence\tlabel"
        lines = [f"{n}\t{text}" if split == "test" else f"{text}\t{label}" for n, (text, label) in enumerate(rows)]
        (folder / f"{split}.tsv").write_text("\n".join([header, *lines]) + "\n")
    return folder


@pytest.fixture(scope="session")
def squad_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Questions whose contexts are of one window or two: 21 to train on and 9 to score; every third has no answer."""
    rng, folder = random.Random(2), tmp_path_factory.mktemp("squad")
    for split, number in (("train", 21), ("validation", 9)):
        rows = []
        for n in range(number):
            words = sentence(rng, 12, 40)
            context, first = " ".join(words), rng.randrange(len(words) - 2)
            answer, start = " ".join(words[first : first + 2]), len(" ".join(words[:first])) + (first > 0)
            answers = {"text": [answer], "answer_start": [start]} if n % 3 else {"text": [], "answer_start": []}
            question = " ".join(sentence(rng, 3, 5))
            rows.append({"id": f"{split}{n}", "context": context, "question": question, "answers": answers})
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return folder / "train.jsonl", folder / "validation.jsonl"


@pytest.fixture(scope="session")
def ner_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tagged sentences in CoNLL's columns: 29, 11 and 7 of them."""
    rng, folder = random.Random(3), tmp_path_factory.mktemp("ner")
    tags = {"cat": "B-ANIMAL", "dog": "B-ANIMAL", "house": "B-PLACE", "tree": "B-PLACE", "river": "B-PLACE"}
    files = {}
    for split, number in (("train", 29), ("validation", 11), ("test", 7)):
        sentences = ["\n".join(f"{word} {tags.get(word, 'O')}" for word in sentence(rng, 3, 12)) for _ in range(number)]
        files[split] = folder / f"{split}.conll"
        files[split].write_text("\n\n".join(sentences) + "\n")
    return files


def weights(folder: Path) -> dict[str, Any]:
    """The saved tensors by name."""
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")
