"""Token classification over HTTP and on a page, see `bertkit.tasks.served`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertkit.metrics.entities import OUTSIDE
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.served import Mark, Served, View
from bertkit.tasks.splits import Columns


@dataclass(frozen=True)
class Parameters:
    """The ``parameters`` of a request.

    Attributes:
        aggregation_strategy: ``none`` gives the tag of each word; otherwise entities. Words have the tag of their first
            piece, as in training (BERT §5.3), so ``simple`` and ``first`` are the same.
        ignore_labels: tags or types that are left out; ``None`` leaves out ``O``.
    """

    aggregation_strategy: Literal["none", "simple", "first"] | None = None
    ignore_labels: list[str] | None = None


class ServedEntities(Served):
    """Hooks of sequence labelling."""

    api_parameters = Parameters
    _probabilities: Any
    _tags: Any
    _plain: Any

    def api_answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Any) -> list[Any]:
        """Returns for each text its entities: ``entity_group``, ``score``, ``word``, ``start`` and ``end``; with the
        strategy ``none`` its words with ``entity``, the tag, and ``index``, the number of the word from 1."""
        ignored = {OUTSIDE} if parameters.ignore_labels is None else set(parameters.ignore_labels)
        if parameters.aggregation_strategy == "none":
            return self._words(outputs, features, examples, ignored)
        return [
            [
                {
                    "entity_group": each["tag" if self._plain else "type"],
                    "score": each["probability"],
                    "word": each["text"],
                    "start": each["start"],
                    "end": each["end"],
                }
                for each in found["words" if self._plain else "entities"]
                if each["tag" if self._plain else "type"] not in ignored
            ]
            for found in self.decode(outputs, features, examples)
        ]

    def _words(self, outputs: Outputs, features: Columns, examples: Columns, ignored: set[str]) -> list[Any]:
        answers = []
        for example, rows in enumerate(self._probabilities(outputs, features, examples)):
            best: np.ndarray = rows.max(axis=-1, initial=0)
            spans = zip(*(examples[name][example] for name in ("tokens", "starts", "ends")), strict=True)
            tags = self._tags(rows.argmax(axis=-1))
            answers.append(
                [
                    {"entity": tag, "score": float(score), "index": number, "word": word, "start": start, "end": end}
                    for number, (tag, score, (word, start, end)) in enumerate(zip(tags, best, spans, strict=True), 1)
                    if tag not in ignored
                ]
            )
        return answers

    @property
    def page_shows(self) -> Literal["line", "bars", "marks"]:
        return "marks"

    def page_columns(self, texts: Sequence[str]) -> dict[str, list[Any]]:
        return self.read_input(list(texts))

    def page_texts(self, columns: Columns, row: int) -> list[str]:
        return [" ".join(columns["tokens"][row])]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        """Marks the entities, or every word with its tag."""
        found = prediction["words" if self._plain else "entities"]
        marks = [Mark(each["start"], each["end"], each["tag" if self._plain else "type"]) for each in found]
        what = "words" if self._plain else "entities"
        return View(f"{len(marks)} {what}" if marks else f"no {what}", text=texts[0], marks=marks)
