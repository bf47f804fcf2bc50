"""Rules on the corpus of pre-training, and the sample of a large one, so that its check does not take the time of its
tokenization."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.sources import Source
from bertkit.data.corpus.store.token_store import StoreView
from bertkit.features.checks.findings import Finding, note, rule, warning
from bertkit.features.checks.subject import Subject
from bertkit.runtime.files import readable_size
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, inflected

_Item = TypeVar("_Item")
SAMPLED_BYTES = 8 << 20
_PART = 1 << 20  # bytes; files are read in blocks of this size
_FEW_DOCUMENTS = 100
_TINY, _REPEATED = 0.1, 0.01  # shares of documents


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

    def documents(self, number: int) -> int:
        """Estimates the number of documents of the corpus from the number in the sample.

        One document of each beginning is cut off, and a source has at least one document.
        """
        return round((number - len(self.sources)) / self.share) + self.num_sources


def sample(sources: Sequence[Source]) -> Sample | None:
    """Selects parts of 1 MiB at equal distances of a corpus, each from the beginning of a source.

    A source on which several parts fall is read further.

    Returns:
        The sample; None for a corpus of at most `SAMPLED_BYTES`, or of unknown size.
    """
    if any(source.size is None for source in sources):
        return None
    sizes = [source.size or 0 for source in sources]
    total = sum(sizes)
    if total <= SAMPLED_BYTES:
        return None
    parts = max(1, SAMPLED_BYTES // _PART)
    ends = np.cumsum(sizes)
    at = (np.arange(parts) + 0.5) * (total / parts)
    parts_of_source = Counter(np.searchsorted(ends, at, side="right").tolist())
    if len(parts_of_source) == 1 and len(sizes) > 1:  # next sentence prediction needs several documents
        parts_of_source[max(set(range(len(sizes))) - set(parts_of_source), key=sizes.__getitem__)] = 1
    lengths = {number: min(count * _PART, sizes[number]) for number, count in sorted(parts_of_source.items())}
    beginnings: list[Source] = [_Beginning(sources[number], length) for number, length in lengths.items()]
    return Sample(beginnings, sum(lengths.values()), total, len(sources))


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


def _store(subject: Subject) -> StoreView | None:
    """Returns the training documents; ``None`` for a stream, whose documents are not known in advance."""
    train = subject.corpora.train
    return train if isinstance(train, StoreView) else None


def _of_sample(subject: Subject) -> str:
    return "" if subject.sample is None else " of a sample"


@rule("sample", "sample")
def only_a_sample(subject: Subject) -> Iterator[Finding]:
    """Notes that only a part of the corpus was read."""
    parts = subject.sample
    assert parts is not None
    yield note(
        "data.corpus",
        f"{readable_size(parts.read_bytes)} of {readable_size(parts.total_bytes)} were read, parts of "
        f"{len(parts.sources):,} of {parts.num_sources:,} sources: the numbers of examples, the steps of an epoch and "
        "the size of the tokenized corpus are estimates, and faults in the rest of the text are not found",
        "nothing; `bertkit corpus build` reads the whole text and reports its faults",
    )


@rule("few-documents", "corpora")
def few_documents(subject: Subject) -> Iterator[Finding]:
    """Finds corpora with too few documents for next sentence prediction."""
    view = _store(subject)
    if view is None or subject.recipe.task.pair_objective != "nsp":
        return
    number, about = len(view.documents), ""
    if subject.sample is not None:
        documents = subject.corpora.facts["documents"]
        number, about = round(subject.sample.documents(documents) * number / documents), "about "
    if number >= _FEW_DOCUMENTS:
        return
    yield warning(
        "data.corpus",
        f"{about}{counted(number, 'training document')}; random next sentences come from other documents, so with "
        f"fewer than {_FEW_DOCUMENTS} the model learns to recognize single documents",
        "separate the documents of a file (--document-separator blank-line, --sentence-per-line), add text, or set "
        "--pair-objective none",
    )


@rule("tiny-documents", "corpora")
def tiny_documents(subject: Subject) -> Iterator[Finding]:
    """Finds corpora in which many documents have one sentence, which no sentence follows."""
    view = _store(subject)
    if view is None or subject.recipe.task.pair_objective == "none":
        return
    sentences = view.sentences_of_documents()
    tiny = int((sentences == 1).sum())
    if tiny > _TINY * len(sentences):
        yield warning(
            "data.corpus",
            f"{tiny:,} of {len(sentences):,} documents{_of_sample(subject)} ({100 * tiny / len(sentences):.1f} %) "
            f"{inflected(tiny, 'has', 'have')} one sentence, which no other follows",
            "join the parts of a document, check --document-separator, or set --pair-objective none",
        )


@rule("repeated-documents", "corpora")
def repeated_documents(subject: Subject) -> Iterator[Finding]:
    """Finds documents that occur several times."""
    view = _store(subject)
    if view is None:
        return
    begins, ends = view.store.token_bounds(view.documents)
    digests = {
        hashlib.blake2b(view.store.tokens[begin:end].tobytes(), digest_size=16).digest()
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    }
    repeated = len(view.documents) - len(digests)
    if repeated > _REPEATED * len(view.documents):
        yield warning(
            "data.corpus",
            f"{repeated:,} of {len(view.documents):,} documents{_of_sample(subject)} "
            f"{inflected(repeated, 'repeats', 'repeat')} the tokens of another document",
            "remove repeated documents: the model memorizes them, and a document can be its own random next sentence",
        )
