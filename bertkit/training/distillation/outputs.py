"""The outputs of a teacher for a training set, computed once and kept on disk.

The rows are divided into parts. A part is a folder whose name is a digest of the teacher and of its encoded inputs, and
which appears when it is complete. So runs with the same teacher and the same inputs share it, and a run that was killed
continues with the parts that are missing. The arrays are memory-mapped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from huggingface_hub import constants
from torch import Tensor

from bertkit.errors import DataError
from bertkit.files import new_folder, readable_size
from bertkit.json_text import dumps
from bertkit.placement.collective import failing_together
from bertkit.progress import Bar, say
from bertkit.training.distillation.teacher import Teacher

_ROWS = 1024  # of a part
_FORM = 1  # version of the files
_ENDS = "ends.npy"
ROW = "teacher_row"
"""Column of a training set with the number of each row."""


def cache_folder() -> Path:
    """Returns the folder of the outputs of teachers: ``bertkit/teachers`` in the Hugging Face home (``HF_HOME``)."""
    return Path(constants.HF_HOME) / "bertkit" / "teachers"


class TeacherOutputs:
    """Outputs of a teacher for the rows of a training set.

    Args:
        teacher: the teacher.
        features: N encoded rows.
        folder: folder of the parts; created when needed.
    """

    def __init__(self, teacher: Teacher, features: Any, folder: Path):
        self._teacher: Teacher | None = teacher
        self._features, self._folder, self._labels = features, folder, set(teacher.task.label_columns)
        self._parts: list[Path] = []
        self._opened: dict[int, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for a data worker, which maps the files itself and does not compute."""
        return {**self.__dict__, "_opened": {}, "_features": None, "_teacher": None}

    def compute(self) -> None:
        """Computes the parts that are not on disk; the processes of a machine share the work.

        Raises:
            CheckpointError: an output is not finite.
            OutputError: the disk is full or read-only.
        """
        teacher, state = self._given_teacher, PartialState()
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        starts = range(0, len(self._features), _ROWS)
        parts = [self._folder / self._key(start) for start in starts]
        missing = [number for number, part in enumerate(parts) if not part.is_dir()]
        with failing_together(prepares=True):  # a part takes minutes
            if missing:
                rows = len(self._features)
                found = len(parts) - len(missing)
                known = f", {found} of {len(parts)} parts are there" if found else ""
                say(f"outputs of the teacher {teacher.name} for {rows:,} rows: {self._size()} in {self._folder}{known}")
                with Bar("teacher", "rows") as progress:
                    for number in missing:
                        if number % processes != state.local_process_index % processes:
                            continue
                        first = starts[number]

                        def reached(done: int, of: int, first: int = first) -> None:
                            progress(first + done, rows)

                        self._write(parts[number], teacher.compute(self._rows(first), reached))
            else:
                say(f"outputs of the teacher {teacher.name}: read from {self._folder}")
        self._parts = parts
        teacher.release()

    def batch(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Returns the outputs for B rows by name, (B, …), padded with NaN to the longest; computed if not on disk."""
        if self._parts:
            found = [self._read(row) for row in rows]
        else:
            found = self._given_teacher.compute([self._features[row] for row in rows])
        return {name: padded([each[name] for each in found]) for name in found[0]}

    @property
    def _given_teacher(self) -> Teacher:
        assert self._teacher is not None
        return self._teacher

    def _rows(self, start: int) -> list[dict[str, Any]]:
        block = self._features[start : start + _ROWS]
        return [dict(zip(block, values, strict=True)) for values in zip(*block.values(), strict=True)]

    def _size(self) -> str:
        """Returns the size of all outputs, estimated from the first rows."""
        sample = self._given_teacher.compute([self._features[row] for row in range(min(8, len(self._features)))])
        size = sum(values.nbytes for each in sample for values in each.values())
        return f"about {readable_size(size * len(self._features) // len(sample))}"

    def _key(self, start: int) -> str:
        """Returns the name of a part: the digest of the teacher and of the columns of its rows, without labels."""
        found = hashlib.sha256(dumps([_FORM, self._given_teacher.digest]).encode())
        table = self._features.with_format("arrow")[start : start + _ROWS]
        for name in sorted(set(table.column_names) - {*self._labels, ROW}):
            found.update(name.encode())
            for block in _buffers(table.column(name).combine_chunks()):
                found.update(block)
        return found.hexdigest()[:40]

    def _write(self, part: Path, outputs: Sequence[Mapping[str, np.ndarray]]) -> None:
        with new_folder(part, is_there=part.is_dir) as draft:
            ends = {}
            for name in sorted(outputs[0]):
                arrays = [each[name] for each in outputs]
                ends[name] = np.cumsum([len(array) for array in arrays])
                np.save(draft / f"{name}.npy", np.concatenate(arrays))
            np.save(draft / _ENDS, np.stack(list(ends.values())))

    def _read(self, row: int) -> dict[str, np.ndarray]:
        number, place = divmod(row, _ROWS)
        if number not in self._opened:
            self._opened[number] = self._open(self._parts[number])
        values, ends = self._opened[number]
        start = {name: int(each[place - 1]) if place else 0 for name, each in ends.items()}
        return {name: each[start[name] : int(ends[name][place])] for name, each in values.items()}

    @staticmethod
    def _open(part: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        try:
            names = sorted(path.stem for path in part.glob("*.npy") if path.name != _ENDS)
            values = {name: np.load(part / f"{name}.npy", mmap_mode="r") for name in names}
            return values, dict(zip(names, np.load(part / _ENDS), strict=True))
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{part}: outputs of a teacher that cannot be read ({error}); remove the folder") from error


def padded(arrays: Sequence[np.ndarray]) -> Tensor:
    """Stacks B arrays (L, …) of a floating-point type into one tensor, padded with NaN to the longest.

    >>> padded([np.float32([1, 2]), np.float32([3])])
    tensor([[1., 2.],
            [3., nan]])
    """
    whole = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), np.nan, arrays[0].dtype)
    for row, array in zip(whole, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(whole)


def _buffers(column: Any) -> Iterator[bytes]:
    """Yields the content of an Arrow array, with the lengths of its lists on every level."""
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.concat_arrays(column.chunks)
    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        yield column.value_lengths().to_numpy(zero_copy_only=False).tobytes()
        column = column.flatten()
    if pyarrow.types.is_primitive(column.type):
        yield column.to_numpy(zero_copy_only=False).tobytes()
    else:
        yield dumps(column.to_pylist()).encode()
