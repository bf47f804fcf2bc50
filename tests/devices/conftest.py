"""Small data of every task, for runs on other devices, and the device of the tests marked ``gpu``.

With ``BERTKIT_TEST_DEVICE=cpu`` these tests run on the CPU, so that only CUDA is new to them on a GPU.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

import bertkit

IS_GPU = os.environ.get("BERTKIT_TEST_DEVICE", "cuda") == "cuda"
DEVICE = "gpu" if IS_GPU else "cpu"
"""As ``placement.device``."""
GPU_MARKS = [
    pytest.mark.gpu,
    pytest.mark.skipif(IS_GPU and not torch.cuda.is_available(), reason="no CUDA device"),
    # CUDA's libraries warn of what cannot be seen without them, such as that the mode that finds waits is a prototype.
    pytest.mark.filterwarnings("default"),
]

WORDS = "a good bad film story the plot is lovely or awful".split()


def texts(number: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(number)]


DATA: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "classification": lambda n, text: {"text": text, "label": "ab"[n % 2]},
    "regression": lambda n, text: {"text": text, "label": n / 7 + 0.01},
    "multi-label": lambda n, text: {"text": text, "label": ["a", "b"][: n % 3]},
    "ner": lambda n, text: {"tokens": text.split(), "tags": ["B-X", *["O"] * text.count(" ")]},
    "multiple-choice": lambda n, text: {"context": text, "endings": ["good", "bad"], "label": n % 2},
    "similarity": lambda n, text: {"sentence1": text, "sentence2": text[::-1], "score": n / 24},
    "squad": lambda n, text: {
        "id": str(n),
        "context": text,
        "question": "is it good",
        "answers": {"text": [text.split()[0]], "answer_start": [0]},
    },
}
_RECIPES = {"regression": "finetune/classification", "multi-label": "finetune/classification", "squad": "squad/v1"}


def finetune(
    kind: str,
    folder: Path,
    checkpoint: Path,
    overrides: Mapping[str, Any],
    *,
    callbacks: Sequence[TrainerCallback] = (),
    name: str = "out",
    resume: bool = False,
) -> Path:
    """Fine-tunes for a task of `DATA` on 24 examples of up to 12 words; returns the run directory."""
    rows = [DATA[kind](number, text) for number, text in enumerate(texts(24))]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = {f"data.{split}_file": str(folder / "rows.jsonl") for split in ("train", "validation")}
    squad = {"data.max_query_length": 10, "data.doc_stride": 8} if kind == "squad" else {}
    bertkit.finetune(
        _RECIPES.get(kind, f"finetune/{kind}"),
        model=str(checkpoint),
        output_dir=folder / name,
        callbacks=callbacks,
        overrides={**files, **squad, "data.max_seq_length": 32, **overrides},
        resume=resume,
    )
    return folder / name


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(4):
        (folder / f"{number}.txt").write_text("\n".join(text.capitalize() + "." for text in texts(30, number)))
    return folder
