"""Inputs and written predictions of a kind of task: `predicted` finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertkit.errors import DataError, RecipeError
from bertkit.tasks.base import Task
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bertkit.tables import Table


class Predicted:
    """A task behind ``bertkit predict``. By default it reads lines and tables, and repeats all columns of the input.

    Args:
        task: the task of a checkpoint.

    Attributes:
        column_settings: settings that name columns, which another table may have under other names.
        forms: names of the forms of other tools in which predictions can be written, see `in_form`.
        reads_neighbours: whether the prediction for a table row also depends on neighbouring rows.
        leaves_out_labels: whether predictions hold the probabilities of some labels only, which differ between rows.
    """

    column_settings: ClassVar[frozenset[str]] = frozenset()
    forms: Sequence[str] = ()
    reads_neighbours: bool = False
    leaves_out_labels: bool = False

    def __init__(self, task: Task):
        self.task = task

    @property
    def needs_transformers(self) -> bool:
        """Returns whether `Task.prepare` needs a model of transformers, and not just the layer of its head."""
        return type(self.task).prepare is not Task.prepare

    def with_columns(self, columns: Mapping[str, Any]) -> Task:
        """Returns the task that reads other columns of tables, given by the names of the settings.

        Raises:
            RecipeError: the task always reads the same columns, or has no such setting, or a name is impossible.
        """
        unknown = columns.keys() - self.column_settings
        if unknown:
            why = "not a column" if self.column_settings else "the columns are always the same"
            raise RecipeError(f"task.{min(unknown)}: {why} of {self.task.name}; remove it")
        try:
            return self.task.with_settings(**columns)
        except ValueError as error:
            raise RecipeError(f"task.{error}") from error

    def with_all_probabilities(self) -> Task:
        """Returns the task with predictions that hold the probability of every label, however many there are."""
        return self.task

    def with_threshold(self, threshold: float) -> Task:
        """Returns the task with predictions of a label from this probability on.

        Raises:
            RecipeError: the task has no thresholds, or the value is not valid.
        """
        raise RecipeError(f"--threshold: {self.task.name} has no thresholds of labels; remove it")

    def read_file(self, path: Path) -> Table | None:
        """Reads inputs from a file in a format of the task into memory.

        Returns:
            A table for `Task.columns_of`; ``None`` if the file name does not denote such a format: the file is then
            read as a table (``.csv`` etc.), or as one input per line.

        Raises:
            DataError: the file cannot be read.
        """
        return None

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts texts given by name (a question, its context) to columns for `Task.encode`.

        Raises:
            DataError: the task has no fields of these names, or the texts do not match.
        """
        raise DataError(f"{self.task.name}: expected texts only, without {' or '.join(fields)}")

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Returns examples whose texts are cut to what `Task.encode` keeps of them, by default as they are.

        These are encoded instead of the given ones, since to tokenize a text of megabytes takes seconds. The inputs are
        the same, and only ``full_length`` is smaller. See `bertkit.tasks.windows`.
        """
        return examples

    def repeated(self, columns: Columns) -> Columns:
        """Selects the input columns that are written with the predictions."""
        return columns

    def in_form(self, form: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Converts an input with its prediction to the form of another tool.

        Args:
            form: one of ``forms``.
            row: the columns of `repeated`, and the prediction.
        """
        raise NotImplementedError

    def highlighted(self, row: Mapping[str, Any]) -> str | None:
        """Formats an input with its prediction marked in it, in terminal colours; ``None`` without such a view.

        Args:
            row: the columns of `repeated`, and the prediction.
        """
        return None


@by_kind_of_task
def predicted(task: Task) -> Predicted:
    """Returns how a task is predicted for."""
    return Predicted(task)
