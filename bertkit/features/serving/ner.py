"""Token classification over HTTP and on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertkit.features.serving.requests import Strict
from bertkit.features.serving.served import Mark, Served, View, served
from bertkit.metrics.entities import OUTSIDE
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs
from bertkit.tasks.ner.stock import Aggregation, StockNer
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.splits import Columns

_Labels = Annotated[list[str], Field(fail_fast=True)]


class Parameters(Strict):
    """The ``parameters`` of a request.

    Attributes:
        aggregation_strategy: ``none`` gives the tag of each word; otherwise entities. Words have the tag of their first
            piece, as in training (BERT §5.3), so ``simple`` and ``first`` are the same.
        ignore_labels: tags or types that are left out; ``None`` leaves out ``O``.
    """

    aggregation_strategy: Literal["none", "simple", "first"] | None = None
    ignore_labels: _Labels | None = None


class StockParameters(Strict):
    """The ``parameters`` of a request to a checkpoint that bertkit did not write.

    Attributes:
        aggregation_strategy: ``none`` gives the tag of each token; otherwise entities, by the strategy of
            `bertkit.tasks.ner.stock.StockDataSettings`.
        ignore_labels: as of `Parameters`.
    """

    aggregation_strategy: Aggregation | None = None
    ignore_labels: _Labels | None = None


class Tagged(NamedTuple):
    """A word of a text, or a token, with its tag and the probability of this tag; ``end`` is exclusive."""

    tag: str
    probability: float
    text: str
    start: int
    end: int


class ServedEntities(Served):
    """Sequence labelling: entities, or with plain tags words."""

    task: NerTask
    parameters: ClassVar[type[Strict]] = Parameters
    shows = "marks"
    reads_whole_texts = True

    def answers(
        self, outputs: Outputs, features: Columns, examples: Columns, parameters: Parameters | StockParameters
    ) -> list[Any]:
        """Returns for each text its entities: ``entity_group``, ``score``, ``word``, ``start`` and ``end``; with the
        strategy ``none`` its words with ``entity``, the tag, and ``index``, the number of the word from 1."""
        ignored = {OUTSIDE} if parameters.ignore_labels is None else set(parameters.ignore_labels)
        if parameters.aggregation_strategy == "none":
            return [
                [
                    {"entity": tag, "score": score, "index": index, "word": word, "start": start, "end": end}
                    for index, (tag, score, word, start, end) in enumerate(of_text, 1)
                    if tag not in ignored
                ]
                for of_text in self.tagged(outputs, features, examples)
            ]
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
            for prediction in self.task_by(parameters.aggregation_strategy).decode(outputs, features, examples)
        ]

    def task_by(self, strategy: Aggregation | None) -> NerTask:
        """Returns the task that decodes by a strategy: the same for all, since a word has one tag."""
        return self.task

    def tagged(self, outputs: Outputs, features: Columns, examples: Columns) -> list[list[Tagged]]:
        """Returns the words of each text with their tags."""
        columns = [examples[name] for name in ("tokens", "starts", "ends")]
        texts = []
        for rows, *words in zip(self.task.word_probabilities(outputs, features, examples), *columns, strict=True):
            (tags,) = self.task.to_labels([rows.argmax(axis=-1)])
            texts.append(list(map(Tagged, tags, rows.max(axis=-1, initial=0).tolist(), *words)))
        return texts

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
        number = counted(len(marks), "word" if self._units == "words" else "entity") if marks else f"no {self._units}"
        return View(number, text=texts[0], marks=marks)


class ServedStockEntities(ServedEntities):
    """Token classification by a checkpoint that does not record its words: texts are read as tokens."""

    task: StockNer
    parameters = StockParameters

    def task_by(self, strategy: Aggregation | None) -> StockNer:
        """Returns the task that joins tokens by a strategy; None for that of the checkpoint."""
        task = self.task.with_settings()
        if strategy is not None:
            task.data = replace(task.data, aggregation=strategy)
        return task

    def tagged(self, outputs: Outputs, features: Columns, examples: Columns) -> list[list[Tagged]]:
        """Returns the tokens of each text with their tags."""
        of_texts = self.task_by("none").units(outputs, features, examples)
        return [
            [
                Tagged(self.task.model_labels[each.label], each.probability, text[each.start : each.end], *each[2:])
                for each in units
                if each.start < each.end  # not of white space alone
            ]
            for text, units in zip(examples["text"], of_texts, strict=True)
        ]


served.register(NerTask, ServedEntities)
served.register(StockNer, ServedStockEntities)
