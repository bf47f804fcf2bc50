"""Settings of question answering: the blocks ``task`` and ``data`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bertkit.options import check_ranges, option, setting
from bertkit.tasks.question_answering.windows import WindowSizes
from bertkit.tasks.table_data import HubData


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Data set and decoding settings of question answering."""

    name: str = setting("Name of the task in results.", default="squad")
    hub_dataset: str = setting("Hub data set, read if no files are given.", default="rajpurkar/squad")
    id_column: str | None = option("Column of the ids in flat rows; `id` by default.", default=None)
    question_column: str | None = option("Column of the questions in flat rows; `question` by default.", default=None)
    context_column: str | None = option("Column of the texts in flat rows; `context` by default.", default=None)
    answers_column: str | None = option("Column of the answers in flat rows; `answers` by default.", default=None)
    version_2_with_negative: bool = option(
        "Questions may have no answer in their text, as in SQuAD 2.0.", default=False
    )
    max_answer_length: int = option("Maximum number of tokens of an answer.", default=30, ge=1)
    n_best_size: int = option(
        "Number of answers of a question that are considered and written to nbest_predictions.json.", default=20, ge=1
    )
    null_score_diff_threshold: float = option(
        "Predict no answer if its score exceeds that of the best answer by more than this; for the scores and "
        "files of a run.",
        default=0.0,
    )
    predict_threshold: float | None = setting(
        "The same threshold for `bertkit predict`; None is `null_score_diff_threshold`. A run sets it to the "
        "best value on its validation set (`best_f1_thresh`), which the checkpoint stores.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, default in (("null_score_diff_threshold", 0.0), ("predict_threshold", None)):
            if getattr(self, name) != default and not self.version_2_with_negative:
                raise ValueError(f"{name}: needs version_2_with_negative; set it, or remove {name}")


@dataclass(frozen=True, kw_only=True)
class DataSettings(HubData):
    """Sources of the questions, and window sizes."""

    paths: ClassVar[tuple[str, ...]] = ("train_file", "validation_file")
    kept: ClassVar[tuple[str, ...]] = ("max_seq_length", "doc_stride", "max_query_length")

    data_dir: str | None = setting("Not for questions, which are in files.", default=None)
    train_file: str | None = option(
        "Questions to train on: SQuAD's JSON, or .jsonl or .parquet with `id`, `context`, `question`, `answers`.",
        default=None,
    )
    validation_file: str | None = option("Questions to evaluate on, likewise.", default=None)
    max_seq_length: int = 384
    doc_stride: int = option(
        "Tokens that neighbouring windows of a text share (overlap). In Google's run_squad.py doc_stride is the"
        " step between windows: its 128 at 384 is an overlap of about 238.",
        default=128,
    )
    max_query_length: int = option(
        "Maximum number of tokens of a question; longer questions are truncated and counted.", default=64
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sizes.check()
        if self.data_dir is not None:
            raise ValueError("data_dir: questions are in files; give train_file and validation_file")
        if self.dataset_name is not None and (self.train_file or self.validation_file):
            raise ValueError("dataset_name: give either a Hub data set or files, not both")
        for use in self.given_splits if self.train_file or self.validation_file else ():
            raise ValueError(f"{use}_split: is for a Hub data set; remove it, or the files")

    @property
    def sizes(self) -> WindowSizes:
        """Window sizes in tokens."""
        return WindowSizes(self.max_seq_length, self.doc_stride, self.max_query_length)
