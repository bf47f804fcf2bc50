"""Reranking: a model reads a query and a passage together and scores how well the passage answers it (a cross-encoder).

The model reads [CLS] query [SEP] passage [SEP] (Nogueira and Cho 2019). Its logit is learnt with the binary
cross-entropy of the relevance, which is that of sentence-transformers' ``BinaryCrossEntropyLoss``: that class tokenizes
texts itself, and so cannot be given batches of encoded inputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.labels import labelled
from bertkit.metrics import MetricSettings
from bertkit.metrics.ranking import SCORES, mean_scores, scores_of_ranking
from bertkit.model.checkpoint.encoders import label_fields
from bertkit.runtime.errors import DataError, quoted
from bertkit.runtime.options import check_different, option, setting
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs, one_array
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.classification.settings import DataSettings
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.folds import groups
from bertkit.tasks.similarity.columns import (
    read_texts,
    scores_of,
    texts_and_label,
    usual_negatives,
    usual_texts,
)
from bertkit.tasks.similarity.forms import question_of_numbers
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.table_data import TableTask

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor

_RELEVANT = 0.5  # relevance from which a passage counts as relevant in rankings


@dataclass(frozen=True, kw_only=True)
class TaskSettings(MetricSettings):
    """Columns of the tables. Those that are not set are derived from the training data and stored in the checkpoint."""

    label_names: ClassVar[tuple[str, ...]] = ()  # a score has no classes

    name: str = setting("Name of the task in results.", default="reranking")
    text_columns: list[str] = option(
        "Columns of the query and of the passage; by default those with usual names.",
        factory=list,
        flag="--text-column",
    )
    negative_columns: list[str] = option(
        "Columns of passages that do not answer the query; by default those named negative, negative_1, …",
        factory=list,
        flag="--negative-column",
    )
    label_column: str | None = option(
        "Column of the relevance of the passage, from 0 to 1; by default one with a usual name.", default=None
    )

    def __post_init__(self) -> None:
        if len(self.text_columns) not in (0, 2) or len(set(self.text_columns)) < len(self.text_columns):
            raise ValueError(
                f"text_columns: expected two, the query and the passage, got {', '.join(self.text_columns)}"
            )
        check_different("negative_columns", [*self.text_columns, *self.negative_columns], "column")
        if self.negative_columns and self.label_column:
            raise ValueError("label_column: rows with negatives have no label; remove label_column or negative_columns")


class RerankingTask(TableTask, TextClassification):
    """Scores of pairs of a query and a passage, by which the passages of a query are ranked."""

    kind: ClassVar[str] = "reranking"
    Settings = TaskSettings
    data_settings = DataSettings
    pipeline_tag = "text-ranking"
    main_metric = SCORES[0]
    settings: TaskSettings
    data: DataSettings

    def config(self) -> dict[str, Any]:
        return {**label_fields(["relevance"]), "problem_type": self.problem_type}

    # ---- load -------------------------------------------------------------------------------------------------------

    def learn_from_table(self, table: Table) -> tuple[Self, tuple[str, ...]]:
        settings = self.settings
        if settings.text_columns and (settings.label_column or settings.negative_columns):
            return self, ()
        pair, negatives = settings.text_columns, settings.negative_columns
        pair = pair or usual_texts(list(table.columns), table.source)[:2]
        if not negatives and settings.label_column is None:  # a relevance that is given goes before usual names
            negatives = usual_negatives(table.columns, pair)
        texts, label = texts_and_label(table, [*pair, *negatives], settings.label_column)
        if negatives:
            label = None
        if label is None and len(texts) == 2:
            raise DataError(
                f"{table.source}: pairs of {texts[0]} and {texts[1]} without others to compare with; give a column of "
                "their relevance with --label-column, or passages that do not answer the query with --negative-column"
            )
        is_known = label in table.class_names or settings.label_column is not None
        if label and not is_known and (question := question_of_numbers(texts, label, table)):
            raise DataError(
                f"{table.source}: {question}; write names such as entailment and not_entailment, or give "
                f"--label-column {label} if larger numbers are of passages that answer the query"
            )
        query, passage, *negatives = texts
        more = f"negatives in {quoted(negatives)}" if negatives else f"relevance in {label!r}"
        line = f"columns: queries in {query!r}, passages in {passage!r}, {more}"
        columns = {"text_columns": [query, passage], "negative_columns": negatives, "label_column": label}
        try:
            return self.with_settings(**columns), (line,)
        except ValueError as error:
            raise DataError(f"task.{error}") from error

    def readable(self, table: Table) -> Table:
        settings = self.settings
        table = table.with_names(
            filter(None, (*settings.text_columns, *settings.negative_columns, settings.label_column))
        )
        return labelled(table, str(settings.label_column)) if settings.label_column in table.columns else table

    def read_split(self, name: str, table: Table) -> Split:
        query, passage = self.settings.text_columns
        table = self.readable(table)
        negatives = self.settings.negative_columns
        if negatives and (self._needs_labels(name) or set(negatives) <= set(table.columns)):
            rows = read_texts(table, [query, passage, *negatives])
            pairs = [(row, text, float(text == texts[1])) for row, texts in enumerate(rows) for text in texts[1:]]
            columns: dict[str, list[Any]] = {
                query: [rows[row][0] for row, _, _ in pairs],
                passage: [text for _, text, _ in pairs],
                "labels": [label for _, _, label in pairs],
            }
            places: Sequence[Any] = table.numbers_of_rows
            return replace(Split.of_table(columns, table), numbers=[places[row] for row, _, _ in pairs])
        read = read_texts(table, [query, passage])
        columns = {query: [row[0] for row in read], passage: [row[1] for row in read]}
        if self._needs_labels(name) or not all(map(is_missing, table.columns.get(str(self.settings.label_column), ()))):
            columns["labels"] = self._relevance(table, columns[query], is_trained=name == "train")
        return Split.of_table(columns, table)

    def _relevance(self, table: Table, queries: Sequence[str], *, is_trained: bool) -> list[Any]:
        """Reads the relevance of each row; DataError if one is not from 0 to 1, or none of a query is relevant."""
        column = str(self.settings.label_column)
        scores = scores_of(table, column, "give passages that do not answer their query too" if is_trained else None)
        outside = next((row for row, score in enumerate(scores) if not 0 <= score <= 1), None)
        if outside is not None:
            raise DataError(
                f"{table.place(outside)}: {column} is {scores[outside]:g}; expected a relevance from 0 to 1; divide "
                "larger scores by the largest one"
            )
        answered = {query for query, score in zip(queries, scores, strict=True) if score >= _RELEVANT}
        without = [row for row, query in enumerate(queries) if query not in answered]
        if without:
            number = counted(len({queries[row] for row in without}), "query has", "queries have")
            raise DataError(
                f"{table.place(without[0])}: {number} no relevant passage, first {queries[without[0]][:60]!r}; remove "
                f"the rows of such a query, or add a passage whose {column} is 1"
            )
        return scores

    # ---- loss and scores --------------------------------------------------------------------------------------------

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the binary cross-entropy of the relevance as `Task.loss`."""
        from bertkit.model.loss_bert import loss_of_problem

        return loss_of_problem("multi_label_classification", outputs["logits"], batch["labels"][:, None], count)

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns the ``score`` of each pair, in (0, 1), as sentence-transformers' ``CrossEncoder`` does."""
        return [{"score": float(value)} for value in sigmoid(one_array(outputs)[:, 0])]

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns for each pair the weight and the `SCORES` of its query, N rows of 5 numbers, and its relevance.

        Only the first pair of a query has a weight, 1, so that intervals are those of queries; none if no passage of
        the query is relevant. Of passages with the same score a relevant one is ranked last: the model does not tell
        them apart, and data often have the relevant one first.
        """
        logits, labels = one_array(outputs)[:, 0], np.asarray(features["labels"], dtype=np.float64)
        of_query: dict[str, list[int]] = {}
        for row, query in enumerate(examples[self.settings.text_columns[0]]):
            of_query.setdefault(query, []).append(row)
        rows = np.zeros((len(logits), 1 + len(SCORES)))
        for members in of_query.values():
            ranked = sorted(members, key=lambda row: (-logits[row], labels[row]))
            is_relevant = labels[ranked] >= _RELEVANT
            if is_relevant.any():
                rows[members, 1:] = scores_of_ranking(is_relevant, int(is_relevant.sum()))
                rows[members[0], 0] = 1
        return list(rows), labels.tolist()

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        return mean_scores(np.asarray(predictions, dtype=np.float64))

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        return [float(row[1]) if np.ndim(row) else float(row) for row in values]


@groups.register(RerankingTask)
def _(task: RerankingTask, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the queries, or the values of a column of the table; a row with negatives is several examples."""
    if task.data.group_column is None:
        return list(examples[task.settings.text_columns[0]])
    of_row = 1 + len(task.settings.negative_columns) if "labels" in examples.column_names else 1
    of_rows = groups.dispatch(TableTask)(task, examples) or ()
    return [value for value in of_rows for _ in range(of_row)][: len(examples)]
