"""Encoding of splits once per machine: its first process encodes, the others read the result."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset, load_from_disk
from transformers import PreTrainedTokenizerBase

from bertkit.json_text import dumps
from bertkit.placement.launched import SCRATCH_FOLDER
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Split, Truncation


def encode_once(
    task: Task, splits: dict[str, Split], tokenizer: PreTrainedTokenizerBase
) -> dict[str, tuple[Dataset, Truncation]]:
    """Runs `Task.encode_split` on every split in one process per machine, and shares the result with the others.

    The other processes memory-map its files, so a machine holds the inputs once. The files are in a folder that only
    this user can read; they are removed when all processes have opened them, or after an error.

    Returns:
        Split name → inputs and truncation statistics.
    """
    state = PartialState()
    if state.num_processes == 1:
        return {name: task.encode_split(split, tokenizer) for name, split in splits.items()}
    with _private_folder(state) as folder, state.local_main_process_first():
        if state.is_local_main_process:
            for name, split in splits.items():
                features, cut = task.encode_split(split, tokenizer)
                features.save_to_disk(folder / name)
                (folder / f"{name}.json").write_text(dumps(dataclasses.asdict(cut)))
        return {name: _read(folder, name) for name in splits}


@contextmanager
def _private_folder(state: PartialState) -> Iterator[Path]:
    """Creates a temporary folder on each machine, readable by this user only; yields it in all processes there.

    It is removed when all processes of the run have left the block, or after an error.
    """
    # The launcher removes its folder even if this process is killed.
    place = os.environ.get(SCRATCH_FOLDER)
    own = tempfile.mkdtemp(prefix="bertkit-", dir=place) if state.is_local_main_process else None  # mode 0700
    try:
        folders: list[str] = gather_object([own])
        yield Path(folders[state.process_index - state.local_process_index])
        state.wait_for_everyone()
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _read(folder: Path, name: str) -> tuple[Dataset, Truncation]:
    features: Any = load_from_disk(folder / name)
    return features, Truncation(**json.loads((folder / f"{name}.json").read_text()))
