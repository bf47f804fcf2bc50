"""Encoding of splits once per machine: its first process encodes, the others read the result."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset, load_from_disk
from transformers import PreTrainedTokenizerBase

from bertkit.tasks.base import Task
from bertkit.tasks.splits import Split, Truncation


def encode_once(
    task: Task, splits: dict[str, Split], tokenizer: PreTrainedTokenizerBase
) -> dict[str, tuple[Dataset, Truncation]]:
    """Runs `Task.encode_split` on every split in one process per machine, and shares the result with the others.

    The other processes memory-map its files, so a machine holds the inputs once; the files are removed when all
    processes have opened them.

    Returns:
        Split name → inputs and truncation statistics.
    """
    state = PartialState()
    if state.num_processes == 1:
        return {name: task.encode_split(split, tokenizer) for name, split in splits.items()}
    folder = _folder()
    with state.local_main_process_first():
        if state.is_local_main_process:
            shutil.rmtree(folder, ignore_errors=True)  # left over from a killed run
            for name, split in splits.items():
                features, cut = task.encode_split(split, tokenizer)
                features.save_to_disk(folder / name)
                (folder / f"{name}.json").write_text(json.dumps(dataclasses.asdict(cut)))
        encoded = {name: _read(folder, name) for name in splits}
    state.wait_for_everyone()
    if state.is_local_main_process:
        shutil.rmtree(folder)
    return encoded


def _folder() -> Path:
    """Returns a folder that is shared by the processes of this run on this machine, and distinct between concurrent
    runs."""
    run = "-".join(os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "GROUP_RANK"))
    return Path(tempfile.gettempdir()) / f"bertkit-{os.getuid()}-{run}"


def _read(folder: Path, name: str) -> tuple[Dataset, Truncation]:
    features: Any = load_from_disk(folder / name)
    return features, Truncation(**json.loads((folder / f"{name}.json").read_text()))
