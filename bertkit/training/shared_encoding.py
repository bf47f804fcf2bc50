"""The inputs of a split, made once on each machine: its first process encodes, the others read what it made."""

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
    """`Task.encode_split` of every split, computed by one process of each machine and the same in all of them.

    The others map its files into their memory, so a machine holds the inputs once; the files are gone when all have
    opened them.

    Returns:
        Name → inputs, and what was cut.
    """
    state = PartialState()
    if state.num_processes == 1:
        return {name: task.encode_split(split, tokenizer) for name, split in splits.items()}
    folder = _folder()
    with state.local_main_process_first():
        if state.is_local_main_process:
            shutil.rmtree(folder, ignore_errors=True)  # what a killed run may have left
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
    """A place that the processes of this run on this machine know, and no others that run now."""
    run = "-".join(os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "GROUP_RANK"))
    return Path(tempfile.gettempdir()) / f"bertkit-{os.getuid()}-{run}"


def _read(folder: Path, name: str) -> tuple[Dataset, Truncation]:
    features: Any = load_from_disk(folder / name)
    return features, Truncation(**json.loads((folder / f"{name}.json").read_text()))
