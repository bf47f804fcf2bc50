"""Scores of rankings, beside those of sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.metrics.ranking import SCORES, ranking_scores

pytestmark = pytest.mark.numeric


def test_scores_are_those_of_sentence_transformers():
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    generator = np.random.default_rng(0)
    queries, documents = generator.normal(size=(20, 8)), generator.normal(size=(30, 8))
    relevant = [set(generator.choice(30, size=1 + number % 3, replace=False).tolist()) for number in range(20)]
    cosines = queries @ documents.T / np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(documents, axis=1))
    evaluator = evaluation.InformationRetrievalEvaluator(
        {str(number): "" for number in range(20)},
        {str(number): "" for number in range(30)},
        {str(number): set(map(str, documents)) for number, documents in enumerate(relevant)},
    )
    ranked = [[{"corpus_id": str(number), "score": float(row[number])} for number in range(30)] for row in cosines]
    theirs = evaluator.compute_metrics(ranked)
    expected = [theirs["ndcg@k"][10], theirs["mrr@k"][10], theirs["recall@k"][10], theirs["accuracy@k"][1]]
    np.testing.assert_allclose(ranking_scores(queries, documents, relevant).mean(axis=0), expected, rtol=1e-6)
    assert len(SCORES) == len(expected)


def test_fewer_documents_than_the_depth():
    scores = ranking_scores(np.eye(3)[:1], np.eye(3), [{0, 1}])
    np.testing.assert_allclose(scores, [[1, 1, 1, 1]])
    assert ranking_scores(np.eye(12)[:1], np.eye(12), [{11}]).tolist() == [[0, 0, 0, 0]]  # of equal ones the last


@pytest.mark.parametrize("number", range(1, 13))
def test_the_best_ranking_has_exactly_1(number):
    """Reports list queries below 1 as mistakes."""
    scores = ranking_scores((np.arange(12) < number)[None].astype(float), np.eye(12), [set(range(number))])
    assert scores[0, 0] == 1
