"""Paths, patterns and Hub ids → sources of text, each read incrementally.

Memory grows with the longest line or row of a source, not with its size. Hub data sets are downloaded or streamed by
the ``datasets`` library, which holds up to one Parquet file of a data set at a time.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from bertkit.data.corpus.documents import DocumentForm, Paragraph, file_paragraphs, row_paragraphs
from bertkit.data.reading.hub_sets import find_set, load_set, may_be_hub_id, unreadable
from bertkit.data.reading.row_files import arrow_texts, json_texts, parquet_texts, rows_of_groups
from bertkit.runtime.errors import DataError, listed, noted
from bertkit.runtime.files import disk_faults
from bertkit.runtime.json_text import dumps
from bertkit.runtime.options import several
from bertkit.runtime.reading.paths import FORMS_IN_WORDS, JSON_LINES, PARQUET, FileKind, file_kind, find_files
from bertkit.runtime.reading.text import decode_lines, document_boundary, iterating, read_blocks, read_range

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder, IterableDataset

logger = logging.getLogger(__name__)

_HUB_BATCH_ROWS = 64


class Source(ABC):
    """Abstract base of text that can be read any number of times, each time from its start.

    Attributes:
        name: name in messages: the path or the Hub id.
        size: size on disk in bytes, of the compressed file if it is compressed; of a Hub data set that of its column of
            text, None if it is streamed.
        position: approximate number of these bytes that the current pass has read, for progress bars; 0 throughout a
            range of lines.
        has_rows: True if every row is a document, False if documents consist of the lines of a file.
        revision: commit of a Hub data set; None for files.
    """

    name: str
    size: int | None
    position: int
    has_rows: ClassVar[bool] = False
    revision: str | None = None

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hexadecimal digest of what identifies the content and of how it is read, without reading it.

        Of a file these are its path, its size and the time of its last change; of a Hub data set its commit.
        """

    def ranges(self, form: DocumentForm, size: int) -> list[Source]:
        """Divides the source into sources of about ``size`` bytes with whole documents, which are read independently.

        Returns:
            Sources whose documents, one after the other, are those of this source; only this source if it cannot be
            divided, as a compressed file. They are for `paragraphs`: of a text file, each has all its `lines`.
        """
        return [self]

    def whole(self) -> Source:
        """Returns the file of which this source is a range; itself if it is none, as a range of a Hub data set."""
        return self

    @abstractmethod
    def paragraphs(self, form: DocumentForm) -> Iterator[Paragraph]:
        """Yields the paragraphs of the documents in order, as described in `DocumentForm`.

        Raises:
            DataError: the content cannot be read or does not have the format that its name indicates; the message
                gives file, position and remedy. Paragraphs before the error may have been yielded.
        """

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yields the lines that are not blank, in order, stripped at both ends, to train a vocabulary on.

        Raises:
            DataError: as `paragraphs`.
        """


class TextLines:
    """Iterable over the lines of several sources, read again at every iteration, to train a vocabulary on."""

    def __init__(self, sources: Sequence[Source]):
        self.sources = list(sources)

    def __iter__(self) -> Iterator[str]:
        for source in self.sources:
            yield from source.lines()


def find_sources(
    given: str | Path | Sequence[str | Path],
    *,
    text_column: str = "text",
    dataset_config: str | None = None,
    dataset_split: str = "train",
    streaming: bool = False,
) -> list[Source]:
    """Finds the sources that ``given`` names and returns them in a fixed order, each once.

    An existing path is a file, or a folder, which stands for the files below it; otherwise a pattern such as
    ``texts/**/*.txt`` stands for its matches; otherwise a name that does not look like a path is the id of a data set
    on the Hub, which is downloaded by this call unless it is streamed or in the cache. Files are ``.txt``, ``.jsonl``
    or ``.parquet``, each also compressed as ``.gz`` or ``.zst``.

    A source that is named twice is used once: a duplicate could provide a text as its own "random" next segment.

    Args:
        given: paths, patterns and Hub ids.
        text_column: column or key of the text in row formats.
        dataset_config: configuration of the Hub data sets; None for the only or the default one.
        dataset_split: split of the Hub data sets, or an expression such as ``train[:1%]``.
        streaming: stream Hub data sets over the network in every pass instead of storing them on disk.

    Raises:
        DataError: ``given`` is empty; a source does not exist, has an unsupported format or lacks the column; or an
            argument does not apply to these sources. One message lists all errors; the columns of files are checked
            only when the files are read.
    """
    if not given:
        raise DataError(
            f"no text was given; expected {FORMS_IN_WORDS} files, folders that contain such files, or Hub ids"
        )
    faults: list[str] = []
    found: dict[str, Source] = {}
    repeated: list[str] = []
    for item in map(str, several(given)):
        here: list[tuple[str, Source]] = []
        if may_be_hub_id(item) and not os.path.exists(item):
            with noted(faults):
                here = [(item, _HubSet(item, text_column, dataset_config, dataset_split, streaming))]
        else:
            here = [(str(file.resolve()), _file_source(file, text_column)) for file in find_files(item, faults)]
        for key, source in here:
            if key in found:
                repeated.append(source.name)
            else:
                found[key] = source
    if not faults:  # what is missing could be such a source
        is_of_hub = any(isinstance(source, _HubSet) for source in found.values())
        for name, value, usual in (("config", dataset_config, None), ("split", dataset_split, "train")):
            if value != usual and not is_of_hub:
                faults.append(f"dataset_{name}: {value!r} is for a Hub data set, and none was given; remove it")
        if text_column != "text" and not any(source.has_rows for source in found.values()):
            faults.append(f"text_column: {text_column!r} is for rows, and this corpus has none; remove it")
    if not faults:  # no download if the call fails anyway
        for source in found.values():
            if isinstance(source, _HubSet):
                with noted(faults):
                    source.load()
    if faults:
        raise DataError(listed(faults))
    if repeated:
        logger.warning("given more than once, used once: %s", ", ".join(dict.fromkeys(repeated)))
    return list(found.values())


def _file_source(path: Path, text_column: str) -> Source:
    kind = file_kind(path.name)
    assert kind is not None
    if kind.form == JSON_LINES:
        return _JsonLinesFile(path, kind, text_column)
    if kind.form == PARQUET:
        return _ParquetFile(path, kind, text_column)
    return _TextFile(path, kind)


class _File(Source):
    """Base of file sources; ``text_column`` is empty for files without columns."""

    def __init__(self, path: Path, kind: FileKind, text_column: str = ""):
        self.path = path
        self.kind = kind
        self.text_column = text_column
        self.name = str(path)
        status = path.stat()
        self.size: int = status.st_size
        self._changed = status.st_mtime_ns
        self._range: tuple[int, int] | None = None
        self.position = 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "path": self.path.absolute()}  # workers of Ray have other working folders

    def fingerprint(self) -> str:
        read_as = [str(self.path.resolve()), self.size, self._changed, self._range, *self.kind, self.text_column]
        return hashlib.sha256(dumps(read_as).encode()).hexdigest()

    def _decode(self) -> Iterator[str]:
        self.position = 0
        return decode_lines(read_blocks(self.path, self.kind.compression, self._reach), self.name)

    def whole(self) -> Source:
        return self if self._range is None else _file_source(self.path, self.text_column)

    def _divide(self, size: int) -> list[Source]:
        """Returns copies of this source that are ranges of its bytes; their ends are moved to the ends of documents
        when they are read."""
        starts = range(0, self.size, size)
        return [self._part(start, end, end - start) for start, end in pairwise([*starts, self.size])]

    def _part(self, start: int, end: int, size: int) -> Source:
        part = copy.copy(self)
        part._range = start, end
        part.size, part.position = size, 0
        return part

    def _decode_range(self, is_boundary: Callable[[str], bool] | None) -> Iterator[str]:
        """Yields the lines of `_range` after moving its ends.

        Args:
            is_boundary: whether a stripped line separates two documents; with None each line is a document.
        """
        assert self._range is not None
        start, end = (document_boundary(self.path, place, is_boundary) for place in self._range)
        return decode_lines(read_range(self.path, start, end), self.name, start)

    def _reach(self, position: float) -> None:
        self.position = int(position)


class _TextFile(_File):
    def paragraphs(self, form: DocumentForm) -> Iterator[Paragraph]:
        if self._range is None:
            return file_paragraphs(self._decode(), form)
        return file_paragraphs(self._decode_range(form.parts_documents), form)

    def ranges(self, form: DocumentForm, size: int) -> list[Source]:
        is_divisible = not self.kind.compression and (form.sentence_per_line or form.document_separator is not None)
        return self._divide(size) if is_divisible and self.size > size else [self]

    def lines(self) -> Iterator[str]:
        with iterating(self._decode()) as lines:
            yield from filter(None, map(str.strip, lines))


class _Rows(Source):
    """Base of row sources; each row is a document."""

    has_rows = True

    @abstractmethod
    def texts(self) -> Iterator[str]:
        """Yields the texts of the rows that are not empty."""

    def paragraphs(self, form: DocumentForm) -> Iterator[Paragraph]:
        with iterating(self.texts()) as texts:
            for text in texts:
                yield from row_paragraphs(text, form)

    def lines(self) -> Iterator[str]:
        per_line = DocumentForm(sentence_per_line=True)
        with iterating(self.paragraphs(per_line)) as paragraphs:
            for paragraph in paragraphs:
                yield paragraph.text


class _JsonLinesFile(_File, _Rows):
    def texts(self) -> Iterator[str]:
        lines = self._decode() if self._range is None else self._decode_range(None)
        return json_texts(lines, self.text_column, self.name)

    def ranges(self, form: DocumentForm, size: int) -> list[Source]:
        return self._divide(size) if not self.kind.compression and self.size > size else [self]


class _ParquetFile(_File, _Rows):
    """A Parquet file; its range is of row groups."""

    def texts(self) -> Iterator[str]:
        self.position = 0
        if not self.kind.compression:
            yield from self._texts_in(self.path)
            return
        with tempfile.TemporaryFile(prefix="bertkit-") as unpacked:  # Parquet is read from its end
            blocks = read_blocks(self.path, self.kind.compression, lambda position: None)
            with disk_faults(Path(tempfile.gettempdir())), iterating(blocks) as remaining:
                unpacked.writelines(remaining)
            yield from self._texts_in(unpacked)

    def _texts_in(self, file: Path | IO[bytes]) -> Iterator[str]:
        return parquet_texts(
            file, self.text_column, self.name, lambda share: self._reach(share * self.size), self._range
        )

    def ranges(self, form: DocumentForm, size: int) -> list[Source]:
        if self.kind.compression or self.size <= size:
            return [self]
        ends = [0, *accumulate(rows_of_groups(self.path, self.name))]  # rows before each group, and in all
        parts, first = list[Source](), 0
        for group in range(1, len(ends)):
            share = self.size * (ends[group] - ends[first]) // max(1, ends[-1])
            if share >= size or group == len(ends) - 1:
                parts.append(self._part(first, group, share))
                first = group
        return parts if len(parts) > 1 else [self]


class _HubSet(_Rows):
    """Split of a Hub data set at a fixed commit; its rows are available after `load`."""

    def __init__(self, hub_id: str, text_column: str, config: str | None, split: str, streaming: bool):
        self.name = hub_id
        self.text_column = text_column
        self.split = split
        self.streaming = streaming
        self.size = None
        self.position = 0
        self._range: tuple[int, int] | None = None
        self._builder: DatasetBuilder = find_set(hub_id, config, split)
        self.revision = self._builder.hash
        self._rows: Dataset | IterableDataset | None = None

    def load(self) -> None:
        """Downloads the rows, or opens the stream."""
        self._rows = load_set(self._builder, self.name, self.split, self.text_column, self.streaming)
        self.size = None if self.streaming else self._rows.data.nbytes

    def fingerprint(self) -> str:
        """Returns a SHA-256 of commit, configuration, split and column, the same for streamed and downloaded data.

        The fingerprint of the ``datasets`` library is not used: it depends on the cache folder, not on the column.
        """
        read_as = [self._builder.hash, self._builder.config.name, self.split, self.text_column, *(self._range or ())]
        return hashlib.sha256(dumps(read_as).encode()).hexdigest()

    def texts(self) -> Iterator[str]:
        assert self._rows is not None, "call load first"
        self.position = done = 0
        first = self._range[0] if self._range else 0
        batches = iter(self._rows.with_format("arrow").iter(_HUB_BATCH_ROWS))
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # network libraries raise many types
                raise unreadable(self.name, error) from error
            if batch is None:
                return
            yield from arrow_texts(batch[self.text_column], self.text_column, self.name, first + done)
            done += batch.num_rows
            if self.size is not None:
                self.position = self.size * done // self._rows.num_rows

    def ranges(self, form: DocumentForm, size: int) -> list[Source]:
        if self.streaming or self._rows is None or not self.size or self.size <= size:
            return [self]
        rows, parts = len(self._rows), -(-self.size // size)
        sources: list[Source] = []
        for start, end in pairwise(sorted({rows * number // parts for number in range(parts + 1)})):
            part = copy.copy(self)
            part._range, part._rows = (start, end), self._rows.select(range(start, end))
            part.size = self.size * (end - start) // rows
            sources.append(part)
        return sources
