"""Question answering with stock checkpoints: sizes of windows, and whether questions may have no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from bertkit.data.tables import Table
from bertkit.runtime.options import setting
from bertkit.runtime.progress import inflected
from bertkit.tasks.question_answering.task import DataSettings, QuestionAnsweringTask, TaskSettings
from bertkit.tasks.splits import Split
from bertkit.tasks.stock import StockTask

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True, kw_only=True)
class StockDataSettings(DataSettings):
    """Sources of the questions, window sizes, and whether questions may have no answer."""

    version_2_with_negative: bool = setting(
        "Predict no answer where it scores higher than every answer, as for SQuAD 2.0.", default=False
    )


class StockQuestionAnswering(StockTask, QuestionAnsweringTask):
    """Question answering by a checkpoint that records no task; questions without answers are inferred from the data."""

    data_settings = StockDataSettings
    data: StockDataSettings

    @classmethod
    def of_config(cls, config: PreTrainedConfig, name: str, longest: int, data: Mapping[str, Any]) -> Self:
        """Infers the task from a configuration, see `bertkit.tasks.checkpoints.stock_task`."""
        default = DataSettings()
        length = data.get("max_seq_length", min(longest, default.max_seq_length))
        sizes = {
            "max_seq_length": length,
            "max_query_length": min(default.max_query_length, max(length // 4, 1)),
            "doc_stride": min(default.doc_stride, length // 4),
        }
        settings = StockDataSettings(**{**sizes, **data})
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
        if self.settings.version_2_with_negative:
            return task, loaded
        for name, split in loaded.items():
            unanswered = sum(not answers["text"] for answers in split.examples["answers"])
            if unanswered:
                task = task.with_settings(version_2_with_negative=True)
                have = inflected(unanswered, "has", "have")
                note = f"{unanswered} of {len(split.examples)} questions {have} no answer: scored as SQuAD 2.0"
                loaded[name] = replace(split, notes=(note, *split.notes))
        return task, loaded

    def _split_of(self, name: str, table: Table) -> Split:
        if self.settings.version_2_with_negative or self._names.answers not in table.columns:
            return super()._split_of(name, table)
        task = self.with_settings(version_2_with_negative=True)
        split = super(StockQuestionAnswering, task)._split_of(name, table)
        has_all = all(answers["text"] for answers in split.examples["answers"])
        # Read again, a training set has no warning that SQuAD 2.0 was asked for.
        return super()._split_of(name, table) if has_all else split
