"""Documents that a store leaves out."""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from bertkit.data.corpus.documents import Paragraph
from bertkit.data.corpus.settings import DocumentFilter
from bertkit.data.corpus.store.encoding import EncodedBatch
from bertkit.data.corpus.store.filters import (
    document_digests,
    grams,
    repeated_documents,
    without_documents,
    without_short,
)
from bertkit.runtime.errors import DataError, RecipeError
from tests.data.corpus.conftest import build


def documents_of(batches) -> list[list[int]]:
    """Sentence lengths of the documents, read as a store reads them."""
    found: dict[int, list[int]] = {}
    before = 0
    for batch in batches:
        assert len(batch.tokens) == batch.lengths.sum()
        for length, document in zip(batch.lengths.tolist(), batch.documents.tolist(), strict=True):
            found.setdefault(before + document, []).append(length)
        before += batch.num_documents
    return list(found.values())


def repeated(paragraphs: list[Paragraph], rule) -> frozenset[int]:
    """Documents that repeat an earlier one, of a text in one piece."""
    [left_out] = repeated_documents([document_digests(paragraphs, rule).tobytes()], rule)
    return left_out


@pytest.mark.parametrize("least", [1, 2, 5, 9, 1000])
def test_short_documents_are_left_out_wherever_batches_end(least):
    rng = np.random.default_rng(least)
    batches = []
    for _ in range(200):
        number = int(rng.integers(0, 4))
        documents = np.sort(rng.integers(0, number + 1, size=int(rng.integers(0, 6))))
        lengths = rng.integers(1, 5, size=len(documents))
        batches.append(EncodedBatch(np.arange(lengths.sum()), lengths, documents, number, 0))
    expected = [lengths for lengths in documents_of(batches) if sum(lengths) >= least]
    assert documents_of(without_short((batch for batch in batches), least)) == expected


def test_equal_documents_occur_once(corpus):
    texts = ["t1 t2\nt3", "t4", "t1 t2\nt3", "t1 t2", "t4", "t4"]
    store = build(corpus, corpus.write(one="\n\n".join(texts)), chosen=DocumentFilter(deduplicate="exact"))
    assert store.tokens.tolist() == [6, 7, 8, 9, 6, 7]
    assert store.metadata["filters"] == {"deduplicate": "exact"}


def test_paragraphs_are_not_documents():
    one = [Paragraph("a", True), Paragraph("b", False), Paragraph("ab", True), Paragraph("a", True)]
    assert repeated([*one, Paragraph("b", False)], "exact") == {2}
    assert list(without_documents(one, frozenset([0, 2]))) == [Paragraph("ab", True)]


@pytest.mark.skipif(find_spec("datasketch") is None, reason="needs datasketch")
def test_near_duplicates_are_left_out():
    text = " ".join(f"word{number} follows" for number in range(60))
    texts = [text, text.replace("word7 ", "another "), " ".join(f"other {number} text" for number in range(60)), text]
    assert repeated([Paragraph(each, True) for each in texts], "minhash") == {1, 3}


@pytest.mark.skipif(find_spec("datasketch") is None, reason="needs datasketch")
def test_most_near_duplicates_are_found():
    """Of copies with replaced words, those well above the similarity of 0.8 are found and those well below are not."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=6)) for _ in range(2000)]
    texts = [rng.choices(words, k=60) for _ in range(200)]
    copies = [
        [rng.choice(words) if rng.random() < row / 1000 else word for word in text] for row, text in enumerate(texts)
    ]
    joined = [" ".join(text) for text in [*texts, *copies]]
    left_out = repeated([Paragraph(text, True) for text in joined], "minhash")
    similarity = [jaccard(*map(grams, pair)) for pair in zip(joined[:200], joined[200:], strict=True)]
    near = [row for row in range(200) if similarity[row] > 0.87]
    far = [row for row in range(200) if similarity[row] < 0.6]
    assert min(len(near), len(far)) > 30
    assert sum(200 + row in left_out for row in near) >= 0.9 * len(near)
    assert not any(200 + row in left_out for row in far)
    assert min(left_out) >= 200


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def test_the_package_of_near_duplicates_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(RecipeError, match=r"pip install 'bertkit\[checks\]'"):
        repeated([], "minhash")


def test_a_filter_that_leaves_nothing_is_named(corpus):
    with pytest.raises(DataError, match=r"no document is left by the filters \(min_tokens: 9\)"):
        build(corpus, corpus.write(one="t1 t2"), chosen=DocumentFilter(min_tokens=9))
    assert [path.name for path in corpus.folder.iterdir()] == ["one.txt"]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [({"min_tokens": 0}, "min_tokens: 0"), ({"deduplicate": "some"}, "'some' is not one of exact, minhash")],
)
def test_settings_out_of_range(settings, fault):
    with pytest.raises(RecipeError, match=fault):
        DocumentFilter(**settings)
