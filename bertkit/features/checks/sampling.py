"""The sample of a large corpus, so that its check does not take the time of its tokenization."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.sources import Source
from bertkit.runtime.json_text import dumps

_Item = TypeVar("_Item")
SAMPLED_BYTES = 8 << 20
_PART = 1 << 20  # bytes; files are read in blocks of this size


@dataclass(frozen=True)
class Sample:
    """The beginnings of some sources of a corpus.

    Attributes:
        sources: the beginnings.
        read_bytes, total_bytes: sizes of the beginnings and of the corpus on disk.
        num_sources: number of sources of the corpus.
    """

    sources: list[Source]
    read_bytes: int
    total_bytes: int
    num_sources: int

    @property
    def share(self) -> float:
        """Share of the corpus that is read, above 0 and below 1."""
        return self.read_bytes / self.total_bytes

    def estimate_documents(self, number: int) -> int:
        """Estimates the number of documents of the corpus from the number in the sample.

        One document of each beginning is cut off, and a source has at least one document.
        """
        return round((number - len(self.sources)) / self.share) + self.num_sources


class _Beginning(Source):
    """The text of the first bytes of a source.

    Args:
        source: the source.
        size: number of bytes on disk.
    """

    def __init__(self, source: Source, size: int):
        self._source = source
        self.name, self.size, self.revision = source.name, size, source.revision
        self.has_rows = source.has_rows  # type: ignore[misc]

    @property
    def position(self) -> int:  # type: ignore[override]
        return min(self._source.position, self.size or 0)

    def fingerprint(self) -> str:
        """Returns a digest of the name and the size, since a file is not read as a whole."""
        return hashlib.sha256(dumps(["beginning", self.name, self.size]).encode()).hexdigest()

    def paragraphs(self, form: DocumentForm) -> Iterator[Paragraph]:
        return self._first(self._source.paragraphs(form))

    def lines(self) -> Iterator[str]:
        return self._first(self._source.lines())

    def _first(self, items: Iterator[_Item]) -> Iterator[_Item]:
        for number, item in enumerate(items):
            if number and self._source.position > (self.size or 0):
                return
            yield item


def sample(sources: Sequence[Source]) -> Sample | None:
    """Selects parts of 1 MiB at equal distances of a corpus, each from the beginning of a source.

    A source on which several parts fall is read further.

    Returns:
        The sample; None for a corpus of at most `SAMPLED_BYTES`, of unknown size, or of which it would be all.
    """
    if any(source.size is None for source in sources):
        return None
    sizes = [source.size or 0 for source in sources]
    total = sum(sizes)
    if total <= SAMPLED_BYTES:
        return None
    parts = SAMPLED_BYTES // _PART
    ends = np.cumsum(sizes)
    at = (np.arange(parts) + 0.5) * (total / parts)
    parts_of_source = Counter(np.searchsorted(ends, at, side="right").tolist())
    if len(parts_of_source) == 1 and len(sizes) > 1:  # next sentence prediction needs several documents
        parts_of_source[max(set(range(len(sizes))) - set(parts_of_source), key=sizes.__getitem__)] = 1
    lengths = {number: min(count * _PART, sizes[number]) for number, count in sorted(parts_of_source.items())}
    beginnings: list[Source] = [_Beginning(sources[number], length) for number, length in lengths.items()]
    read = sum(lengths.values())
    return None if read == total else Sample(beginnings, read, total, len(sources))
