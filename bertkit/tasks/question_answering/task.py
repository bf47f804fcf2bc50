"""Extractive question answering (BERT §4.2, §4.3; SQuAD 1.1 and 2.0).

The model reads [CLS] question [SEP] text [SEP]; two vectors score every token as first and as last of the answer.

Dimension letter: B windows of a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit import metrics
from bertkit.data.tables import Table, check_disjoint, load_hub_table
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import DataError, collected
from bertkit.runtime.options import check_ranges, option, setting
from bertkit.tasks.base import Outputs, PerExampleTask, encoding_notes, texts_of, truncation_hint
from bertkit.tasks.folds import strata
from bertkit.tasks.question_answering.decoding import Decoded, answer_at, decode_spans, write_answers
from bertkit.tasks.question_answering.questions import ColumnNames, questions_of, read_questions, text_columns_of
from bertkit.tasks.question_answering.windows import WindowSizes, encode_windows, mask_padding
from bertkit.tasks.splits import Columns, Split, hub_dataset, splits_to_write
from bertkit.tasks.table_data import HubData
from bertkit.tasks.usual_recipes import recipe_of_bertkit

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_POSITIONS = ("start_positions", "end_positions")


@dataclass(frozen=True, kw_only=True)
class TaskSettings(metrics.MetricSettings):
    """Data set and decoding settings of question answering."""

    name: str = setting("Name of the task in results.", default="squad")
    hub_dataset: str = setting("Hub data set, read if no files are given.", default="rajpurkar/squad")
    id_column: str | None = option("Column of the ids in flat rows; `id` by default.", default=None, rare=True)
    question_column: str | None = option(
        "Column of the questions in flat rows; `question` by default.", default=None, rare=True
    )
    context_column: str | None = option(
        "Column of the texts in flat rows; `context` by default.", default=None, rare=True
    )
    answers_column: str | None = option(
        "Column of the answers in flat rows; `answers` by default.", default=None, rare=True
    )
    version_2_with_negative: bool = option(
        "Questions may have no answer in their text, as in SQuAD 2.0.", default=False
    )
    max_answer_length: int = option("Maximum number of tokens of an answer.", default=30, ge=1, rare=True)
    n_best_size: int = option(
        "Number of answers of a question that are considered and written to nbest_predictions.json.",
        default=20,
        ge=1,
        rare=True,
    )
    null_score_diff_threshold: float = option(
        "Predict no answer if its score exceeds that of the best answer by more than this; for the scores and "
        "files of a run.",
        default=0.0,
        rare=True,
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
        "Questions to train on: SQuAD's JSON, or a table of `question`, `context` and `answers`.",
        default=None,
    )
    validation_file: str | None = option("Questions to evaluate on, likewise.", default=None)
    max_seq_length: int = 384
    doc_stride: int = option(
        "Tokens that neighbouring windows of a text share (overlap). In Google's run_squad.py doc_stride is the"
        " step between windows: its 128 at 384 is an overlap of about 238.",
        default=128,
        rare=True,
    )
    max_query_length: int = option(
        "Maximum number of tokens of a question; longer questions are truncated and counted.", default=64, rare=True
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


class QuestionAnsweringTask(PerExampleTask):
    """Extractive question answering, including detection of unanswerable questions."""

    kind: ClassVar[str] = "question_answering"
    Settings = TaskSettings
    data_settings = DataSettings
    head = "BertForQuestionAnswering"
    pipeline_tag = "question-answering"
    main_metric = "f1"
    splits = ("train", "validation")
    label_columns = _POSITIONS
    settings: TaskSettings
    data: DataSettings

    @property
    def _hub_set(self) -> tuple[str, str, str] | None:
        if self.data.train_file or self.data.validation_file:
            return None
        split = self.data.given_splits.get("validation", "validation")
        return self.data.dataset_name or self.settings.hub_dataset, self.data.dataset_config or "default", split

    @property
    def _names(self) -> ColumnNames:
        names = {name: getattr(self.settings, f"{name}_column") for name in ColumnNames._fields}
        return ColumnNames(**{name: column for name, column in names.items() if column})

    def config(self) -> dict[str, Any]:
        return {"num_labels": 2}  # start and end: sets the size of the head in other families than BERT

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        names = self.splits if splits is None else splits
        loaded = collected(lambda name, _: self._split_of(name, self._table(name)), dict.fromkeys(names))
        expressions = self.data.given_splits
        if self._hub_set is not None and expressions and len(loaded) > 1:
            used = {name: expressions.get(name, name) for name in loaded}
            check_disjoint(self._hub_set[0], self.data.dataset_config, used)
        return self, {name: self.data.limited(name, split) for name, split in loaded.items()}

    def _table(self, split: str) -> Table:
        if self._hub_set is not None:
            return load_hub_table(self._hub_set[0], self.data.dataset_config, self.data.given_splits.get(split, split))
        file = getattr(self.data, f"{split}_file")
        if file is None:
            raise DataError(f"no questions to {'train on' if split == 'train' else 'score'}; give --{split}-file")
        table = read_questions(file).with_names(self._names)
        if self.settings.answers_column is None and "answers" not in table.columns:
            table = table.with_names(["answer"])
            columns = {"answers" if name == "answer" else name: values for name, values in table.columns.items()}
            table = replace(table, columns=columns)
        return table

    def _split_of(self, name: str, table: Table) -> Split:
        from datasets import Dataset

        negative = self.settings.version_2_with_negative
        numbers: Sequence[Any] = table.numbers_of_rows
        if not self._needs_labels(name) and self._names.answers not in table.columns:
            texts = Dataset.from_dict(text_columns_of(table, self._names))
            return Split(texts, table.source, table.fingerprint, numbers=numbers, unit=table.unit)
        questions = questions_of(table, self._names, unanswerable=negative, drop=name == "train")
        notes = questions.notes(len(table))
        if name == "train" and negative and all(each["text"] for each in questions.columns["answers"]):
            notes += ("warning: every question has an answer; remove --version-2-with-negative for SQuAD 1.1",)
        doubts = {"misplaced-answers": notes[0]} if questions.misplaced else {}
        return Split(
            Dataset.from_dict(questions.columns),
            table.source,
            table.fingerprint,
            notes,
            doubts,
            numbers=[numbers[row] for row in questions.rows],
            unit=table.unit,
        )

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes examples as windows, see `bertkit.tasks.question_answering.windows.encode_windows`."""
        answers = examples.get("answers")
        return encode_windows(examples["question"], examples["context"], answers, tokenizer, self.data.sizes)

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`, with ``start_positions`` and ``end_positions``, (B,) int64, of labelled rows."""
        import torch

        positions = {name: torch.tensor([row[name] for row in rows]) for name in _POSITIONS if name in rows[0]}
        return positions | super().collate(rows, tokenizer, inputs)

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the inputs with an answer position inside the input; the start and end of an answer are one item."""
        starts = batch["start_positions"]
        return ((starts >= 0) & (starts < batch["input_ids"].shape[-1])).sum()

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the mean of the losses of the start and of the end position, 0-d."""
        from bertkit.model.loss_bert import position_loss

        start_loss = position_loss(outputs["start_logits"], batch["start_positions"], count)
        return (start_loss + position_loss(outputs["end_logits"], batch["end_positions"], count)) / 2

    def prepare(self, model: PreTrainedModel) -> None:
        mask_padding(model)

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def decoded_spans(self, outputs: Outputs, features: Columns, examples: Columns) -> list[Decoded]:
        """Returns the best spans of each question and the probability that it has no answer, before any threshold."""
        start_logits, end_logits = outputs
        return decode_spans(
            start_logits,
            end_logits,
            features,
            examples["context"],
            max_answer_length=self.settings.max_answer_length,
            n_best_size=self.settings.n_best_size,
            may_be_unanswerable=self.settings.version_2_with_negative,
        )

    @property
    def score_threshold(self) -> float | None:
        """Threshold for the scores and files of a run; None if every question has an answer."""
        return self.settings.null_score_diff_threshold if self.settings.version_2_with_negative else None

    @property
    def decision_threshold(self) -> float | None:
        """Threshold of `decode`: that fitted on the validation set, else `score_threshold`."""
        fitted = self.settings.predict_threshold
        return self.score_threshold if fitted is None else fitted

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns the answer to each question, at `decision_threshold`: ``answer``, its ``probability``, and its
        character range in the context, ``start`` and ``end`` (exclusive). If no answer is predicted, ``answer`` is
        empty, ``start`` and ``end`` are None, and ``probability`` is that of no answer.
        Checkpoints of SQuAD 2.0 always add the latter as ``no_answer_probability``."""
        threshold = self.decision_threshold
        answers = []
        for decoded in self.decoded_spans(outputs, features, examples):
            if answer_at(decoded, threshold):
                best = decoded.spans[0]
                row = {"answer": best.text, "probability": best.probability, "start": best.start, "end": best.end}
            else:
                row = {"answer": "", "probability": decoded.null_probability, "start": None, "end": None}
            if threshold is not None:
                row["no_answer_probability"] = decoded.null_probability
            answers.append(row)
        return answers

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Returns predictions and answers in the form of the metrics ``squad`` and ``squad_v2``."""
        predictions, references = [], []
        decoded = self.decoded_spans(outputs, features, examples)
        for key, answers, each in zip(examples["id"], examples["answers"], decoded, strict=True):
            prediction: dict[str, Any] = {"id": key, "prediction_text": answer_at(each, None)}
            if self.score_threshold is not None:
                prediction["no_answer_probability"] = float(each.null_odds)
            predictions.append(prediction)
            references.append({"id": key, "answers": answers})
        return predictions, references

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes SQuAD's metrics in per cent; those of 2.0 at ``null_score_diff_threshold``, and the best threshold
        from the best span of every question, including questions for which no answer is predicted."""
        if self.score_threshold is None:
            return metrics.compute("squad", predictions, references)
        return metrics.compute("squad_v2", predictions, references, no_answer_threshold=self.score_threshold)

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        if not self.settings.version_2_with_negative:
            return self, None
        never = 100 * evaluation.get("eval_NoAns_total", 0) / evaluation["eval_total"]
        if evaluation["eval_best_f1"] <= never:
            return self, (
                f"warning: predicting no answer for every question scores best on the validation set (F1 {never:.2f}), "
                "with every threshold; train longer, or on more data. `bertkit predict` uses threshold "
                f"{self.decision_threshold}"
            )
        threshold = evaluation["eval_best_f1_thresh"]
        return self.with_settings(predict_threshold=threshold), (
            f"`bertkit predict` predicts no answer if its score exceeds the best span's by more than {threshold:.4g}, "
            f"the best threshold on the validation set; scores and files of this run use {self.score_threshold}"
        )

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        decoded = self.decoded_spans(outputs, features, examples)
        return write_answers(folder, examples["id"], decoded, self.score_threshold)

    # ---- predict ----------------------------------------------------------------------------------------------------

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        """Parses lines of a question and its text, separated by a tab."""
        pairs = [line.split("\t") for line in lines]
        for number, pair in enumerate(pairs, first):
            if len(pair) != 2 or not all(text.strip() for text in pair):
                raise DataError(
                    f"input {number}: expected a question and a text separated by a tab, got "
                    f"{lines[number - first][:60]!r}; or give --question with --context"
                )
        return {"question": [pair[0] for pair in pairs], "context": [pair[1] for pair in pairs]}

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        return text_columns_of(table.with_names(self._names), self._names)


@strata.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask, examples: Dataset) -> list[bool] | None:
    """Returns whether each question has an answer, if some may have none."""
    return [bool(answers["text"]) for answers in examples["answers"]] if task.settings.version_2_with_negative else None


@hub_dataset.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask) -> tuple[str, str, str] | None:
    return task._hub_set


@splits_to_write.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask, splits: Collection[str]) -> list[str]:
    """Selects the validation set: SQuAD's test sets are not public, and the official scorers take its predictions."""
    return [name for name in splits if name == "validation"]


@encoding_notes.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask, features: Dataset) -> tuple[str, ...]:
    if "start_positions" not in features.column_names:
        return ()
    owners, starts = (features.data.column(name).to_numpy() for name in ("example", "start_positions"))
    lost = len(np.unique(owners[starts == IGNORE_INDEX]))
    return (f"answers that no token covers, excluded from the loss: {lost}",) if lost else ()


@texts_of.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask, examples: Columns) -> dict[str, list[str]]:
    return {"question": list(examples["question"]), "context": list(examples["context"])}


@truncation_hint.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask) -> str:
    return "a larger --max-query-length keeps more of the questions; contexts are read completely, in windows"


@recipe_of_bertkit.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask) -> str:
    return f"finetune/squad/{'v2' if task.settings.version_2_with_negative else 'v1'}"
