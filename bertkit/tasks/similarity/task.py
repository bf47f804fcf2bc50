"""Sentence similarity: vectors whose cosine tells how alike two texts are (SBERT, Reimers and Gurevych 2019).

The data are scored pairs, pairs, triplets, or premises with labels (NLI). The losses are those of
sentence-transformers, see `bertkit.tasks.similarity.losses`.

Dimension letters: N inputs, B examples of a batch, C texts of an example, S tokens, H numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit import metrics
from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.labels import labelled
from bertkit.metrics.ranking import SCORES, mean_scores, ranking_scores, unit
from bertkit.runtime.errors import DataError, noted, raise_all
from bertkit.tasks.base import Outputs, PerExampleTask, labels_of, texts_of
from bertkit.tasks.batches import grouped, padded_lists
from bertkit.tasks.folds import groups
from bertkit.tasks.similarity.columns import label_values, read_texts, settled_columns
from bertkit.tasks.similarity.settings import TaskSettings
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.table_data import TableData, TableTask

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TRIPLET_ACCURACY = "triplet_accuracy"
"""Name of the share of examples whose positive is nearer than all negatives."""
_SCORED_FORMS = ("scored_pairs", "nli")  # whose cosines are compared with scores; others rank texts
_CLASSES = 3  # of NLI


@dataclass(frozen=True, kw_only=True)
class DataSettings(TableData):
    """Source of the table rows; ``max_seq_length`` limits the tokens of each text."""


class SimilarityTask(TableTask, PerExampleTask):
    """Vectors of sentences, compared by their cosine."""

    kind: ClassVar[str] = "similarity"
    Settings = TaskSettings
    data_settings = DataSettings
    head = "BertModel"
    pipeline_tag = "sentence-similarity"
    joins_batch = True
    settings: TaskSettings
    data: DataSettings

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        return "spearmanr" if self.settings.form in _SCORED_FORMS else SCORES[0]

    def config(self) -> dict[str, Any]:
        return {}

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        if "train" in (self.splits if splits is None else splits):
            from bertkit.tasks.similarity.losses import check_extra

            check_extra()
        return super().load(splits)

    def learn_from_table(self, table: Table) -> tuple[Self, tuple[str, ...]]:
        form, texts, label = self.settings.form, self.settings.text_columns, self.settings.label_column
        fits = (label is None) == (form in ("pairs", "triplets")) and len({*texts, label}) > len(texts)
        if form is not None and fits and (len(texts) > 2 if form == "triplets" else len(texts) == 2):
            return self, ()
        try:
            changes, line = settled_columns(self.settings, table)
            return self.with_settings(**changes), (line,)
        except ValueError as error:
            raise DataError(f"task.{error}") from error

    def readable(self, table: Table) -> Table:
        label = self.settings.label_column
        table = table.with_names(filter(None, [label]))
        return labelled(table, str(label), self.settings.label_names) if label in table.columns else table

    def read_split(self, name: str, table: Table) -> Split:
        columns: dict[str, list[Any]] = {}
        faults: list[str] = []
        label, table = self.settings.label_column, self.readable(table)
        with noted(faults):
            columns = self.columns_of(table)
        # Pairs and triplets need no column of labels.
        if name != "test" or label is None or not all(map(is_missing, table.columns.get(label, ()))):
            with noted(faults):
                columns["labels"] = label_values(self.settings, table, is_trained=name == "train")
        raise_all(faults)
        return Split.of_table(columns, table)

    def columns_of(self, table: Table) -> dict[str, list[Any]]:
        """Returns ``texts``: a list of texts per row."""
        names = self.settings.text_columns
        return {"texts": read_texts(table.with_names(names), names)}

    # ---- encode → (model) → decode → score --------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes as `Task.encode`; each input column holds a list per example, with one input per text.

        ``length`` and ``full_length`` are those of the longest text of an example, to which the others are padded.
        ``text_ids`` of labelled pairs and triplets, a number per text, keeps equal texts out of a batch of the
        training, see `bertkit.training.distinct`.
        """
        flat = [text for texts in examples["texts"] for text in texts]
        whole = tokenizer(flat, truncation=False, padding=False, verbose=False, return_token_type_ids=True)
        lengths = list(map(len, whole["input_ids"]))
        limit, cut = self.data.max_seq_length, whole
        if max(lengths, default=0) > limit:
            cut = tokenizer(flat, truncation=True, max_length=limit, padding=False, return_token_type_ids=True)
        features = grouped({**cut, "whole": lengths}, list(map(len, examples["texts"])))
        features["full_length"] = list(map(max, features.pop("whole")))
        features["length"] = [max(map(len, row)) for row in features["input_ids"]]
        if "labels" in examples:
            features["labels"] = list(examples["labels"])
            if self.settings.form not in _SCORED_FORMS:
                features["text_ids"] = [[hash(tuple(ids)) for ids in row] for row in features["input_ids"]]
        return features

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`, with inputs (B, C, S); fewer than C texts are followed by copies of the last."""
        most = max(len(row["input_ids"]) for row in rows)
        return labels_of(rows) | padded_lists(rows, tokenizer, inputs, most)

    def prepare(self, model: PreTrainedModel) -> None:
        from bertkit.tasks.similarity.losses import SentenceForward, add_classifier

        size = model.config.hidden_size
        if self.settings.matryoshka_dims and max(self.settings.matryoshka_dims) > size:
            raise DataError(
                f"task.matryoshka_dims: {max(self.settings.matryoshka_dims)} numbers of a vector, which has {size}; "
                "give smaller ones"
            )
        if self.settings.form == "nli":
            add_classifier(model, _CLASSES)
        model.forward = SentenceForward(model, self.settings)

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss as `Task.loss`: the mean of the batch that is computed at once, weighted by its items."""
        from bertkit.tasks.similarity.losses import loss_of_vectors

        if self.settings.form == "nli":
            return super().loss(outputs, batch, count)
        if "loss" in outputs:
            mean = outputs["loss"]
        else:
            vectors, labels = outputs["embeddings"].float(), batch["labels"]
            if not vectors.requires_grad:  # rows that are trained all have labels, and to look would wait for a GPU
                is_labelled = ~labels.isnan()
                if not is_labelled.any():
                    return vectors.sum() * 0
                vectors, labels = vectors[is_labelled], labels[is_labelled]
            mean = loss_of_vectors(self.settings, vectors, labels)
        return mean * self.count(batch) / count

    def _vectors(self, outputs: Outputs) -> np.ndarray:
        """Returns the vectors of texts, (N, C, H); texts beyond those of an example hold anything."""
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns ``similarity``, the cosine of the first two texts in [-1, 1]; with more texts, ``similarities`` of
        the first one with each of the others."""
        rows = list(self._cosines(outputs, examples))
        return [
            {"similarity": row[0]} if len(row) == 1 else {"similarity": row[0], "similarities": row} for row in rows
        ]

    def _cosines(self, outputs: Outputs, examples: Columns) -> Iterator[list[float]]:
        """Yields the cosines of the first text of each example with its others."""
        vectors = unit(self._vectors(outputs).astype(np.float64))
        cosines = np.einsum("nh,nch->nc", vectors[:, 0], vectors[:, 1:])
        for row, texts in zip(cosines, examples["texts"], strict=True):
            yield row[: len(texts) - 1].clip(-1, 1).tolist()

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns cosines and scores, N each; or, of pairs and triplets, N rows of 6 numbers, and ones.

        A row has the weight and the `SCORES` of the query of an example, and whether its positive is nearer than its
        negatives (NaN without negatives). A query is the first text, ranked are all other texts of the split, and
        relevant the positives of all examples with the same query. Only the first example of a query has a weight, 1,
        so that intervals are those of queries.
        """
        if self.settings.form in _SCORED_FORMS:
            return [row[0] for row in self._cosines(outputs, examples)], list(map(float, features["labels"]))
        rows, vectors = list(map(list, examples["texts"])), self._vectors(outputs)
        # Where queries and documents first occur, and so their vectors.
        queries: dict[str, int] = {}
        documents: dict[str, tuple[int, int]] = {}
        for row, (query, *others) in enumerate(rows):
            queries.setdefault(query, row)
            for column, text in enumerate(others, 1):
                documents.setdefault(text, (row, column))
        number_of_query = {text: number for number, text in enumerate(queries)}
        number_of_document = {text: number for number, text in enumerate(documents)}
        relevant: list[set[int]] = [set() for _ in queries]
        for query, positive, *_ in rows:
            relevant[number_of_query[query]].add(number_of_document[positive])
        of_documents = np.stack([vectors[place] for place in documents.values()])
        of_queries = ranking_scores(vectors[list(queries.values()), 0], of_documents, relevant)
        # Back to the examples.
        scores = of_queries[[number_of_query[texts[0]] for texts in rows]]
        weights = np.isin(np.arange(len(rows)), list(queries.values()))
        nearer = [float(row[0] > max(row[1:])) if len(row) > 1 else np.nan for row in self._cosines(outputs, examples)]
        return list(np.column_stack([weights, scores, nearer])), [1.0] * len(rows)

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        if self.settings.form in _SCORED_FORMS:
            scores = metrics.compute("glue/stsb", predictions, references)
            return {name: scores[name] for name in ("spearmanr", "pearson")}
        rows = np.asarray(predictions, dtype=np.float64)
        scores = mean_scores(rows[:, :-1])
        nearer = rows[:, -1]
        if not np.isnan(nearer).any():
            scores[TRIPLET_ACCURACY] = float(nearer.mean())
        return scores

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        if np.ndim(values) == 2:  # of rankings: nDCG
            return [float(row[1]) for row in values]
        return super().to_labels(values)

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]:
        """Parses lines of two or more texts, separated by tabs."""
        rows = [line.split("\t") for line in lines]
        for number, row in enumerate(rows, first):
            if len(row) < 2 or not all(field.strip() for field in row):
                raise DataError(
                    f"input {number}: expected two or more texts, separated by tabs, none of them empty; the vector of "
                    "one text is written by bertkit embed"
                )
        return {"texts": rows}


@texts_of.register(SimilarityTask)
def _(task: SimilarityTask, examples: Columns) -> dict[str, list[str]]:
    columns = map(list, zip(*examples["texts"], strict=True))
    return dict(zip(task.settings.text_columns, columns, strict=False))  # no columns without examples


@groups.register(SimilarityTask)
def _(task: SimilarityTask, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the first texts, such as queries, unless a column is given."""
    if task.data.group_column is None:
        return [texts[0] for texts in examples["texts"]]
    return groups.dispatch(TableTask)(task, examples)
