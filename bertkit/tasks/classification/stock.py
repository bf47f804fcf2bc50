"""Classification with stock checkpoints: their labels, and columns that no training has fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing, names_of_labels, other_spellings
from bertkit.data.tables.columns import text_columns
from bertkit.data.tables.labels import Problem, texts
from bertkit.runtime.errors import CheckpointError
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.stock import StockTask, labels_of, matched_names

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

_TEXT, _PAIR = ("text",), ("text", "text_pair")
_PROBLEMS: dict[str, Problem] = {
    "regression": "regression",
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
}
_OF_PAIRS = {"entailment", "not_entailment", "contradiction"}  # labels that compare two texts


class StockClassification(StockTask, ClassificationTask):
    """Classification or regression by a checkpoint that does not record its columns.

    Lines are single texts, or pairs with a tab between them if the labels are of natural language inference. The
    columns of a table are those that are given, or have usual names: two columns are a pair.
    """

    reads_pairs = False

    @classmethod
    def of_config(cls, config: PreTrainedConfig, name: str, longest: int, data: Mapping[str, Any]) -> Self:
        """Infers the task from a configuration, see `bertkit.tasks.checkpoints.stock_task`."""
        labels = labels_of(config, name)
        # As the model's loss infers it; transformers' pipeline applies a sigmoid to a single output instead.
        inferred = "regression" if len(labels) == 1 else "single_label_classification"
        problem = _PROBLEMS[config.problem_type or inferred]
        if problem == "regression" and len(labels) > 1:
            raise CheckpointError(
                f"{name}: problem_type is regression with {len(labels)} outputs; bertkit predicts one number; give a "
                "checkpoint with one output"
            )
        settings = TaskSettings(problem=problem, label_names=[] if problem == "regression" else labels)
        task = cls(settings, DataSettings(**{"max_seq_length": longest, **data}))
        task.reads_pairs = bool(_OF_PAIRS & {label.casefold() for label in labels})
        form = {
            "regression": "regression (one number, as the model computes it)",
            "single_label": f"one of {len(labels)} labels",
            "multi_label": f"any of {len(labels)} labels (a sigmoid for each)",
        }[problem]
        task.assumptions = (
            form,
            "pairs of texts" if task.reads_pairs else "single texts",
            f"{'cut' if task.data.long_text == 'cut' else 'windows'} at {task.data.max_seq_length} tokens",
        )
        return task

    # ---- load -------------------------------------------------------------------------------------------------------

    def _split_of(self, name: str, table: Table) -> Split:
        """Builds the examples of a table, with the labels under the names of the checkpoint."""
        column = str(self.settings.label_column)
        if self.settings.problem == "regression" or column not in table.columns:
            return super()._split_of(name, table)
        values = table.columns[column]
        labels = names_of_labels(values)
        classes = sorted(set(labels.values()))
        names, note = matched_names(classes, self.settings.label_names, table.source)

        def renamed(value: Any) -> Any:
            if isinstance(value, list):
                return list(map(renamed, value))
            # A missing value is no label, also beside a class of the name "None".
            return value if is_missing(value) or str(value) not in labels else names[labels[str(value)]]

        columns = {**table.columns, column: list(map(renamed, values))}
        found = super()._split_of(name, replace(table, columns=columns))
        notes = filter(None, (other_spellings(values, classes), note))
        return replace(found, notes=(*notes, *found.notes))

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes every column of ``examples`` except the labels: one of texts, or two of pairs."""
        reading = self.with_settings(text_columns=[name for name in examples if name != "labels"])
        return ClassificationTask.encode(reading, examples, tokenizer)

    # ---- what users give and get ------------------------------------------------------------------------------------

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        columns = list(_PAIR if self.reads_pairs else _TEXT)
        return ClassificationTask.read_input(self.with_settings(text_columns=columns), lines, first)

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        columns = text_columns(table, self.settings.text_columns, self.settings.label_column)
        return {column: list(texts(table, column)) for column in columns}
