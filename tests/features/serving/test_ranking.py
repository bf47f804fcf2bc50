"""Rerankers and sentence embeddings over HTTP, beside what bertkit gives for the same texts."""

from __future__ import annotations

import pytest

import bertkit

pytestmark = pytest.mark.numeric

TEXTS = ["the good story", "the awful plot", "lovely"]


def test_passages_are_ranked_by_their_scores(client_of, fine_tuned):
    folder = fine_tuned("reranker")
    pairs = [f"a good film\t{text}" for text in TEXTS]
    expected = [each["score"] for each in bertkit.load(folder).predict(pairs)]
    client = client_of(folder)
    response = client.post("/rerank", {"query": "a good film", "texts": TEXTS})
    ranked = response.json()
    assert [each["score"] for each in ranked] == sorted((each["score"] for each in ranked), reverse=True)
    assert {each["index"]: each["score"] for each in ranked} == pytest.approx(dict(enumerate(expected)), abs=1e-5)
    [[answer]] = client.post("/predict", {"inputs": [["a good film", TEXTS[0]]]}).json()
    assert answer["label"] == "relevance"
    assert answer["score"] == pytest.approx(expected[0], abs=1e-5)


def test_vectors_are_those_of_embed(client_of, fine_tuned):
    folder = fine_tuned("similar")
    expected = bertkit.load(folder).embed(TEXTS)
    served = client_of(folder, "embed").post("/embed", {"inputs": TEXTS, "normalize": False}).json()
    assert served == [pytest.approx(row, abs=1e-5) for row in expected.tolist()]
