"""Units of a corpus that is built: text whose parts one worker writes, and what the workers share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bertkit.data.corpus.documents import DocumentForm
    from bertkit.data.corpus.settings import DocumentFilter
    from bertkit.data.corpus.sources import Source
    from bertkit.data.corpus.store.encoding import SentenceEncoder


class Unit(NamedTuple):
    """Consecutive text of a corpus, whose parts one worker writes.

    Attributes:
        number: place in the corpus, from 0.
        sources: files, and ranges of them.
        key: 16 hexadecimal digits of the text and of how it becomes parts.
        size: bytes of text.
    """

    number: int
    sources: list[Source]
    key: str
    size: int

    def record(self, work: Path, kind: str) -> Path:
        """Returns the path of a record, which exists when ``kind`` is complete: ``unit`` or ``digests``."""
        return work / f"{kind}-{self.number:06}-{self.key}.json"


@dataclass(frozen=True)
class Job:
    """Settings and folder that the workers of a build share.

    Attributes:
        work: folder of the parts.
        form: rules that split text into documents.
        encode: paragraphs → tokens.
        chosen: documents to keep.
        left_out: unit → numbers of its documents that repeat an earlier one.
    """

    work: Path
    form: DocumentForm
    encode: SentenceEncoder
    chosen: DocumentFilter
    left_out: dict[int, frozenset[int]] = field(default_factory=dict)
