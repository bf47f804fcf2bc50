"""Rules on the corpus of pre-training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from bertkit.data.corpus.store.token_store import StoreView
from bertkit.features.checks.findings import Finding, note, rule, warning
from bertkit.features.checks.subject import Subject
from bertkit.runtime.files import readable_size
from bertkit.runtime.progress import counted, inflected

_FEW_DOCUMENTS = 100
_TINY, _REPEATED = 0.1, 0.01  # shares of documents


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
        number, about = round(subject.sample.estimate_documents(documents) * number / documents), "about "
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
        is_drawn = subject.recipe.task.pair_objective == "nsp"
        yield warning(
            "data.corpus",
            f"{repeated:,} of {len(view.documents):,} documents{_of_sample(subject)} "
            f"{inflected(repeated, 'repeats', 'repeat')} the tokens of another document",
            "leave repeated documents out, as `bertkit corpus build --deduplicate exact` does where texts are equal: "
            f"the model memorizes them{', and a document can be its own random next sentence' if is_drawn else ''}",
        )
