"""Settings of question answering: the blocks ``task`` and ``data`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bertkit.tasks.hub_data import HubData
from bertkit.tasks.question_answering.windows import WindowSizes


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Data set and decoding settings of question answering.

    Attributes:
        name: name of the task in results.
        hub_dataset: Hub data set, read if no files are given.
        id_column, question_column, context_column, answers_column: columns of flat rows; ``None`` is ``id``,
            ``question``, ``context`` and ``answers``.
        version_2_with_negative: questions may have no answer in their text, as in SQuAD 2.0.
        max_answer_length: maximum number of tokens of an answer.
        n_best_size: number of answers per question that are considered and written.
        null_score_diff_threshold: no answer is predicted if its score exceeds that of the best answer by more than this
            value; used for the scores and files of a run.
        predict_threshold: the same threshold for ``bertkit predict``; None is ``null_score_diff_threshold``. A run sets
            it to the best value on its validation set (``best_f1_thresh``), which the checkpoint stores.
    """

    name: str = "squad"
    hub_dataset: str = "rajpurkar/squad"
    id_column: str | None = None
    question_column: str | None = None
    context_column: str | None = None
    answers_column: str | None = None
    version_2_with_negative: bool = False
    max_answer_length: int = 30
    n_best_size: int = 20
    null_score_diff_threshold: float = 0.0
    predict_threshold: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_answer_length", "n_best_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        for name, default in (("null_score_diff_threshold", 0.0), ("predict_threshold", None)):
            if getattr(self, name) != default and not self.version_2_with_negative:
                raise ValueError(f"{name}: needs version_2_with_negative; set it, or remove {name}")


@dataclass(frozen=True, kw_only=True)
class DataSettings(HubData):
    """Sources of the questions, and window sizes.

    Attributes:
        train_file, validation_file: SQuAD's nested JSON, or rows with ``id``, ``context``, ``question`` and ``answers``
            in ``.jsonl`` or ``.parquet``.
        doc_stride: tokens of the text that neighbouring windows share: the overlap, not the step.
        max_query_length: maximum tokens of a question; longer questions are truncated and counted.
    """

    paths: ClassVar[tuple[str, ...]] = ("train_file", "validation_file")
    kept: ClassVar[tuple[str, ...]] = ("max_seq_length", "doc_stride", "max_query_length")

    train_file: str | None = None
    validation_file: str | None = None
    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

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
