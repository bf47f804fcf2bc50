"""Encoding of splits once per machine, or once for all runs of a grid: one process encodes, the others read it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset, load_from_disk
from datasets.fingerprint import get_temporary_cache_files_directory
from transformers import PreTrainedTokenizerBase

from bertkit.runtime.errors import RecipeError
from bertkit.runtime.files import new_folder, write_json
from bertkit.runtime.json_text import dumps
from bertkit.runtime.placement.launch import SCRATCH_FOLDER
from bertkit.runtime.placement.processes import failing_together, first_on_machine, gathered
from bertkit.runtime.progress import without_library_bars
from bertkit.runtime.version import __version__
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Columns, FineTuningData, Split, Truncation

_ROWS_IN_MEMORY = 200_000  # rows of an encoded split; of 128 tokens they take about 150 MB

USUAL_LENGTH, _LONGEST, _STEP = 128, 512, 64  # tokens

_shared: ContextVar[Path | None] = ContextVar("shared", default=None)


@contextmanager
def sharing_encodings(folder: Path) -> Iterator[None]:
    """Context in which the runs of one process keep their encoded splits in ``folder`` and read those of other runs."""
    token = _shared.set(folder)
    try:
        yield
    finally:
        _shared.reset(token)


def fit_length(task: Task, examples: Columns, tokenizer: PreTrainedTokenizerBase, longest: int) -> FineTuningData:
    """Returns the data settings of a task; if ``max_seq_length`` is 0, with the number of tokens that texts need.

    That is 128, or the length of the longest input, rounded up to a multiple of 64, but at most 512 and ``longest``.
    What longer inputs bring is measured on the novels of `benchmarks/few_rows.py`.

    Args:
        task: the task.
        examples: columns of training examples, of which a thousand are enough.
        tokenizer: of the encoder.
        longest: tokens of an input that the encoder reads, at most.

    Raises:
        RecipeError: another setting, such as ``data.stride``, does not go with this length.
    """
    if task.data.max_seq_length:
        return task.data

    def of_length(length: int) -> FineTuningData:
        try:
            return dataclasses.replace(task.data, max_seq_length=length)
        except ValueError as error:
            raise RecipeError(f"data.{error}; or give --max-seq-length") from error

    limit, measured = min(_LONGEST, longest), task.with_settings()
    measured.data = of_length(limit)
    needed = max(measured.encode(examples, tokenizer)["length"])
    return of_length(min(limit, max(USUAL_LENGTH, _STEP * math.ceil(needed / _STEP))))


def encode_split(task: Task, split: Split, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, Truncation]:
    """Encodes a whole split in batches; also returns its truncation statistics.

    The inputs of a large split are in a temporary file, which ends with the process, and not in memory.
    """

    def encode(rows: Columns, indices: Sequence[int]) -> dict[str, list[Any]]:
        features = task.encode(rows, tokenizer)
        if "example" in features:  # `encode` counts from 0 in each batch
            features["example"] = [indices[example] for example in features["example"]]
        return features

    place: dict[str, Any] = {"keep_in_memory": True}
    if len(split.examples) > _ROWS_IN_MEMORY:  # not in the cache of the library, which keeps its files
        file = Path(get_temporary_cache_files_directory()) / f"encoded-{uuid.uuid4().hex}.arrow"
        place = {"cache_file_name": str(file), "load_from_cache_file": False}
    with without_library_bars():
        features = split.examples.map(
            encode,
            batched=True,
            with_indices=True,
            remove_columns=split.examples.column_names,
            new_fingerprint=uuid.uuid4().hex,  # else a hash of task and tokenizer, for a cache that is not used
            **place,
        )
    kept, full = (features.data.column(name).to_numpy() for name in ("length", "full_length"))
    return features.remove_columns("full_length"), Truncation.of_lengths(kept, full)


def encode_once(
    task: Task, splits: dict[str, Split], tokenizer: PreTrainedTokenizerBase
) -> dict[str, tuple[Dataset, Truncation]]:
    """Runs `encode_split` on every split in one process per machine, and shares the result with the others.

    The other processes memory-map its files, so a machine holds the inputs once. The files are in a folder that only
    this user can read; they are removed when all processes have opened them, or after an error. A run of a single
    process reads what another one has encoded, see `sharing_encodings`.
    """
    state, shared = PartialState(), _shared.get()
    if state.num_processes > 1:
        with _private_folder(state) as folder, first_on_machine():
            if state.is_local_main_process:
                for name, split in splits.items():
                    _write(folder, name, *encode_split(task, split, tokenizer))
            return {name: _read(folder, name) for name in splits}
    if shared is None:
        return {name: encode_split(task, split, tokenizer) for name, split in splits.items()}
    encoded = {}
    # Before any text is encoded, which changes the truncation in it: a run that encodes has the keys of one that reads.
    of_tokenizer = [tokenizer.backend_tokenizer.to_str(), sorted(map(str, tokenizer.special_tokens_map.items()))]
    for name, split in splits.items():
        known_by: list[Any] = [__version__, task.kind, dataclasses.asdict(task.settings), dataclasses.asdict(task.data)]
        known_by += [name, split.source, split.fingerprint, len(split.examples), *of_tokenizer]
        folder = shared / hashlib.sha256(dumps(known_by).encode()).hexdigest()[:16]
        if not folder.is_dir():
            with new_folder(folder, is_there=folder.is_dir) as draft:
                _write(draft, name, *encode_split(task, split, tokenizer))
        encoded[name] = _read(folder, name)
    return encoded


@contextmanager
def _private_folder(state: PartialState) -> Iterator[Path]:
    """Creates a temporary folder on each machine, readable by this user only; yields it in all processes there.

    It is removed when all processes of the run have left the block, or after an error.
    """
    # The launcher removes its folder even if this process is killed.
    place = os.environ.get(SCRATCH_FOLDER)
    own: list[str] = []

    def create() -> str | None:
        own.extend([tempfile.mkdtemp(prefix="bertkit-", dir=place)] if state.is_local_main_process else [])  # mode 0700
        return own[0] if own else None

    try:
        folders = gathered(create, prepares=True)
        with failing_together(prepares=True):
            yield Path(str(folders[state.process_index - state.local_process_index]))
    finally:
        for folder in own:
            shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, name: str, features: Dataset, cut: Truncation) -> None:
    with without_library_bars():
        features.save_to_disk(folder / name)
    write_json(folder / f"{name}.json", dataclasses.asdict(cut))


def _read(folder: Path, name: str) -> tuple[Dataset, Truncation]:
    features: Any = load_from_disk(folder / name)
    return features, Truncation(**json.loads((folder / f"{name}.json").read_text()))
