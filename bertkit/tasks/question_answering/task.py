"""Extractive question answering (BERT §4.2, §4.3; SQuAD 1.1 and 2.0).

The model reads [CLS] question [SEP] text [SEP]; two vectors score every token as the first and as the last token of the
answer. `windows` splits texts into windows, `decoding` converts scores to answers.

Dimension letters: N windows, B windows of a batch, S tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit import metrics
from bertkit.errors import DataError, noted, raise_all
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.tables import Table, check_disjoint, load_hub_table
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.question_answering.decoding import Decoded, answer_at, decode_spans, write_answers
from bertkit.tasks.question_answering.questions import ColumnNames, questions_of, read_questions, texts_of
from bertkit.tasks.question_answering.settings import DataSettings, TaskSettings
from bertkit.tasks.question_answering.windows import encode_windows, mask_padding
from bertkit.tasks.splits import Columns, Split, strata

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_POSITIONS = ("start_positions", "end_positions")


class QuestionAnsweringTask(Task):
    """Extractive question answering, including detection of unanswerable questions."""

    kind: ClassVar[str] = "question_answering"
    settings = TaskSettings
    data_settings = DataSettings
    command = "squad"
    head = "BertForQuestionAnswering"
    pipeline_tag = "question-answering"
    main_metric = "f1"
    splits = ("train", "validation")
    label_columns = _POSITIONS
    task: TaskSettings
    data: DataSettings

    @property
    def dataset(self) -> tuple[str, str, str] | None:
        if self.data.train_file or self.data.validation_file:
            return None
        split = self.data.given_splits.get("validation", "validation")
        return self.data.dataset_name or self.task.hub_dataset, self.data.dataset_config or "default", split

    @property
    def _names(self) -> ColumnNames:
        task = self.task
        given = (task.id_column, task.question_column, task.context_column, task.answers_column)
        return ColumnNames(*(name or usual for name, usual in zip(given, ColumnNames(), strict=True)))

    @property
    def usual_recipe(self) -> str:
        return f"finetune/squad/{'v2' if self.task.version_2_with_negative else 'v1'}"

    @property
    def remedy(self) -> str:
        return "a larger --max-query-length keeps more of the questions; contexts are read completely, in windows"

    def config(self) -> dict[str, Any]:
        return {"num_labels": 2}  # start and end: sets the size of the head in other families than BERT

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        loaded: dict[str, Split] = {}
        faults: list[str] = []
        for name in self.splits if splits is None else splits:
            with noted(faults):
                loaded[name] = self._split_of(name, self._table(name))
        raise_all(faults)
        split_names = self.data.given_splits
        if self.dataset is not None and split_names and len(loaded) > 1:
            check_disjoint(
                self.dataset[0], self.data.dataset_config, {name: split_names.get(name, name) for name in loaded}
            )
        return self, {name: self.data.limited(name, split) for name, split in loaded.items()}

    def _table(self, split: str) -> Table:
        files = {"train": self.data.train_file, "validation": self.data.validation_file}
        if self.dataset is not None:
            expression = self.data.given_splits.get(split, split)
            return load_hub_table(self.dataset[0], self.data.dataset_config, expression)
        file = files[split]
        if file is None:
            raise DataError(f"no questions to {'train on' if split == 'train' else 'score'}; give --{split}-file")
        return read_questions(file)

    def _split_of(self, name: str, table: Table) -> Split:
        from datasets import Dataset

        negative = self.task.version_2_with_negative
        if not self.needs_labels(name) and self._names.answers not in table.columns:
            return Split(Dataset.from_dict(texts_of(table, self._names)), table.source, table.fingerprint)
        questions = questions_of(table, self._names, unanswerable=negative, drop=name == "train")
        notes = questions.notes(len(table))
        if negative and all(each["text"] for each in questions.columns["answers"]):
            notes += ("warning: every question has an answer; remove --version-2-with-negative for SQuAD 1.1",)
        doubts = {"misplaced-answers": notes[0]} if questions.misplaced else {}
        return Split(Dataset.from_dict(questions.columns), table.source, table.fingerprint, notes, doubts)

    def is_labelled(self, examples: Dataset) -> bool:
        return "answers" in examples.column_names

    def splits_to_write(self, splits: Collection[str]) -> list[str]:
        """Returns the validation set, since SQuAD's test sets are not public; the official scorers take its
        predictions."""
        return [name for name in splits if name == "validation"]

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes examples as windows, see `bertkit.tasks.question_answering.windows.encode_windows`."""
        answers = examples.get("answers")
        return encode_windows(examples["question"], examples["context"], answers, tokenizer, self.data.sizes)

    def encoding_notes(self, features: Dataset) -> tuple[str, ...]:
        if "start_positions" not in features.column_names:
            return ()
        owners, starts = (features.data.column(name).to_numpy() for name in ("example", "start_positions"))
        lost = len(np.unique(owners[starts == IGNORE_INDEX]))
        return (f"answers that no token covers, excluded from the loss: {lost}",) if lost else ()

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`, with ``start_positions`` and ``end_positions``, (B,) int64, if the rows have
        them."""
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

    def texts_of(self, examples: Columns) -> dict[str, list[str]]:
        return {"question": list(examples["question"]), "context": list(examples["context"])}

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def _decoded(self, outputs: Outputs, features: Columns, examples: Columns) -> list[Decoded]:
        start_logits, end_logits = outputs
        return decode_spans(
            start_logits,
            end_logits,
            features,
            examples["context"],
            max_answer_length=self.task.max_answer_length,
            n_best_size=self.task.n_best_size,
            may_be_unanswerable=self.task.version_2_with_negative,
        )

    @property
    def _threshold(self) -> float | None:
        """Threshold for the scores and files of a run; None if every question has an answer."""
        return self.task.null_score_diff_threshold if self.task.version_2_with_negative else None

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns the answer to each question, at the threshold that was best on the validation set.

        A prediction has ``answer``, its ``probability``, and its character range in the context, ``start`` and ``end``
        (exclusive). If no answer is predicted, ``answer`` is empty, ``start`` and ``end`` are None, and ``probability``
        is that of no answer. Checkpoints of SQuAD 2.0 always add the latter as ``no_answer_probability``.
        """
        threshold = self._threshold if self.task.predict_threshold is None else self.task.predict_threshold
        found = []
        for decoded in self._decoded(outputs, features, examples):
            if answer_at(decoded, threshold):
                best = decoded.spans[0]
                row = {"answer": best.text, "probability": best.probability, "start": best.start, "end": best.end}
            else:
                row = {"answer": "", "probability": decoded.null_probability, "start": None, "end": None}
            if threshold is not None:
                row["no_answer_probability"] = decoded.null_probability
            found.append(row)
        return found

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Returns predictions and answers in the form of the metrics ``squad`` and ``squad_v2``."""
        decoded = self._decoded(outputs, features, examples)
        references = [
            {"id": key, "answers": answers} for key, answers in zip(examples["id"], examples["answers"], strict=True)
        ]
        predictions = [
            {"id": key, "prediction_text": answer_at(each, None)}
            for key, each in zip(examples["id"], decoded, strict=True)
        ]
        if self._threshold is not None:
            for prediction, each in zip(predictions, decoded, strict=True):
                prediction["no_answer_probability"] = float(each.null_odds)
        return predictions, references

    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        return self.compute_metrics(*self.predictions_and_references(outputs, features, examples))

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes SQuAD's metrics in per cent.

        Metrics of 2.0 use ``null_score_diff_threshold``; the search for the best threshold uses the best span of every
        question, including questions for which no answer is predicted.
        """
        if self._threshold is None:
            return metrics.compute("squad", predictions, references)
        return metrics.compute("squad_v2", predictions, references, no_answer_threshold=self._threshold)

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        if not self.task.version_2_with_negative:
            return self, None
        never = 100 * evaluation.get("eval_NoAns_total", 0) / evaluation["eval_total"]
        if evaluation["eval_best_f1"] <= never:
            return self, (
                f"warning: predicting no answer for every question scores best on the validation set (F1 {never:.2f}), "
                "with every threshold; train longer, or on more data. `bertkit predict` uses threshold "
                f"{self._threshold}"
            )
        threshold = evaluation["eval_best_f1_thresh"]
        return self.with_settings(predict_threshold=threshold), (
            f"`bertkit predict` predicts no answer if its score exceeds the best span's by more than {threshold:.4g}, "
            f"the best threshold on the validation set; scores and files of this run use {self._threshold}"
        )

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        return write_answers(folder, examples["id"], self._decoded(outputs, features, examples), self._threshold)

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
        return texts_of(table, self._names)

    def line(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['answer'] or '(no answer)'}\t{prediction['probability']:.4f}"


@strata.register(QuestionAnsweringTask)
def _(task: QuestionAnsweringTask, examples: Dataset) -> list[bool] | None:
    """Returns whether each question has an answer, if some may have none."""
    if not task.task.version_2_with_negative:
        return None
    return [bool(answers["text"]) for answers in examples["answers"]]
