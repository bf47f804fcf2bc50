"""The output folder: finished shards, rejected rows, and the record of the command that fills it.

``command.json``   the command, its settings and its files; a command that differs is refused
``shards.json``    the shards of the files, so that a repeated command does not cut them again
``NAME.jsonl``     or ``.parquet``: the results of a shard; it exists only when it is complete
``rejected/``      for each shard with rows that could not be read: their file, row and reason, one JSON object a line
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bertkit.errors import OutputError
from bertkit.files import check_links, remove_unfinished, write_whole
from bertkit.json_text import dumps
from bertkit.reading.urls import filesystem, is_url
from bertkit.scaling.inputs import InputFile, Shard, described

RECORD, SHARDS, REJECTED = "command.json", "shards.json", "rejected"


@dataclass(frozen=True)
class OutputFolder:
    """A folder by its path, or by a URL of `fsspec`.

    Files of a local or shared folder are written beside and then renamed. Those of a URL are written by one upload,
    which object stores make visible when it is complete.

    Attributes:
        path: path or URL.
        suffix: of the files of results: ``.jsonl`` or ``.parquet``.
    """

    path: str
    suffix: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return filesystem(self.path, f"--output-dir {self.path}")

    @property
    def local(self) -> Path | None:
        """Returns the folder as a path; None for a URL."""
        return None if is_url(self.path) else Path(self.path)

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, or replaces it; a reader sees all of it or nothing.

        Raises:
            OutputError: it cannot be written.
        """
        if self.local is not None:
            path = self.local / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{path.parent}: cannot be created: {error.strerror}") from error
            write_whole(path, content)
            return
        fs, place = self._place
        try:
            fs.makedirs(f"{place}/{name}".rpartition("/")[0], exist_ok=True)
            fs.pipe_file(f"{place}/{name}", content)
        except Exception as error:  # clients of object stores have exceptions of their own
            raise OutputError(f"{self.path}/{name}: cannot be written: {str(error) or type(error).__name__}") from error

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file; None if it does not exist."""
        fs, place = self._place
        try:
            content: bytes = fs.cat_file(f"{place}/{name}")
        except FileNotFoundError:
            return None
        return content

    def names(self) -> set[str]:
        """Returns the names of all files, relative to the folder."""
        fs, place = self._place
        place = place.rstrip("/")
        fs.invalidate_cache()
        return {str(each)[len(place) + 1 :] for each in fs.find(place)}

    def finished(self, shards: Sequence[Shard]) -> dict[Shard, int]:
        """Returns the shards whose results are complete, each with the number of its rejected rows.

        A shard all of whose rows were rejected has no file of results.
        """
        names = self.names()
        found = {}
        for shard in shards:
            is_there = shard.name + self.suffix in names
            rejected = 0
            if f"{REJECTED}/{shard.name}.jsonl" in names:  # written before the results
                rejected = (self.read(f"{REJECTED}/{shard.name}.jsonl") or b"").count(b"\n")
            if is_there or rejected == shard.rows:
                found[shard] = rejected
        return found

    def prepare(self, record: Mapping[str, Any], files: Sequence[InputFile]) -> None:
        """Writes the record of a command, or compares it with the one that is there.

        Raises:
            OutputError: the folder has other files, or belongs to another command; the message names a difference.
        """
        whole = {**record, "files": [[file.relative, file.size, file.stamp] for file in files]}
        if self.local is not None:
            check_links(self.local, f"--output-dir {self.path}")
            if self.local.exists() and not self.local.is_dir():
                raise OutputError(f"--output-dir {self.path}: is a file; give a new folder")
        earlier = self.read(RECORD)
        if earlier is None:
            others = {name for name in self.names() if not name.rsplit("/", 1)[-1].startswith(".")}
            if others:
                raise OutputError(
                    f"--output-dir {self.path}: has other files, such as {min(others)}; give a new or empty folder"
                )
            self.write(RECORD, (dumps(whole, indent=2, ensure_ascii=False) + "\n").encode())
            return
        self.clean()
        try:
            known = json.loads(earlier)
            difference = _difference(known, whole)
        except (ValueError, AttributeError, TypeError) as error:
            raise OutputError(f"{self.path}/{RECORD}: damaged; give another folder") from error
        if difference:
            raise OutputError(
                f"--output-dir {self.path}: holds the results of another command: {difference}; repeat that command, "
                "or give a new folder"
            )

    def clean(self) -> None:
        """Removes the temporary files of workers that were killed."""
        if self.local is not None:
            for folder in {self.local, *(path.parent for path in self.local.rglob("*"))}:
                remove_unfinished(folder)

    def read_shards(self) -> list[Shard] | None:
        """Returns the shards of the first run of the command; None before they are written."""
        content = self.read(SHARDS)
        return None if content is None else [Shard.from_json(each) for each in json.loads(content)]

    def write_shards(self, shards: Sequence[Shard]) -> None:
        """Writes the shards of the command."""
        self.write(SHARDS, dumps(described(shards), ensure_ascii=False).encode())


def _difference(known: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describes the first difference of two records; empty if they are equal."""
    for key, after in now.items():
        before: Any = known.get(key)
        if before == after:
            continue
        if key == "files":
            old, new = {each[0]: each for each in before}, {each[0]: each for each in after}
            changed = next(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
            what = "is new" if changed not in old else "is missing" if changed not in new else "has changed"
            return f"the input {changed} {what}"
        if isinstance(after, Mapping) and isinstance(before, Mapping):
            inner = next(name for name in {**after, **before} if before.get(name) != after.get(name))
            return f"{inner} was {before.get(inner)!r} and is {after.get(inner)!r}"
        return f"{key} was {before!r} and is {after!r}"
    return ""
