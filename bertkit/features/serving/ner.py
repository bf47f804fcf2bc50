"""Token classification over HTTP and on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bertkit.features.serving.requests import Strict
from bertkit.features.serving.served import Mark, Served, View, served
from bertkit.metrics.entities import OUTSIDE
from bertkit.tasks.base import Outputs
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.splits import Columns


class Parameters(Strict):
    """The ``parameters`` of a request.

    Attributes:
        aggregation_strategy: ``none`` gives the tag of each word; otherwise entities. Words have the tag of their first
            piece, as in training (BERT §5.3), so ``simple`` and ``first`` are the same.
        ignore_labels: tags or types that are left out; ``None`` leaves out ``O``.
    """

    aggregation_strategy: Literal["none", "simple", "first"] | None = None
    ignore_labels: list[str] | None = None


class ServedEntities(Served):
    """Sequence labelling: entities, or with plain tags words."""

    task: NerTask
    parameters = Parameters
    shows = "marks"
    reads_whole_texts = True

    def answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Parameters) -> list[Any]:
        """Returns for each text its entities: ``entity_group``, ``score``, ``word``, ``start`` and ``end``; with the
        strategy ``none`` its words with ``entity``, the tag, and ``index``, the number of the word from 1."""
        ignored = {OUTSIDE} if parameters.ignore_labels is None else set(parameters.ignore_labels)
        if parameters.aggregation_strategy == "none":
            answers = []
            for example, rows in enumerate(self.task.word_probabilities(outputs, features, examples)):
                best: np.ndarray = rows.max(axis=-1, initial=0)
                words = zip(*(examples[name][example] for name in ("tokens", "starts", "ends")), strict=True)
                (tags,) = self.task.to_labels([rows.argmax(axis=-1)])
                tagged = enumerate(zip(tags, best, words, strict=True), 1)
                answers.append(
                    [
                        {"entity": tag, "score": float(score), "index": index, "word": word, "start": start, "end": end}
                        for index, (tag, score, (word, start, end)) in tagged
                        if tag not in ignored
                    ]
                )
            return answers
        return [
            [
                {
                    "entity_group": each[self._label],
                    "score": each["probability"],
                    "word": each["text"],
                    "start": each["start"],
                    "end": each["end"],
                }
                for each in prediction[self._units]
                if each[self._label] not in ignored
            ]
            for prediction in self.task.decode(outputs, features, examples)
        ]

    @property
    def _units(self) -> str:
        """Key of the labelled pieces of a prediction."""
        return "words" if self.task.settings.scheme == "plain" else "entities"

    @property
    def _label(self) -> str:
        """Key of the label of such a piece."""
        return "tag" if self._units == "words" else "type"

    def texts_of(self, examples: Columns, row: int) -> list[str]:
        return [" ".join(examples["tokens"][row])]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        """Marks the entities, or every word with its tag."""
        marks = [Mark(each["start"], each["end"], each[self._label]) for each in prediction[self._units]]
        return View(f"{len(marks) or 'no'} {self._units}", text=texts[0], marks=marks)


served.register(NerTask, ServedEntities)
