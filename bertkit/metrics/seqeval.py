"""Scores of entities in tagged sentences, as computed by CoNLL's evaluation script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from bertkit.metrics.entities import Counts, score_entities
from bertkit.metrics.in_memory import InMemoryMetric

_CITATION = """@inproceedings{tjong-kim-sang-buchholz-2000-introduction,
  title={Introduction to the {CoNLL}-2000 Shared Task Chunking},
  author={Tjong Kim Sang, Erik F. and Buchholz, Sabine},
  booktitle={Fourth Conference on Computational Natural Language Learning},
  year={2000}
}"""
_INPUTS = "the tags of each sentence, such as [['B-PER', 'I-PER', 'O']]"


class Seqeval(InMemoryMetric):
    """Precision, recall and F1 of entities, and the fraction of words with the right tag, all in [0, 1].

    Inputs and results are those of the evaluate library's ``seqeval``: ``predictions`` and ``references`` are lists of
    lists of tags; the result has ``overall_precision``, ``overall_recall``, ``overall_f1`` and ``overall_accuracy``,
    and for each type a dictionary of ``precision``, ``recall``, ``f1`` and ``number`` (of entities in the references).
    The rules are in ``bertkit.metrics.entities``. ``compute(mode="strict", scheme="IOB2")`` counts only entities that
    IOB2 allows.

    Two differences from that library: a score whose divisor is 0 is 0 without a warning, and a tag without a prefix is
    an error.
    """

    def _info(self) -> evaluate.MetricInfo:
        tags = datasets.List(datasets.Value("string"))
        return evaluate.MetricInfo(
            description="Precision, recall and F1 of entities, and the accuracy of tags.",
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": tags, "references": tags}),
        )

    def _compute(
        self,
        predictions: Sequence[Sequence[str]],
        references: Sequence[Sequence[str]],
        mode: str | None = None,
        scheme: str | None = None,
    ) -> dict[str, Any]:
        """Computes the scores.

        Raises:
            ValueError: a sentence differs in its number of tags between predictions and references; or ``mode`` and
                ``scheme`` are neither both omitted nor ``strict`` and ``IOB2``.
            DataError: a tag has no prefix, or there are no words.
        """
        if (mode, scheme) not in ((None, None), ("strict", "IOB2")):
            raise ValueError(f"mode {mode!r} with scheme {scheme!r}; expected neither, or 'strict' with 'IOB2'")
        for number, (given, expected) in enumerate(zip(predictions, references, strict=True)):
            if len(given) != len(expected):
                raise ValueError(f"sentence {number}: {len(given)} tags are predicted for {len(expected)} words")
        overall, counts = score_entities(predictions, references, strict=mode == "strict")
        return {**{kind: _of_type(of_kind) for kind, of_kind in counts.items()}, **overall}


def _of_type(counts: Counts) -> dict[str, Any]:
    precision, recall, f1 = counts.scores()
    return {"precision": precision, "recall": recall, "f1": f1, "number": counts.actual}


METRIC = Seqeval
