"""Requests, answers and pages of a task: `served` finds them by its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from bertkit.features.serving.requests import NoParameters, Strict
from bertkit.inference.options import PredictOptions
from bertkit.inference.outcome import task_inference
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns


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
    """A task behind HTTP and a page. By default texts go in, and the predictions of `Task.decode` come out.

    Requests and answers have the forms of Hugging Face's Inference API.

    Attributes:
        input_type: type of one input of a request: ``str``, a subclass of `bertkit.features.serving.requests.Strict`,
            or a union of them.
        parameters: the ``parameters`` of a request, a subclass of `bertkit.features.serving.requests.Strict`.
        nests: whether the answer to a single input is a list with the answer, as in text classification.
        classifies_texts: whether the task gives scores of labels to a text or a pair of texts.
        ranks_texts: whether the task gives a pair of texts one score, which can rank texts for a query.
        reads_whole_texts: whether `Task.encode` reads texts to their end, in windows; an input then has as many tokens.
        fields: names of the texts of one input, on a page.
        shows: the part of a `View` that a page shows besides the title.
        options: which predictions are unsure.
    """

    input_type: ClassVar[Any] = str
    parameters: ClassVar[type[Strict]] = NoParameters
    nests: ClassVar[bool] = False
    classifies_texts: ClassVar[bool] = False
    ranks_texts: bool = False
    reads_whole_texts: bool = False
    fields: Sequence[str] = ("text",)
    shows: Literal["line", "bars", "marks"] = "line"
    options: PredictOptions = PredictOptions()

    def __init__(self, task: Task):
        self.task = task

    def input_of(self, texts: Sequence[str]) -> Any:
        """Returns one input, of ``input_type``, from the texts of its ``fields``."""
        return "\t".join(texts)

    def columns(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Converts inputs, of ``input_type``, to columns for `Task.encode`.

        Raises:
            DataError: an input is not in the form that the task expects.
        """
        return self.task.read_input(inputs)

    def answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Any) -> list[Any]:
        """Converts model outputs to one answer per example, plain data; by default the predictions of `Task.decode`.

        Args:
            outputs, features, examples: as for `Task.decode`.
            parameters: an instance of ``parameters``.
        """
        return self.task.decode(outputs, features, examples)

    def texts_of(self, examples: Columns, row: int) -> list[str]:
        """Returns the texts of the ``fields`` of an example of the task's data."""
        return [str(examples[name][row]) for name in self.fields]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        """Returns a prediction of `Task.decode` as a page shows it; by default the line of a terminal.

        Args:
            prediction: of `Task.decode`.
            texts: the texts of ``fields``.
        """
        return View(task_inference(self.task).format_prediction(prediction))


@by_kind_of_task
def served(task: Task) -> Served:
    """Returns how a task is served."""
    return Served(task)
