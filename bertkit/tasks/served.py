"""Hooks of a task for `bertkit serve` and `bertkit demo`: requests and answers in the forms of Hugging Face's Inference
API, and predictions as a page shows them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from bertkit.tasks.arrays import Outputs
from bertkit.tasks.splits import Columns


@dataclass(frozen=True)
class NoParameters:
    """The ``parameters`` of a request to a task that has none."""


class Mark(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text, with a label."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class View:
    """A prediction as a page shows it.

    Attributes:
        title: the prediction in a line.
        bars: probability of each label, the most probable first; empty if there are none.
        text: the text in which ``marks`` lie; ``None`` if nothing is marked.
        marks: in the order of the text, without overlaps.
    """

    title: str
    bars: Mapping[str, float] = field(default_factory=dict)
    text: str | None = None
    marks: Sequence[Mark] = ()


class Served:
    """Base class of `bertkit.tasks.base.Task` with the hooks of `bertkit.serving` and `bertkit.demo`.

    Attributes:
        api_input: type of one input of a request: ``str``, a dataclass, or a union of them.
        api_parameters: dataclass of the ``parameters`` of a request. A ``ValueError`` of its ``__post_init__`` refuses
            the request.
        api_nests: whether the answer to a single input is a list with the answer, as in text classification.
        page_fields: names of the texts of one input on a page.
    """

    api_input: ClassVar[Any] = str
    api_parameters: ClassVar[type[Any]] = NoParameters
    api_nests: ClassVar[bool] = False

    @abstractmethod
    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]: ...

    @abstractmethod
    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]: ...

    @abstractmethod
    def line(self, prediction: Mapping[str, Any]) -> str: ...

    def api_columns(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Converts the inputs of a request to columns for `encode`.

        Args:
            inputs: instances of ``api_input``.

        Raises:
            DataError: an input is not in the form that the task expects.
        """
        return self.read_input(inputs)

    def api_answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Any) -> list[Any]:
        """Converts model outputs to answers in the form of the Inference API; by default the predictions of `decode`.

        Args:
            outputs, features, examples: as for `decode`.
            parameters: an instance of ``api_parameters``.

        Returns:
            One answer per example, plain data for JSON.
        """
        return self.decode(outputs, features, examples)

    @property
    def classifies_texts(self) -> bool:
        """Returns whether the task gives scores of labels to a text or a pair of texts, as `classified_columns`."""
        return False

    @property
    def ranks_texts(self) -> bool:
        """Returns whether the task gives a pair of texts one score, which can rank texts for a query."""
        return False

    def classified_columns(self, rows: Sequence[Sequence[str]]) -> dict[str, list[Any]]:
        """Converts texts or pairs to columns for `encode`, if the task `classifies_texts`.

        Raises:
            DataError: a row has the wrong number of texts.
        """
        raise NotImplementedError

    @property
    def page_fields(self) -> Sequence[str]:
        return ("text",)

    @property
    def page_shows(self) -> Literal["line", "bars", "marks"]:
        """Returns which part of a `View` a page shows besides the title."""
        return "line"

    def page_columns(self, texts: Sequence[str]) -> dict[str, list[Any]]:
        """Converts the texts of ``page_fields`` to columns of one example for `encode`.

        Raises:
            DataError: a text is not in the form that the task expects.
        """
        return self.read_input(["\t".join(texts)])

    def page_texts(self, columns: Columns, row: int) -> list[str]:
        """Returns the texts of ``page_fields`` of an example of the task's data."""
        return [str(columns[name][row]) for name in self.page_fields]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        """Returns a prediction of `decode` as a page shows it; by default the line of a terminal.

        Args:
            prediction: of `decode`.
            texts: the texts of ``page_fields``.
        """
        return View(self.line(prediction))
