"""The output folder: finished shards, rejected rows, and the record of the command that fills it.

``command.json``   the command, its settings and its files; a command that differs is refused
``shards.json``    the shards of the files, so that a repeated command does not cut them again
``finished.json``  size and digest of the results of each finished shard: if they have changed, they are computed again
``NAME.jsonl``     or ``.parquet``: the results of a shard; it exists only when it is complete
``rejected/``      for each shard with rows that could not be read: their file, row and reason, one JSON object a line
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bertkit.features.scaling.inputs import InputFile, Shard
from bertkit.runtime.errors import OutputError
from bertkit.runtime.files import check_links, remove_unfinished, write_whole
from bertkit.runtime.json_text import dumps
from bertkit.runtime.reading.paths import filesystem, is_url, leads_out

RECORD, SHARDS, FINISHED, REJECTED = "command.json", "shards.json", "finished.json", "rejected"
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class FileRecord:
    """Size in bytes and SHA-256 of a file."""

    size: int
    sha256: str

    @staticmethod
    def of(content: bytes) -> FileRecord:
        """Returns the record of a file with this content."""
        return FileRecord(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Finished:
    """A finished shard.

    Attributes:
        rejected: number of its rows that could not be read.
        files: name → record of the file of its results, and of that of its rejected rows, if there are any.
    """

    rejected: int
    files: Mapping[str, FileRecord]

    @staticmethod
    def from_json(described: Mapping[str, Any]) -> Finished:
        """Returns what ``dataclasses.asdict`` described."""
        files = {name: FileRecord(int(each["size"]), str(each["sha256"])) for name, each in described["files"].items()}
        return Finished(int(described["rejected"]), files)


def json_bytes(content: Any, **options: Any) -> bytes:
    """Serializes as JSON in UTF-8; bytes of file names that are not UTF-8 become escapes, which JSON reads back."""
    return dumps(content, ensure_ascii=False, **options).encode("utf-8", "backslashreplace")


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
        """Writes a file, or replaces it; a reader sees all of it or nothing; OutputError if it cannot be written."""
        if self.local is not None:
            path = self.local / name
            if leads_out(path, self.local):
                raise OutputError(f"{path}: a link on this path leads out of the output folder; remove the link")
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
        """Returns the content of a file; None if it does not exist, OutputError if it cannot be read."""
        fs, place = self._place
        try:
            content: bytes = fs.cat_file(f"{place}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:  # clients of object stores have exceptions of their own
            raise OutputError(f"{self.path}/{name}: cannot be read: {str(error) or type(error).__name__}") from error
        return content

    def remove_records(self) -> None:
        """Removes the records of a command that has failed without results; they stay where this is not allowed."""
        with suppress(Exception):  # why the command has failed is to be told, and not this
            names = self._visible()
            if names <= {RECORD, SHARDS, FINISHED}:
                fs, place = self._place
                for name in names:
                    fs.rm_file(f"{place}/{name}")

    def sizes(self) -> dict[str, int]:
        """Returns name, relative to the folder, → bytes of all files; OutputError if they cannot be listed."""
        fs, place = self._place
        place = place.rstrip("/")
        try:
            fs.invalidate_cache()
            found = fs.find(place, detail=True)
        except Exception as error:  # clients of object stores have exceptions of their own
            raise OutputError(f"{self.path}: cannot be listed: {str(error) or type(error).__name__}") from error
        return {str(each)[len(place) + 1 :]: int(info["size"] or 0) for each, info in found.items()}

    def _visible(self) -> set[str]:
        """Returns the names of all files, without locks and unfinished ones."""
        return {name for name in self.sizes() if not name.rsplit("/", 1)[-1].startswith(".")}

    def result_name(self, shard: Shard) -> str:
        """Returns the name of the results of a shard."""
        return shard.name + self.suffix

    def rejected_name(self, shard: Shard) -> str:
        """Returns the name of the rejected rows of a shard; results, whose names have digits before their suffix, have
        no such name in any folder of the input."""
        return f"{REJECTED}/{shard.name}.rejected.jsonl"

    def finished(self, shards: Sequence[Shard], known: Mapping[str, Finished] | None = None) -> dict[Shard, Finished]:
        """Returns the shards whose results are complete and unchanged.

        A shard all of whose rows were rejected has no file of results. Results without a record, those of a run that
        was killed, were complete when they appeared.
        """
        sizes = self.sizes()
        finished = {}
        for shard in shards:
            result, rejection = self.result_name(shard), self.rejected_name(shard)
            stored = {name: sizes[name] for name in (rejection, result) if name in sizes}  # as they were written
            if known and shard.name in known:
                if self._are_unchanged(known[shard.name].files, stored):
                    finished[shard] = known[shard.name]
                continue
            contents = {name: self.read(name) or b"" for name in stored}
            rejected = contents.get(rejection, b"").count(b"\n")  # they are written before the results
            if result in stored or rejected == shard.rows:
                finished[shard] = Finished(rejected, {name: FileRecord.of(each) for name, each in contents.items()})
        return finished

    def _are_unchanged(self, files: Mapping[str, FileRecord], sizes: Mapping[str, int]) -> bool:
        """Returns whether files have their sizes and, unless they would have to be downloaded, their digests."""
        if {name: record.size for name, record in files.items()} != sizes:
            return False
        if self.local is None:
            return True
        for name, record in files.items():
            with (self.local / name).open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != record.sha256:
                    return False
        return True

    def read_finished(self) -> dict[str, Finished]:
        """Returns name → record of the shards that earlier runs of the command have finished.

        Raises:
            OutputError: the record is damaged.
        """
        content = self.read(FINISHED)
        if content is None:
            return {}
        try:
            return {name: Finished.from_json(each) for name, each in json.loads(content).items()}
        except _DAMAGED as error:
            raise OutputError(
                f"{self.path}/{FINISHED}: damaged; remove it if the results are as they were written, or give another "
                "folder"
            ) from error

    def write_finished(self, finished: Mapping[Shard, Finished]) -> None:
        """Writes the record of finished shards, in the order of their names."""
        ordered = sorted(finished, key=lambda shard: shard.name)
        self.write(FINISHED, json_bytes({shard.name: asdict(finished[shard]) for shard in ordered}))

    def prepare(self, record: Mapping[str, Any], files: Sequence[InputFile]) -> bool:
        """Writes the record of a command, or compares it with the one that is there; returns whether it is new.

        Raises:
            OutputError: the folder has other files, belongs to another command, of which the message names a
                difference, or its record is damaged.
        """
        whole = {**record, "files": [[file.relative, file.size, file.stamp] for file in files]}
        if self.local is not None:
            check_links(self.local, f"--output-dir {self.path}")
        earlier = self.read(RECORD)
        if earlier is None:
            others = self._visible()
            if RECORD in others:  # another part of the command has begun since
                return self.prepare(record, files)
            if others:
                raise OutputError(
                    f"--output-dir {self.path}: has other files, such as {min(others)}; give a new or empty folder"
                )
            self.write(RECORD, json_bytes(whole, indent=2) + b"\n")
            return True
        self.clean()
        try:
            known = json.loads(earlier)
            difference = _describe_difference(known, whole)
        except _DAMAGED as error:
            raise OutputError(f"{self.path}/{RECORD}: damaged; give another folder") from error
        if difference:
            raise OutputError(
                f"--output-dir {self.path}: holds the results of another command: {difference}; repeat that command, "
                "or give a new folder"
            )
        return False

    def clean(self) -> None:
        """Removes the temporary files of workers that were killed."""
        if self.local is not None:
            for folder, _, _ in os.walk(self.local):  # unlike rglob, also while another part removes its folder
                remove_unfinished(Path(folder))

    def read_shards(self) -> list[Shard] | None:
        """Returns the shards of the first run of the command; None before they are written.

        Raises:
            OutputError: they are not those that were written.
        """
        content = self.read(SHARDS)
        if content is None:
            return None
        try:
            stored = json.loads(content)
            if hashlib.sha256(json_bytes(stored["shards"])).hexdigest() != stored["sha256"]:
                raise ValueError("changed")
            return [Shard.from_json(each) for each in stored["shards"]]
        except _DAMAGED as error:
            raise OutputError(f"{self.path}/{SHARDS}: damaged; give another folder") from error

    def write_shards(self, shards: Sequence[Shard]) -> None:
        """Writes the shards of the command, with their digest."""
        content = [asdict(shard) for shard in shards]
        self.write(SHARDS, json_bytes({"sha256": hashlib.sha256(json_bytes(content)).hexdigest(), "shards": content}))


def _describe_difference(known: Mapping[str, Any], now: Mapping[str, Any]) -> str:
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
