"""Question answering with stock checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from bertkit.tables import Table
from bertkit.tasks.question_answering.settings import DataSettings, TaskSettings
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.splits import Split

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True, kw_only=True)
class StockDataSettings(DataSettings):
    """Sources of the questions, window sizes, and whether questions may have no answer.

    Attributes:
        version_2_with_negative: predict no answer where it scores higher than every answer, as for SQuAD 2.0.
    """

    version_2_with_negative: bool = False


class StockQuestionAnswering(QuestionAnsweringTask):
    """Extractive question answering by a checkpoint that does not record its data.

    Every question is given an answer, unless data to score have questions without one, or the settings say so.
    """

    data_settings = StockDataSettings
    data: StockDataSettings

    @classmethod
    def of_config(cls, config: PreTrainedConfig, name: str, longest: int, data: Mapping[str, Any]) -> Self:
        """Infers the task from a configuration, see `bertkit.tasks.checkpoints.stock_task`."""
        usual = DataSettings()
        length = data.get("max_seq_length", min(longest, usual.max_seq_length))
        # A short input has room for shares of the usual lengths.
        sizes = {
            "max_query_length": min(usual.max_query_length, max(length // 4, 1)),
            "doc_stride": min(usual.doc_stride, length // 4),
        }
        settings = StockDataSettings(**{"max_seq_length": length, **sizes, **data})
        task = cls(TaskSettings(version_2_with_negative=settings.version_2_with_negative), settings)
        task.assumptions = (
            "answers are spans of the text",
            "a question may have no answer" if settings.version_2_with_negative else "every question has an answer",
            f"windows of {settings.max_seq_length} tokens that share {settings.doc_stride}",
        )
        return task

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        """Reads questions as `QuestionAnsweringTask.load`; if one has no answer, they are scored as SQuAD 2.0."""
        task, loaded = super().load(splits)
        answers = [each for split in loaded.values() for each in split.examples["answers"]]
        if all(each["text"] for each in answers):
            return task, loaded
        return task.with_settings(version_2_with_negative=True), loaded

    def _split_of(self, name: str, table: Table) -> Split:
        values = table.columns.get(self._names.answers, ())
        unanswered = sum(not (value.get("text") if isinstance(value, dict) else value) for value in values)
        if not unanswered or self.task.version_2_with_negative:
            return super()._split_of(name, table)
        task = self.with_settings(version_2_with_negative=True)
        split = super(StockQuestionAnswering, task)._split_of(name, table)
        note = f"{unanswered} of {len(table)} questions have no answer: scored as SQuAD 2.0"
        return replace(split, notes=(note, *split.notes))
